package dedup_test

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"slices"
	"testing"

	"queen/broker/dedup"
	"queen/stages"
)

// memTx is a Tx in a map.
type memTx map[string]string

var _ dedup.Tx = memTx{}

func (m memTx) Get(key []byte) ([]byte, error) {
	if v, ok := m[string(key)]; ok {
		return []byte(v), nil
	}
	return nil, nil
}

func (m memTx) Set(key, value []byte) error {
	m[string(key)] = string(value)
	return nil
}

func (m memTx) DeleteRange(lower, upper []byte) error {
	maps.DeleteFunc(m, func(k, _ string) bool { return k >= string(lower) && k < string(upper) })
	return nil
}

func (m memTx) keys(lower, upper []byte, fn func(key []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k >= string(lower) && k < string(upper) && !fn([]byte(k)) {
			break
		}
	}
	return nil
}

const (
	second = stages.Micros(1_000_000)
	hour   = 3600 * second
)

// store is one queue's ids.
type store struct {
	t     *testing.T
	tx    memTx
	index *dedup.Index
	p     stages.PartitionID
}

func newStore(t *testing.T, tx memTx, queue stages.QueueID) *store {
	return &store{t: t, tx: tx, index: dedup.NewIndex(queue, &dedup.Memory{Left: 1 << 20}), p: 2}
}

func (s *store) insert(tx string, offset int64, now, horizon stages.Micros) {
	s.t.Helper()
	r := dedup.Record{Offset: offset, Stamp: now, ID: [16]byte{byte(offset)}}
	if err := s.index.Insert(s.tx, s.p, dedup.HashOf([]byte(tx)), r, horizon); err != nil {
		s.t.Fatal(err)
	}
}

func (s *store) want(tx string, now, window stages.Micros, offset int64) {
	s.t.Helper()
	r, found, err := s.index.Find(s.tx, s.p, dedup.HashOf([]byte(tx)), now, window)
	if err != nil {
		s.t.Fatal(err)
	}
	if found != (offset >= 0) || found && (r.Offset != offset || r.ID != [16]byte{byte(offset)}) {
		s.t.Errorf("id %s at %d, window %d: found %v %+v, want offset %d", tx, now, window, found, r, offset)
	}
}

// load is the index that a boot makes of the rows.
func (s *store) load(queue stages.QueueID, since stages.Micros, memory int64, rows int) *dedup.Index {
	s.t.Helper()
	x, err := dedup.Load(queue, &dedup.Memory{Left: memory}, s.tx.keys, since, &rows)
	if err != nil {
		s.t.Fatal(err)
	}
	return x
}

// TestWindow: a record as old as the window is outside, one a microsecond younger is inside, also over the edge of a bucket.
func TestWindow(t *testing.T) {
	for _, stamp := range []stages.Micros{1, hour - 1, hour, 5*hour + 17} {
		for _, window := range []stages.Micros{second, hour - 1, hour, 3 * hour, 1000 * hour} {
			s := newStore(t, memTx{}, 1)
			s.insert("a", 7, stamp, window)
			s.want("a", stamp, window, 7)
			s.want("a", stamp+window-1, window, 7)
			s.want("a", stamp+window, window, -1)
			s.want("b", stamp, window, -1)
		}
	}
}

// TestNewestCounts: when an id was stored again after its window, the younger record decides and answers.
func TestNewestCounts(t *testing.T) {
	s := newStore(t, memTx{}, 1)
	s.insert("a", 1, 10*second, 2*hour)
	s.insert("a", 2, 20*second, 2*hour)
	s.insert("a", 3, hour+20*second, 2*hour)
	s.want("a", hour+21*second, hour, 3)
	s.want("a", hour+21*second, second, -1)
	s.want("a", hour+21*second, 2*hour, 3)
}

func TestPlaces(t *testing.T) {
	s := newStore(t, memTx{}, 1)
	s.insert("a", 1, hour, hour)
	s.p = 3
	s.want("a", hour, hour, -1)
	other := newStore(t, s.tx, 2)
	other.insert("b", 2, hour, hour)
	other.want("a", hour, hour, -1)
}

// TestDrop: a bucket goes when the queue moves on to a new one and the bucket ended a horizon ago, not before; other queues
// keep theirs.
func TestDrop(t *testing.T) {
	horizon := 2 * hour
	s := newStore(t, memTx{}, 1)
	other := newStore(t, s.tx, 2)
	s.insert("a", 1, hour-1, horizon)
	s.insert("b", 2, hour, horizon)
	other.insert("a", 3, hour-1, horizon)
	s.insert("c", 4, 3*hour-1, horizon) // bucket 0 ended at 1 h, less than 2 h ago
	if len(s.tx) != 4 {
		t.Fatalf("%d rows", len(s.tx))
	}
	s.insert("d", 5, 3*hour, horizon) // now it is
	if len(s.tx) != 4 {
		t.Fatalf("%d rows", len(s.tx))
	}
	s.want("a", 3*hour, 100*hour, -1)
	s.want("b", 3*hour, 100*hour, 2)
	other.want("a", 3*hour, 100*hour, 3)
	s.insert("e", 6, 100*hour, horizon)
	if len(s.tx) != 2 {
		t.Errorf("%d rows", len(s.tx))
	}
}

