package dedup

import (
	"encoding/binary"
	"fmt"
	"math"

	"queen/stages"
)

// Rows reads the state at boot: it calls fn for the rows with lower <= key < upper, in byte order, until fn returns false. Keys
// and values are valid until fn returns.
type Rows func(lower, upper []byte, fn func(key, value []byte) bool) error

// Load returns the index of a queue as the rows have it; stored is what Stored said when its newest rows were written.
// Buckets that are younger than since get their filters back while budget, a number of ids over all queues, lasts.
func Load(queue stages.QueueID, shared *Shared, rows Rows, since stages.Micros, budget *int, stored uint64) (*Index, error) {
	x := NewIndex(queue, shared)
	for next := uint64(0); next <= math.MaxUint32; {
		b, found, err := x.nextBucket(rows, uint32(next))
		if err != nil {
			return nil, fmt.Errorf("dedup buckets of queue %d: %w", queue, err)
		}
		if !found {
			break
		}
		x.buckets = append(x.buckets, b)
		next = uint64(b.number) + 1
	}
	if n := len(x.buckets); n > 0 {
		x.buckets[n-1].stored = stored
	}
	for i := len(x.buckets) - 1; i >= 0 && x.buckets[i].number >= BucketOf(max(since, 0)); i-- {
		if err := x.loadFilters(&x.buckets[i], rows, budget); err != nil {
			return nil, fmt.Errorf("dedup bucket %d of queue %d: %w", x.buckets[i].number, queue, err)
		}
	}
	return x, nil
}

// nextBucket returns the first bucket from a number on, without filters.
func (x *Index) nextBucket(rows Rows, from uint32) (b bucket, found bool, err error) {
	for _, table := range []byte{tableSingle, tableGroup} {
		err := rows(bucketKey(table, x.queue, from), bucketKey(table, x.queue+1, 0), func(key, _ []byte) bool {
			if number, ok := bucketOfKey(key); ok && (!found || number < b.number) {
				b.number, found = number, true
			}
			return false
		})
		if err != nil {
			return b, false, err
		}
	}
	if !found {
		return b, false, nil
	}
	err = rows(bucketKey(tableSingle, x.queue, b.number), bucketEnd(tableSingle, x.queue, b.number), func(_, _ []byte) bool {
		b.single = &level{}
		return false
	})
	end := bucketEnd(tableGroup, x.queue, b.number)
	for next := 0; err == nil && next <= math.MaxUint8; {
		from := groupKey(x.queue, b.number, uint8(next), 0)
		next = math.MaxUint8 + 1
		err = rows(from, end, func(key, _ []byte) bool {
			if len(key) == groupKeySize {
				b.levels = append(b.levels, level{number: key[13]})
				next = int(key[13]) + 1
			}
			return false
		})
	}
	return b, err == nil, err
}

func bucketOfKey(key []byte) (uint32, bool) {
	if len(key) != groupKeySize && len(key) != singleKeySize {
		return 0, false
	}
	return binary.BigEndian.Uint32(key[9:]), true
}

// loadFilters builds the filters of a bucket of its rows.
func (x *Index) loadFilters(b *bucket, rows Rows, budget *int) error {
	for i := range b.levels { // small ones first: a large one would leave them no memory, and each is asked for every id
		if err := x.loadFilter(b, &b.levels[i], rows, budget); err != nil {
			return err
		}
	}
	if b.single == nil {
		return nil
	}
	var all []place
	err := rows(bucketKey(tableSingle, x.queue, b.number), bucketEnd(tableSingle, x.queue, b.number), func(key, _ []byte) bool {
		*budget -= singleCost
		if *budget < 0 || len(key) != singleKeySize {
			all = nil
			return false
		}
		all = append(all, x.shared.placeOf(stages.PartitionID(binary.BigEndian.Uint64(key[13:])), Hash(key[21:])))
		return true
	})
	if err != nil || all == nil {
		return err
	}
	n := uint64(len(all))
	if b.single.filter.grow(x.shared, math.MaxUint8, n, n); b.single.filter != nil {
		for _, at := range all {
			b.single.filter.add(at)
		}
	}
	return nil
}

// singleCost is how much more it takes to read a row of one id than an id in a row of many.
const singleCost = 8

// loadFilter builds the filter of a level.
func (x *Index) loadFilter(b *bucket, l *level, rows Rows, budget *int) error {
	if x.held(b, l) > max(*budget, 0) {
		return nil // what was read would be thrown away
	}
	var f filter
	from, end := levelRows(x.queue, b.number, l.number)
	complete := true
	var fault error
	ahead := x.expected(b, l)
	err := rows(from, end, func(key, row []byte) bool {
		if fault = checkGroup(row); fault != nil {
			fault = fmt.Errorf("row %x: %w", key, fault)
			return false
		}
		n := len(row) / recordSize
		*budget -= n
		f.grow(x.shared, l.number, uint64(n), ahead)
		ahead -= min(ahead, uint64(n))
		complete = *budget >= 0 && f != nil
		for ; complete && len(row) > 0; row = row[recordSize:] {
			f.add(x.shared.placeOf(recordAt(row)))
		}
		return complete
	})
	if err == nil {
		err = fault
	}
	if err != nil || !complete {
		f.release(x.shared)
		return err
	}
	l.filter = f
	return nil
}

// expected is for how many ids a filter of what a level holds is made. A level begins with all the ids that are stored at once, of which the first may
// belong to the one before.
func (x *Index) expected(b *bucket, l *level) uint64 {
	most := levelIDs(l.number)
	if n := x.held(b, l); n > 0 {
		return min(uint64(n)+atOnce, most)
	}
	return most
}

// atOnce is more ids than are stored at once.
const atOnce = 1 << 17

// held is about how many ids a level holds, 0 when that is not known.
func (x *Index) held(b *bucket, l *level) int {
	before := uint64(0) // ids with which the level began
	if l.number > 0 {
		before = levelIDs(l.number - 1)
	}
	switch last := l == &b.levels[len(b.levels)-1]; {
	case !last:
		return int(levelIDs(l.number) - before)
	case b.stored > before: // of the newest bucket
		return int(b.stored - before)
	}
	return 0
}

// levelRows returns the range of the rows of a level.
func levelRows(queue stages.QueueID, bucket uint32, level uint8) (from, end []byte) {
	from, end = groupKey(queue, bucket, level, 0), bucketEnd(tableGroup, queue, bucket)
	if level < math.MaxUint8 {
		end = groupKey(queue, bucket, level+1, 0)
	}
	return from, end
}

// bucketEnd returns the first key behind the rows of a bucket.
func bucketEnd(table byte, queue stages.QueueID, bucket uint32) []byte {
	if bucket == math.MaxUint32 {
		return bucketKey(table, queue+1, 0)
	}
	return bucketKey(table, queue, bucket+1)
}
