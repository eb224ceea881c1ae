package state

import (
	"bytes"
	"testing"

	"queen/broker/command"
	"queen/broker/segment"
	"queen/internal/hostile"
)

// FuzzRows: a row that is read is, written again, the same bytes; so no row is read with a byte too few or too many. Of an earlier
// version of the meta row all but the version is. Reading a row allocates a few times its size.
func FuzzRows(f *testing.F) {
	q := &QueueRow{ID: 9, Tenant: [16]byte{1}, Name: "a.b", Namespace: "a", Task: "b", Created: 2, Config: 3, Options: append(PushDefaults(),
		command.Option{Number: command.OptRetentionEnabled, Type: command.TypeBool, Bool: true},
		command.Option{Number: command.OptRetentionSinkHold, Type: command.TypeString, Str: "lake"})}
	p := Partition{ID: 8, Name: "ключ/%", Created: 1, Next: 1 << 40, Start: 7, Last: 3}
	m := meta{applied: 1, now: 2, led: 3, nextQueue: 4, nextPartition: 5, nextVersion: 6, seed: [16]byte{7}}
	for kind, row := range [][]byte{m.append(nil), q.append(nil), p.append(nil), appendTail(segment.Tail{Seg: 1, Len: 2}, 3), heads{segment.Tail{Seg: 1, Len: 2}, 3}.append(),
		appendRemoved(exampleRemoved()), appendDropped(segment.Dropped{{From: 1, To: 2}, {From: 5, To: 9}}), appendHidden(7, exampleHolders()), exampleLost().append()} {
		f.Add(byte(kind), row)
		f.Add(byte(kind), append([]byte{2}, row[1:]...))
		f.Add(byte(kind), row[:len(row)-1])
	}
	f.Add(byte(0), append([]byte{1}, m.append(nil)[1:]...)) // as an earlier build wrote it
	f.Add(byte(1), append(append([]byte{1}, make([]byte, 16)...), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f))
	f.Fuzz(func(t *testing.T, kind byte, row []byte) {
		again := row
		hostile.Bounded(t, len(row), 64, func() {
			switch kind % 9 {
			case 0:
				if m, err := decodeMeta(row); err == nil {
					again = append(row[:1:1], m.append(nil)[1:]...)
				}
			case 1:
				if q, err := decodeQueue(9, row); err == nil {
					again = q.append(nil)
				}
			case 2:
				if p, err := decodePartition(8, row); err == nil {
					again = p.append(nil)
				}
			case 3:
				if tail, last, err := decodeTail(row); err == nil {
					again = appendTail(tail, last)
				}
			case 4:
				if h, err := decodeHeads(row); err == nil {
					if again = h.append(); row[0] == 1 { // of an earlier build
						again = appendPlace(h.below)
					}
				}
			case 5:
				if r, err := decodeRemoved(row); err == nil {
					again = appendRemoved(r)
				}
			case 6:
				if d, err := decodeDropped(row); err == nil {
					again = appendDropped(d)
				}
			case 7:
				if at, holders, err := decodeHidden(row); err == nil {
					again = appendHidden(at, holders)
				}
			case 8:
				if l, err := decodeLost(nil, make([]byte, 16), row); err == nil {
					again = l.append()
				}
			}
		})
		if !bytes.Equal(again, row) {
			t.Errorf("kind %d: %x is read, and written as %x", kind%9, row, again)
		}
	})
}

const leastRecord = 1 + 16 + 1 + 1 // flags, message id, lengths of an empty transaction id and payload

// FuzzPushRecords: of a push that is read, every record of every append is counted and weighed, and nothing but that is allocated. A body
// comes from the log with its checksum right, so it must not be able to do harm whatever it holds.
func FuzzPushRecords(f *testing.F) {
	block := segment.AppendMessage(nil, segment.Message{ID: [16]byte{1}, TxID: []byte("t"), Payload: []byte("42.00")})
	block = segment.AppendMessage(block, segment.Message{ID: [16]byte{2}, Trace: make([]byte, 16), Producer: []byte("p")})
	good := command.Push{Queues: []command.PushQueue{{Name: "q"}}, Appends: []command.PushAppend{{Partition: "p", Count: 2, Block: block}}}
	f.Add(good.Append(nil))
	good.Appends[0].Count = 3 // more than there are
	f.Add(good.Append(nil))
	good.Appends[0].Count, good.Appends[0].Block = 1<<16, bytes.Repeat([]byte{0xff}, 1<<16)
	f.Add(good.Append(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		var p *push
		var err error
		hostile.Bounded(t, len(body), 128, func() { p, err = decodePush(body) })
		if err != nil {
			return
		}
		for i, a := range p.appends {
			if len(a.records) != a.Count || a.Count > len(a.Block)/leastRecord {
				t.Errorf("append %d: %d records of %d in %d bytes", i, len(a.records), a.Count, len(a.Block))
			}
			for k, r := range a.records {
				if r.weight <= 0 {
					t.Errorf("append %d, record %d weighs %d", i, k, r.weight)
				}
			}
		}
	})
}