// TestLoad: an index read off the rows finds what the one that made them finds, with all, some and none of the filters.
func TestLoad(t *testing.T) {
	s := newStore(t, memTx{}, 2)
	for i, at := range []stages.Micros{1, 2, hour, 7 * hour, 8*hour - 1} {
		s.insert(string(rune('a'+i)), int64(i), at, 100*hour)
	}
	newStore(t, s.tx, 1).insert("x", 1, 3*hour, hour)
	newStore(t, s.tx, 3).insert("x", 1, 9*hour, hour)
	for _, memory := range []int64{0, 256, 300, 1 << 20} {
		for _, rows := range []int{0, 1, 2, 3, 100} {
			for _, since := range []stages.Micros{-5, hour, 100 * hour} {
				loaded := store{t: t, tx: maps.Clone(s.tx), index: s.load(2, since, memory, rows), p: s.p}
				for i := range 5 {
					loaded.want(string(rune('a'+i)), 8*hour, 100*hour, int64(i))
				}
				loaded.want("x", 8*hour, 100*hour, -1)
				loaded.insert("f", 9, 8*hour-1, 100*hour)
				loaded.want("f", 8*hour, hour, 9)
				loaded.insert("g", 10, 9*hour, 2*hour)
				loaded.want("f", 9*hour, 2*hour, 9)
				loaded.want("a", 9*hour, 100*hour, -1)
			}
		}
	}
	if x := s.load(4, 0, 0, 0); x == nil {
		t.Error("a queue without ids has no index")
	}
}

// TestFilter: no id is ever denied; few are looked for in vain; the memory is kept to and comes back.
func TestFilter(t *testing.T) {
	const n = 100_000
	memory := dedup.Memory{Left: 1 << 20}
	counting := &countingTx{memTx: memTx{}}
	x := dedup.NewIndex(1, &memory)
	id := func(i int) dedup.Hash { return dedup.HashOf([]byte{byte(i), byte(i >> 8), byte(i >> 16)}) }
	for i := range n {
		if err := x.Insert(counting, stages.PartitionID(i%7), id(i), dedup.Record{Offset: int64(i), Stamp: 1}, hour); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if _, found, err := x.Find(counting, stages.PartitionID(i%7), id(i), 1, hour); !found || err != nil {
			t.Fatalf("id %d: %v %v", i, found, err)
		}
	}
	counting.gets = 0
	for i := range n {
		if _, found, _ := x.Find(counting, stages.PartitionID(i%7+1), id(i), 1, hour); found {
			t.Fatalf("id %d was found in another partition", i)
		}
	}
	if counting.gets > n/20 {
		t.Errorf("%d of %d look-ups in vain", counting.gets, n)
	}
	if used := int64(1<<20) - memory.Left; used > 6*n {
		t.Errorf("%d bytes for %d ids", used, n)
	}
	if err := x.Insert(counting, 1, id(0), dedup.Record{Stamp: 100 * hour}, hour); err != nil {
		t.Fatal(err)
	}
	if used := int64(1<<20) - memory.Left; used > 1024 {
		t.Errorf("%d bytes did not come back", used)
	}
}

// countingTx counts look-ups.
type countingTx struct {
	memTx
	gets int
}

func (c *countingTx) Get(key []byte) ([]byte, error) {
	c.gets++
	return c.memTx.Get(key)
}

func TestDamagedRow(t *testing.T) {
	for _, row := range []string{"", "\x02" + string(make([]byte, dedup.ValueSize-1)), "\x01"} {
		s := newStore(t, memTx{}, 2)
		s.insert("a", 1, 1, hour)
		for k := range s.tx {
			s.tx[k] = row
		}
		if _, _, err := s.index.Find(s.tx, 2, dedup.HashOf([]byte("a")), 2, hour); err == nil {
			t.Errorf("row %q was accepted", row)
		}
	}
}

func TestSpans(t *testing.T) {
	if got := dedup.Seconds(-1); got != 0 {
		t.Errorf("%d", got)
	}
	if got := dedup.Seconds(1 << 62); got <= 0 || got+hour <= got {
		t.Errorf("%d overflows", got)
	}
	for _, tc := range []struct{ window, completed, want int64 }{{0, 0, 900}, {3600, 0, 3600}, {10, 7200, 7200}} {
		if got := dedup.Horizon(tc.window, tc.completed); got != stages.Micros(tc.want)*second {
			t.Errorf("%+v: %d", tc, got)
		}
	}
	sum := sha256.Sum256([]byte("o-1"))
	if h := dedup.HashOf([]byte("o-1")); !bytes.Equal(h[:], sum[:16]) {
		t.Errorf("hash %x", h)
	}
}
