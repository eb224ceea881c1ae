package segment

import (
	"errors"
	"iter"
	"slices"
	"sort"

	"queen/stages"
)

// View is what a queue's log held at one moment. It is a value; nothing it shows changes while the log grows behind it. It may be
// used from many goroutines until the store is closed.
//
// Headers come from RAM for the open segment and from index files for sealed ones, a few thousand at a time; every chunk read
// is compared with the checksum taken at boot or at the seal, so damage is an error that wraps stages.ErrDamaged and names
// file and place, never a wrong or missing header.
type View struct {
	s       *Store
	queue   stages.QueueID
	dir     string
	sealed  []*sealed
	entries []byte     // of the open segment, which is tail.Seg
	sorted  [][]uint32 // blocks of sortedBlock positions
	tail    Tail
}

// Tail returns the end of the view.
func (v View) Tail() Tail { return v.tail }

// Headers yields the appends with from <= TS < before in stamp order. An error ends the sequence.
func (v View) Headers(from, before stages.Micros) iter.Seq2[stages.Header, error] {
	return func(yield func(stages.Header, error) bool) {
		err := v.between(from, before, func(seg uint32, entries []byte) (bool, error) {
			for ; len(entries) > 0; entries = entries[entryLen:] {
				if !yield(entryHeader(entries[:entryLen], v.s.o.Generation, seg), nil) {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			yield(stages.Header{}, err)
		}
	}
}

// After yields the frames that begin at or behind t, in file order. An error ends the sequence.
func (v View) After(t Tail) iter.Seq2[stages.Header, error] {
	return func(yield func(stages.Header, error) bool) {
		for _, x := range v.sealed {
			if x.seg < t.Seg || x.seg == t.Seg && x.size <= t.Len {
				continue
			}
			start := int64(0)
			if x.seg == t.Seg {
				start = t.Len
			}
			c := sort.Search(len(x.chunks), func(i int) bool { return int64(x.chunks[i].off) > start })
			more, err := v.each(x, max(c-1, 0), func(e []byte) bool {
				return int64(entryOff(e)) < start || yield(entryHeader(e, v.s.o.Generation, x.seg), nil)
			})
			if err != nil {
				yield(stages.Header{}, err)
			}
			if !more {
				return
			}
		}
		if v.tail.Seg < t.Seg {
			return
		}
		n, i := len(v.entries)/entryLen, 0
		if v.tail.Seg == t.Seg {
			i = sort.Search(n, func(i int) bool { return int64(entryOff(entryAt(v.entries, i))) >= t.Len })
		}
		for ; i < n; i++ {
			if !yield(entryHeader(entryAt(v.entries, i), v.s.o.Generation, v.tail.Seg), nil) {
				return
			}
		}
	}
}

// chunksPerRead is how many chunks of an index file one read takes: 96 KiB.
const chunksPerRead = 64

// each calls fn for the entries of a sealed segment from chunk c on, until fn says no. more tells that it never did.
func (v View) each(x *sealed, c int, fn func(e []byte) bool) (more bool, err error) {
	return v.eachPiece(x, c, len(x.chunks), func(part []byte) (bool, error) {
		for ; len(part) > 0; part = part[entryLen:] {
			if !fn(part[:entryLen]) {
				return false, nil
			}
		}
		return true, nil
	})
}

// eachPiece calls fn for the entries of the chunks c to end-1 of a sealed segment, some chunks at a time, until fn says no or an error.
func (v View) eachPiece(x *sealed, c, end int, fn func(entries []byte) (more bool, err error)) (more bool, err error) {
	f, err := v.openIndex(x)
	if err != nil {
		return false, err
	}
	defer v.s.handles.release(f)
	buf := make([]byte, min(chunksPerRead, end-c)*chunkEntries*entryLen)
	for c < end {
		last := min(c+chunksPerRead, end) - 1
		start, _ := x.chunkPlace(c)
		stop, length := x.chunkPlace(last)
		b := buf[:stop+int64(length)-start]
		if err := readFull(f, f.path, b, start); err != nil {
			return false, err
		}
		for ; c <= last; c++ {
			off, n := x.chunkPlace(c)
			if checksum(b[off-start:][:n]) != x.chunks[c].sum {
				return false, damaged(f.path, off, errChanged)
			}
		}
		if more, err := fn(b); !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

var errChanged = errors.New("index differs from what was verified when it was opened")

func (v View) openIndex(x *sealed) (*handle, error) {
	f, err := v.s.handles.acquire(v.s.o.FS.PathJoin(v.dir, indexName(x.seg)))
	return f, v.s.stale(v.queue, x.seg, err)
}

// Find returns the append of partition p that holds this offset, looking from the newest segment to the oldest.
func (v View) Find(p stages.PartitionID, offset int64) (stages.Header, bool, error) {
	if e := v.findOpen(p, offset); e != nil {
		return entryHeader(e, v.s.o.Generation, v.tail.Seg), true, nil
	}
	for _, x := range slices.Backward(v.sealed) {
		e, err := v.findSealed(x, p, offset)
		if err != nil {
			return stages.Header{}, false, err
		}
		if e != nil {
			return entryHeader(e, v.s.o.Generation, x.seg), true, nil
		}
	}
	return stages.Header{}, false, nil
}

// findOpen walks the youngest entries back and then asks each sorted block.
func (v View) findOpen(p stages.PartitionID, offset int64) []byte {
	for i := len(v.entries)/entryLen - 1; i >= len(v.sorted)*sortedBlock; i-- {
		if e := entryAt(v.entries, i); holds(e, p, offset) {
			return e
		}
	}
	for _, block := range slices.Backward(v.sorted) {
		entry := func(i int) []byte { return entryAt(v.entries, int(block[i])) }
		n := sort.Search(len(block), func(i int) bool {
			return compareKey(entryPartition(entry(i)), entryBase(entry(i)), p, offset) > 0
		})
		if n > 0 && holds(entry(n-1), p, offset) {
			return entry(n - 1)
		}
	}
	return nil
}

// findSealed finds the run in RAM, reads it, and searches in it, reading the chunk of each entry it looks at: some six reads of
// 1.5 KiB, each verified.
func (v View) findSealed(x *sealed, p stages.PartitionID, offset int64) ([]byte, error) {
	r := sort.Search(len(x.runs), func(i int) bool { return compareKey(x.runs[i].partition, x.runs[i].base, p, offset) > 0 }) - 1
	if r < 0 {
		return nil, nil
	}
	f, err := v.openIndex(x)
	if err != nil {
		return nil, err
	}
	defer v.s.handles.release(f)
	return findInRun(f, x, r, p, offset)
}

func findInRun(f *handle, x *sealed, r int, p stages.PartitionID, offset int64) ([]byte, error) {
	s, first := newSortedReader(f, x), r*runEntries
	n, err := lastAtOrBelow(min(runEntries, x.n-first), p, offset, func(i int) (stages.PartitionID, int64, error) {
		e, err := s.entry(first + i)
		if err != nil {
			return 0, 0, err
		}
		return entryPartition(e), entryBase(e), nil
	})
	if err != nil || n == 0 {
		return nil, err
	}
	e, err := s.entry(first + n - 1)
	if err != nil || !holds(e, p, offset) {
		return nil, err
	}
	return e, nil
}
