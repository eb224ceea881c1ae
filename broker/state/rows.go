package state

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"queen/broker/command"
	"queen/broker/command/wire"
	"queen/broker/seal"
	"queen/broker/segment"
	"queen/stages"
)

// Table bytes of the rows that this package owns (docs/formats.md section 5). `K` and `X` belong to broker/kv, `I` and
// `D` to broker/dedup.
const (
	tableMeta            = 'M'
	tableQueueByName     = 'N'
	tableQueue           = 'Q'
	tablePartitionByName = 'P'
	tablePartition       = 'R'
	tableTail            = 'T'
	tableHeads           = 'H'
	tableIDs             = 'U'
	tableRemoved         = 'W'
	tableHidden          = 'Z'
	tableDropped         = 'F'
	tableLost            = 'L'

	rowVersion = 1

	// sealedVersion is that of a Q row which names a key.
	sealedVersion = 2

	// headsVersion is that of H rows. An H row of version 1 is from before anything was ever removed.
	headsVersion = 2

	// metaVersion keeps builds away that do not know all tables: table I came with 2, and what was removed (W, Z, F, L) with 3.
	metaVersion = 3
)

// meta is the one row of table M: how far the state is, and its counters.
type meta struct {
	applied       uint64        // raft index
	now, led      stages.Micros // log clock, led clock
	nextQueue     uint64
	nextPartition uint64
	nextVersion   uint64   // of documents
	seed          [16]byte // zero before the cluster was founded
}

func (m *meta) append(dst []byte) []byte {
	dst = append(dst, metaVersion)
	for _, n := range []uint64{m.applied, uint64(m.now), uint64(m.led), m.nextQueue, m.nextPartition, m.nextVersion} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return append(dst, m.seed[:]...)
}

func decodeMeta(row []byte) (m meta, err error) {
	if len(row) > 0 && (row[0] == 2 || row[0] == metaVersion) {
		row = append([]byte{rowVersion}, row[1:]...) // the same fields
	}
	r, err := versioned(row)
	if err != nil {
		return m, err
	}
	m = meta{applied: r.U64(), now: stages.Micros(r.I64()), led: stages.Micros(r.I64()),
		nextQueue: r.U64(), nextPartition: r.U64(), nextVersion: r.U64(), seed: r.ID()}
	return m, r.End()
}

// QueueRow is what is configured of a queue, and what its sealed payloads are sealed with. It is never changed, only replaced.
type QueueRow struct {
	ID              stages.QueueID
	Tenant          [16]byte
	Name            string
	Namespace, Task string
	Created         stages.Micros
	Config          uint64           // version: the queue's id in the upper 32 bits, and below it 1 more with every configure command; builds before 0.1 began at 1
	Options         []command.Option // those that were given a value, by number; see Option for the others
	// Key is the fingerprint of the key that all sealed payloads of the queue are sealed with: that of the first one; 0 = there was none yet.
	Key seal.Fingerprint
}

func (q *QueueRow) append(dst []byte) []byte {
	if q.Key == 0 {
		dst = append(dst, rowVersion)
	} else {
		dst = binary.BigEndian.AppendUint64(append(dst, sealedVersion), uint64(q.Key))
	}
	dst = append(dst, q.Tenant[:]...)
	dst = wire.AppendString(dst, q.Name)
	dst = wire.AppendString(dst, q.Namespace)
	dst = wire.AppendString(dst, q.Task)
	dst = binary.BigEndian.AppendUint64(dst, uint64(q.Created))
	dst = binary.BigEndian.AppendUint64(dst, q.Config)
	return command.AppendOptions(dst, q.Options)
}

func decodeQueue(id stages.QueueID, row []byte) (*QueueRow, error) {
	var key seal.Fingerprint
	if len(row) > 8 && row[0] == sealedVersion {
		key = seal.Fingerprint(binary.BigEndian.Uint64(row[1:]))
		row = append([]byte{rowVersion}, row[9:]...)
	}
	r, err := versioned(row)
	if err != nil {
		return nil, err
	}
	q := &QueueRow{ID: id, Key: key, Tenant: r.ID(), Name: r.String(), Namespace: r.String(), Task: r.String(),
		Created: stages.Micros(r.I64()), Config: r.U64(), Options: command.ReadOptions(r)}
	return q, r.End()
}

