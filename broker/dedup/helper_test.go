package dedup_test

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"queen/broker/dedup"
	"queen/stages"
)

// numbered is the hash of one of many ids.
func numbered(i int) dedup.Hash { return dedup.HashOf([]byte{byte(i), byte(i >> 8), byte(i >> 16)}) }

// memTx is a Tx in a map. Gets counts look-ups.
type memTx struct {
	rows map[string]string
	gets int
}

var _ dedup.Tx = (*memTx)(nil)

func newTx() *memTx { return &memTx{rows: make(map[string]string)} }

func (m *memTx) Get(key []byte, read func(row []byte) error) error {
	m.gets++
	if v, ok := m.rows[string(key)]; ok {
		return read([]byte(v))
	}
	return nil
}

func (m *memTx) Append(key, value []byte) error {
	m.rows[string(key)] += string(value)
	return nil
}

func (m *memTx) DeleteRange(lower, upper []byte) error {
	maps.DeleteFunc(m.rows, func(k, _ string) bool { return k >= string(lower) && k < string(upper) })
	return nil
}

func (m *memTx) scan(lower, upper []byte, fn func(key, value []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(m.rows)) {
		if k >= string(lower) && k < string(upper) && !fn([]byte(k), []byte(m.rows[k])) {
			break
		}
	}
	return nil
}

const (
	second = stages.Micros(1_000_000)
	hour   = 3600 * second
)

// mode says when a store moves its ids from RAM to rows.
type mode string

const (
	inRAM  mode = "ids in RAM" // but for the first of a bucket, as in broker/state
	inRows mode = "ids in rows"
	single mode = "rows of an earlier build" // those that are inserted while it is set
)

func modes() []mode { return []mode{inRAM, inRows, single} }

// store is one queue's ids.
type store struct {
	t      *testing.T
	mode   mode
	tx     *memTx
	queue  stages.QueueID
	shared *dedup.Shared
	index  *dedup.Index
	p      stages.PartitionID
}

func newStore(t *testing.T, m mode, tx *memTx, queue stages.QueueID) *store {
	shared := &dedup.Shared{Left: 1 << 20, Seed: [16]byte{7, 15: 9}}
	return &store{t: t, mode: m, tx: tx, queue: queue, shared: shared, index: dedup.NewIndex(queue, shared), p: 2}
}

func (s *store) insert(tx string, offset int64, now, horizon stages.Micros) {
	s.t.Helper()
	r := dedup.Record{Offset: offset, Stamp: now, ID: [16]byte{byte(offset)}}
	if s.mode == single {
		s.insertSingle(tx, r)
		return
	}
	if err := s.index.Insert(s.tx, s.p, dedup.HashOf([]byte(tx)), r, horizon); err != nil {
		s.t.Fatal(err)
	}
	if _, begun := s.index.Pending(); begun || s.mode == inRows {
		s.store()
	}
}

func (s *store) store() {
	s.t.Helper()
	if err := s.index.Store(s.tx); err != nil {
		s.t.Fatal(err)
	}
}

// insertSingle writes the row that earlier builds wrote of an id, and reads the index anew.
func (s *store) insertSingle(tx string, r dedup.Record) {
	h := dedup.HashOf([]byte(tx))
	key := binary.BigEndian.AppendUint64([]byte{'D'}, uint64(s.queue))
	key = binary.BigEndian.AppendUint32(key, uint32(r.Stamp/hour))
	key = append(binary.BigEndian.AppendUint64(key, uint64(s.p)), h[:]...)
	value := binary.BigEndian.AppendUint64([]byte{1}, uint64(r.Offset))
	value = append(binary.BigEndian.AppendUint64(value, uint64(r.Stamp)), r.ID[:]...)
	s.tx.rows[string(key)] = string(value)
	s.index = s.load(s.queue, 0, 1<<20, 1000)
}

func (s *store) want(tx string, now, window stages.Micros, offset int64) {
	s.t.Helper()
	r, found, err := s.index.Find(s.tx, s.p, dedup.HashOf([]byte(tx)), now, window)
	if err != nil {
		s.t.Fatal(err)
	}
	if found != (offset >= 0) || found && (r.Offset != offset || r.ID != [16]byte{byte(offset)}) {
		s.t.Errorf("%s: id %s at %d, window %d: found %v %+v, want offset %d", s.mode, tx, now, window, found, r, offset)
	}
}

// load is the index that a boot makes of the rows.
func (s *store) load(queue stages.QueueID, since stages.Micros, memory int64, budget int) *dedup.Index {
	s.t.Helper()
	s.shared = &dedup.Shared{Left: memory, Seed: s.shared.Seed}
	x, err := dedup.Load(queue, s.shared, s.tx.scan, since, &budget, s.index.Stored())
	if err != nil {
		s.t.Fatal(err)
	}
	return x
}

func (m *memTx) count(table byte) (rows int) {
	for k := range m.rows {
		if k[0] == table {
			rows++
		}
	}
	return rows
}
