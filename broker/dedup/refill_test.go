package dedup_test

import (
	"testing"

	"queen/broker/dedup"
	"queen/stages"
)

// many is an index of n ids, as a boot reads it that has no time for filters.
func many(t *testing.T, n int) *store {
	s := newStore(t, inRAM, newTx(), 1)
	s.insertMany(0, n)
	s.index = s.load(1, 0, 8<<20, 0)
	return s
}

func (s *store) insertMany(from, end int) {
	s.t.Helper()
	for i := from; i < end; i++ {
		if err := s.index.Insert(s.tx, s.p, numbered(i), dedup.Record{Offset: int64(i), Stamp: 1}, hour); err != nil {
			s.t.Fatal(err)
		}
		if i%997 == 0 || i == end-1 {
			s.store()
		}
	}
}

// vain looks for n ids that are there and n that are not, and returns how many rows were looked at for the latter.
func (s *store) vain(n int) int {
	s.t.Helper()
	for i := range n {
		if r, found, err := s.index.Find(s.tx, s.p, numbered(i), 1, hour); !found || err != nil || r.Offset != int64(i) {
			s.t.Fatalf("id %d: %v %v %v", i, r, found, err)
		}
	}
	s.tx.gets = 0
	for i := range n {
		if _, found, err := s.index.Find(s.tx, s.p+1, numbered(i), 1, hour); found || err != nil {
			s.t.Fatalf("id %d was found in another partition: %v", i, err)
		}
	}
	return s.tx.gets
}

// rows are the rows that a refill has to read, as they are now.
func (s *store) rows(r *dedup.Refill) (keys, rows []string) {
	s.t.Helper()
	err := s.tx.scan(r.From, r.To, func(key, row []byte) bool {
		keys, rows = append(keys, string(key)), append(rows, string(row))
		return true
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return keys, rows
}

// TestRefill: filters that are made behind a boot hold what was stored before they were begun and what is stored while they are made, are
// used once they are whole and not before, and give their memory back.
func TestRefill(t *testing.T) {
	const before, step = 3000, 100
	s := many(t, before)
	if !s.index.Missing(0) {
		t.Fatal("no filter is missing after a boot that read none")
	}
	if s.index.Missing(1) {
		t.Error("a bucket that is too old is filtered")
	}
	if got := s.vain(before); got < before {
		t.Fatalf("%d look-ups without filters, for %d ids", got, before)
	}
	all := before
	for {
		r := s.index.Refill(0)
		if r == nil {
			break
		}
		keys, rows := s.rows(r)
		s.insertMany(all, all+step) // into the last level, which is made last
		all += step
		if got := s.vain(all); got < all {
			t.Fatalf("%d look-ups with half a filter, for %d ids", got, all)
		}
		for i := range keys {
			if err := r.Add([]byte(keys[i]), []byte(rows[i])); err != nil || !r.Wanted() {
				t.Fatalf("wanted %v, %v", r.Wanted(), err)
			}
		}
		r.Done()
	}
	if s.index.Missing(0) || all == before {
		t.Error("a filter is still missing")
	}
	if got := s.vain(all); got > all/100 {
		t.Errorf("%d of %d look-ups in vain", got, all)
	}
}

// TestRefillOfWhatGoes: a bucket that is dropped while a filter of it is made takes the filter with it.
func TestRefillOfWhatGoes(t *testing.T) {
	for _, whole := range []bool{false, true} {
		s := many(t, 2000)
		left := s.shared.Left
		r := s.index.Refill(0)
		_, rows := s.rows(r)
		err := r.Add(nil, []byte(rows[0]))
		if err != nil || !r.Wanted() {
			t.Fatalf("wanted %v, %v", r.Wanted(), err)
		}
		if s.shared.Left >= left {
			t.Fatal("the filter takes no memory")
		}
		if whole { // the queue is deleted
			err = s.index.Drop(s.tx)
		} else {
			err = s.index.Insert(s.tx, s.p, numbered(0), dedup.Record{Stamp: 100 * hour}, hour)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Wanted() {
			t.Error("a filter is wanted of a bucket that is gone")
		}
		r.Done()
		if s.shared.Left != left {
			t.Errorf("%d bytes did not come back", left-s.shared.Left)
		}
		if s.index.Refill(uint32(100*hour/stages.Micros(hour))) != nil {
			t.Error("a bucket without rows is refilled")
		}
	}
}

// TestFilterDensities: with less memory more look-ups are in vain, and never all of them while any filter fits.
func TestFilterDensities(t *testing.T) {
	const n = 5000
	vain := map[int64]int{}
	for _, memory := range []int64{128 << 10, 46 << 10, 20 << 10, 12 << 10} {
		s := many(t, n)
		s.index = s.load(1, 0, memory, 2*n)
		vain[memory] = s.vain(n)
	}
	if a, b, c, d := vain[128<<10], vain[46<<10], vain[20<<10], vain[12<<10]; a > n/100 || b < a || c < b || d <= c || d > n/2 {
		t.Errorf("look-ups in vain for %d ids by memory: %v", n, vain)
	}
}