// Partition is one incarnation of a partition.
type Partition struct {
	ID      stages.PartitionID
	Name    string
	Created stages.Micros
	Next    int64         // offset of the next record: the high watermark
	Start   int64         // lowest offset that is kept
	Last    stages.Micros // stamp of the last append; 0 = never written
}

func (p *Partition) append(dst []byte) []byte {
	dst = append(dst, rowVersion)
	dst = wire.AppendString(dst, p.Name)
	for _, n := range []int64{int64(p.Created), p.Next, p.Start, int64(p.Last)} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	return dst
}

func decodePartition(id stages.PartitionID, row []byte) (p Partition, err error) {
	r, err := versioned(row)
	if err != nil {
		return p, err
	}
	p = Partition{ID: id, Name: r.String(), Created: stages.Micros(r.I64()),
		Next: r.I64(), Start: r.I64(), Last: stages.Micros(r.I64())}
	return p, r.End()
}

func appendTail(t segment.Tail, last stages.Micros) []byte {
	return binary.BigEndian.AppendUint64(appendPlace(t), uint64(last))
}

func decodeTail(row []byte) (t segment.Tail, last stages.Micros, err error) {
	r, err := versioned(row)
	if err != nil {
		return t, 0, err
	}
	t, last = segment.Tail{Seg: r.U32(), Len: r.I64()}, stages.Micros(r.I64())
	return t, last, r.End()
}

// appendPlace begins a row with a place in a queue's log.
func appendPlace(t segment.Tail) []byte {
	b := binary.BigEndian.AppendUint32([]byte{rowVersion}, t.Seg)
	return binary.BigEndian.AppendUint64(b, uint64(t.Len))
}

// heads says what the R rows of a queue know.
type heads struct {
	below   segment.Tail  // they count every frame below this place
	removed stages.Micros // their lowest offsets are those with everything removed that is stamped below
}

func (h heads) append() []byte {
	b := appendPlace(h.below)
	b[0] = headsVersion
	return binary.BigEndian.AppendUint64(b, uint64(h.removed))
}

func decodeHeads(row []byte) (h heads, err error) {
	if len(row) > 0 && row[0] == headsVersion {
		r := wire.NewReader(row[1:])
		h = heads{segment.Tail{Seg: r.U32(), Len: r.I64()}, stages.Micros(r.I64())}
		return h, r.End()
	}
	r, err := versioned(row)
	if err != nil {
		return h, err
	}
	h.below = segment.Tail{Seg: r.U32(), Len: r.I64()}
	return h, r.End()
}

// versioned returns a reader of what follows the version byte of a row.
func versioned(row []byte) (*wire.Reader, error) {
	if len(row) == 0 || row[0] != rowVersion {
		return nil, fmt.Errorf("unknown row version in %x", row[:min(len(row), 1)])
	}
	return wire.NewReader(row[1:]), nil
}

// queueKey is the key of a row that a table has per queue.
func queueKey(table byte, q stages.QueueID) []byte {
	return binary.BigEndian.AppendUint64([]byte{table}, uint64(q))
}

func queueNameKey(tenant [16]byte, name string) []byte {
	return append(append([]byte{tableQueueByName}, tenant[:]...), name...)
}

func partitionKey(q stages.QueueID, p stages.PartitionID) []byte {
	return binary.BigEndian.AppendUint64(queueKey(tablePartition, q), uint64(p))
}

func partitionNameKey(q stages.QueueID, name string) []byte {
	return append(queueKey(tablePartitionByName, q), name...)
}

// appendID is the value of a row that leads from a name to an id.
func appendID(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{rowVersion}, id)
}

// get returns a copy of a row, nil when there is none.
func get(r pebble.Reader, key []byte) ([]byte, error) {
	v, done, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, damage(err)
	}
	row := append([]byte{}, v...)
	return row, done.Close()
}

// scan calls fn for each row with lower <= key < upper, in byte order, until it returns false.
func scan(r pebble.Reader, lower, upper []byte, fn func(key, value []byte) bool) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return damage(err)
	}
	for ok := it.First(); ok && fn(it.Key(), it.Value()); ok = it.Next() {
	}
	err = it.Error()
	if closing := it.Close(); err == nil { // it repeats the error that ended the loop
		err = closing
	}
	return damage(err)
}

// damage names the file in an error that pebble found in one: its own text does not.
func damage(err error) error {
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return fmt.Errorf("%s: %w: %v", info.Path, stages.ErrDamaged, info.Details)
	}
	return err
}
