package dedup

import "fmt"

// Refill makes the filter of one level anew from its rows, beside everything else: at boot no more ids are read than a boot may take, and
// without its filter every new id would be looked for on disk until its bucket is too old. A level that began when there was no memory
// gets its filter that way too, when there is some.
//
// The owner of the index calls Refill, Grow, Wanted and Done under the lock under which it inserts and finds. After Refill it reads the rows and calls
// Add without it: pushes do not wait. An id that is stored meanwhile is put into the new filter by Store, so that it does not matter whether the
// reader meets its row. Nobody asks the filter before Done.
type Refill struct {
	index    *Index
	filter   filter // at least one
	level    uint8
	ahead    uint64 // ids that may still be read
	From, To []byte // the rows to read: From <= key < To
}

// Missing reports whether a level of a bucket that is not older than since has no filter.
func (x *Index) Missing(since uint32) bool {
	_, l := x.unfiltered(since)
	return l != nil
}

// Refill begins with the smallest level that has no filter, of the newest bucket with such a level that is not older than since. It
// returns nil when there is none, or no memory for it.
func (x *Index) Refill(since uint32) *Refill {
	b, l := x.unfiltered(since)
	if l == nil {
		return nil
	}
	r := &Refill{index: x, level: l.number, ahead: x.expected(b, l)}
	if r.Grow(); r.filter == nil {
		return nil
	}
	l.refill = r
	r.From, r.To = levelRows(x.queue, b.number, l.number)
	return r
}

// unfiltered returns the level that Refill begins with, and its bucket.
func (x *Index) unfiltered(since uint32) (*bucket, *level) {
	for i := len(x.buckets) - 1; i >= 0 && x.buckets[i].number >= since; i-- {
		levels := x.buckets[i].levels
		for k := range levels {
			if levels[k].filter == nil && levels[k].refill == nil {
				return &x.buckets[i], &levels[k]
			}
		}
	}
	return nil, nil
}

// Full reports whether Grow is to be called. It needs no lock.
func (r *Refill) Full() bool { return r.filter[len(r.filter)-1].room == 0 && r.ahead > 0 }

// Grow makes room for more ids.
func (r *Refill) Grow() { r.filter.grow(r.index.shared, r.level, 1, r.ahead) }

// Add notes the ids of a row. It needs no lock.
func (r *Refill) Add(key, row []byte) error {
	if err := checkGroup(row); err != nil {
		return fmt.Errorf("dedup row %x: %w", key, err)
	}
	b, n := r.filter[len(r.filter)-1], uint64(len(row)/recordSize)
	b.room -= min(b.room, n)
	r.ahead -= min(r.ahead, n)
	for ; len(row) > 0; row = row[recordSize:] {
		b.addBeside(r.index.shared.placeOf(recordAt(row)))
	}
	return nil
}

// beside notes an id that is stored meanwhile.
func (r *Refill) beside(at place) { r.filter[len(r.filter)-1].addBeside(at) }

// Wanted reports whether the filter is still needed: its bucket may be dropped.
func (r *Refill) Wanted() bool { return r.at() != nil }

// Done ends it: all rows are read, and the filter is used from now on.
func (r *Refill) Done() {
	if l := r.at(); l != nil {
		l.filter, l.refill = r.filter, nil
	}
}

// at returns the level, nil when it is gone.
func (r *Refill) at() *level {
	for i := range r.index.buckets {
		levels := r.index.buckets[i].levels
		for k := range levels {
			if levels[k].refill == r {
				return &levels[k]
			}
		}
	}
	return nil
}
