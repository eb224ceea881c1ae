package encode

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"queen/encode/rowstest"
	"queen/stages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is a sorted window in memory.
type log struct {
	bodies []rowstest.Append
	names  map[stages.PartitionID]string
}

func (l *log) rows(readers int) Rows {
	list := l.listing()
	return Rows{Appends: list.Appends, List: &list, Read: l.read, Readers: readers, Queue: "orders", Tenant: "t"}
}

// listing is the sorted listing of the window. The place of an append is that in bodies.
func (l *log) listing() stages.Listing {
	var list stages.Listing
	for i, b := range l.bodies {
		part := slices.IndexFunc(list.Parts, func(p stages.Part) bool { return p.ID == b.H.Partition })
		if part < 0 {
			part = len(list.Parts)
			list.Parts = append(list.Parts, stages.Part{ID: b.H.Partition, Name: l.names[b.H.Partition]})
		}
		if i == 0 {
			list.MinTS, list.MaxTS = b.H.TS, b.H.TS
		}
		list.MinTS, list.MaxTS = min(list.MinTS, b.H.TS), max(list.MaxTS, b.H.TS)
		list.Records += int64(b.H.Count)
		list.Weight += int64(b.H.Weight)
		list.Appends = append(list.Appends, stages.Append{Part: uint32(part), Off: uint32(i), Len: uint32(b.H.Weight)})
	}
	return list
}

func (l *log) read(ctx context.Context, appends []stages.Append, into func(int, stages.Body) error) error {
	return rowstest.Read(l.bodies)(ctx, appends, into)
}

// add appends one push to a partition.
func (l *log) add(id stages.PartitionID, name string, ts stages.Micros, base int64, records ...stages.Record) {
	if l.names == nil {
		l.names = map[stages.PartitionID]string{}
	}
	l.names[id] = name
	h := stages.Header{TS: ts, Partition: id, Base: base, Count: int32(len(records))}
	for i := range records {
		records[i].Offset = base + int64(i)
		h.Weight += int32(stages.RecordWeight(len(records[i].TxID), len(name), len(records[i].Payload)))
		for _, c := range records[i].Payload {
			if c == '\n' || c == '\r' {
				h.Flags |= stages.FlagLineBreaks
			}
		}
	}
	l.bodies = append(l.bodies, rowstest.Append{H: h, All: records})
}

func record(txID, payload string) stages.Record {
	return stages.Record{TxID: []byte(txID), Payload: []byte(payload)}
}

// large is a window of some megabytes that is always the same: partitions with appends of 1 to 20 records.
func large(seed uint64, appends int) *log {
	r := rand.New(rand.NewPCG(seed, 1))
	l := &log{}
	partitions := max(appends/40, 1)
	for p := range partitions {
		ts, base := stages.Micros(1791007200000000), int64(r.IntN(1000))
		for range appends / partitions {
			ts += stages.Micros(1 + r.IntN(1_000_000))
			var records []stages.Record
			for range 1 + r.IntN(20) {
				records = append(records, record(fmt.Sprintf("%016x", r.Uint64()),
					fmt.Sprintf(`{"order":%d,"status":"status %d","total":%d.%02d}`, r.IntN(1e6), r.IntN(9), r.IntN(1000), r.IntN(100))))
			}
			l.add(stages.PartitionID(p+1), fmt.Sprintf("cust-%06d", p), ts, base, records...)
			base += int64(len(records))
		}
	}
	return l
}

// odd is a small window of everything that is hard about a line.
func odd() *log {
	l := &log{}
	l.add(1, "", 1791009457501942, 0, record("t1", `{ "a" : 1, "h":"<a>&", "n":9007199254740993123, "t":42.00, "u":"\u00e9\/", "ls":"`+"\u2028"+`" }`))
	l.add(2, "a\"\\\x01\x1f\b\f\n\r\t/\x7f", -1, 5, record("t\"2", "{\r\n \"a\":\r1\n}"), record("t3", ""), record("t4", "null"))
	l.add(3, "b", 0, 0, record("old incarnation", `"x"`))
	l.add(4, "b", 253402300799999999, 0, record("new incarnation", `-0`), record("", `1E+400`))
	l.add(5, "ключ", 1791009457501942, 1<<62, record("😀", `[1,1,{"k":1,"k":2}]`))
	return l
}

func formats(t *testing.T) []Format {
	t.Helper()
	all := Formats()
	if len(all) < 3 {
		t.Fatalf("%d formats", len(all))
	}
	return all
}

func collect(t *testing.T, seq iter.Seq2[Row, error]) []Row {
	t.Helper()
	var out []Row
	for row, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		row.Payload = slices.Clone(row.Payload)
		out = append(out, row)
	}
	return out
}
