package segment

import (
	"encoding/binary"
	"sort"

	"queen/stages"
)

// First returns the oldest append of partition p that is stamped at or after from and holds a record with offset low or a higher one.
//
// In a queue's log, stamps and offsets of a partition rise together, so the appends that are wanted are the upper end of the partition's
// appends, in each segment and over all of them: First looks for where they begin. It asks the segments from the oldest that ends at
// or after from, and reads some ten chunks of an index file, each verified, in one that has the partition.
func (v View) First(p stages.PartitionID, from stages.Micros, low int64) (stages.Header, bool, error) {
	wanted := func(e []byte) bool {
		return entryTS(e) >= from && entryBase(e)+int64(entryCount(e)) > low
	}
	i := sort.Search(len(v.sealed), func(i int) bool { return v.sealed[i].last >= from })
	for _, x := range v.sealed[i:] {
		e, err := v.firstSealed(x, p, low, wanted)
		if err != nil {
			return stages.Header{}, false, err
		}
		if e != nil {
			return entryHeader(e, v.s.o.Generation, x.seg), true, nil
		}
	}
	if e := v.firstOpen(p, wanted); e != nil {
		return entryHeader(e, v.s.o.Generation, v.tail.Seg), true, nil
	}
	return stages.Header{}, false, nil
}

// firstOpen asks each sorted block, oldest first, and then walks the youngest entries.
func (v View) firstOpen(p stages.PartitionID, wanted func(e []byte) bool) []byte {
	for _, block := range v.sorted {
		entry := func(i int) []byte { return entryAt(v.entries, int(block[i])) }
		i := sort.Search(len(block), func(i int) bool { return beyond(entry(i), p, wanted) })
		if i < len(block) && entryPartition(entry(i)) == p {
			return entry(i)
		}
	}
	for i := len(v.sorted) * sortedBlock; i < len(v.entries)/entryLen; i++ {
		if e := entryAt(v.entries, i); entryPartition(e) == p && wanted(e) {
			return e
		}
	}
	return nil
}

// beyond says of entries sorted by (partition, base) whether one lies at or behind the first that is wanted of partition p.
func beyond(e []byte, p stages.PartitionID, wanted func(e []byte) bool) bool {
	q := entryPartition(e)
	return q > p || q == p && wanted(e)
}

// firstSealed searches the sorted positions of a sealed segment between the run that may hold offset low and the runs of higher partitions.
func (v View) firstSealed(x *sealed, p stages.PartitionID, low int64, wanted func(e []byte) bool) ([]byte, error) {
	first := sort.Search(len(x.runs), func(i int) bool { return compareKey(x.runs[i].partition, x.runs[i].base, p, low) > 0 }) - 1
	last := sort.Search(len(x.runs), func(i int) bool { return x.runs[i].partition > p })
	if last == 0 {
		return nil, nil // all partitions are higher
	}
	f, err := v.openIndex(x)
	if err != nil {
		return nil, err
	}
	defer v.s.handles.release(f)
	r := newSortedReader(f, x)
	begin, end := max(first, 0)*runEntries, min(last*runEntries, x.n)
	for low, high := begin, end; low < high; {
		mid := int(uint(low+high) >> 1)
		e, err := r.entry(mid)
		if err != nil {
			return nil, err
		}
		if beyond(e, p, wanted) {
			high = mid
		} else {
			low = mid + 1
		}
		begin = low
	}
	if begin == end {
		return nil, nil
	}
	e, err := r.entry(begin)
	if err != nil || entryPartition(e) != p {
		return nil, err
	}
	return e, nil
}

// sortedReader reads the entries of a sealed segment by their place in the order of (partition, base). It keeps the run and the chunk
// that it read last.
type sortedReader struct {
	f         *handle
	x         *sealed
	run       int // that positions holds; -1 = none
	positions [runEntries * 4]byte
	chunk     int // that entries holds; -1 = none
	entries   [chunkEntries * entryLen]byte
}

func newSortedReader(f *handle, x *sealed) *sortedReader {
	return &sortedReader{f: f, x: x, run: -1, chunk: -1}
}

// entry returns entry i of the sorted order. It is valid until the next call.
func (r *sortedReader) entry(i int) ([]byte, error) {
	if run := i / runEntries; run != r.run {
		off, n := r.x.runPlace(run)
		r.run = -1
		if err := r.read(r.positions[:n], off, r.x.runs[run].sum); err != nil {
			return nil, err
		}
		r.run = run
	}
	pos := int(binary.BigEndian.Uint32(r.positions[i%runEntries*4:]))
	if chunk := pos / chunkEntries; chunk != r.chunk {
		off, n := r.x.chunkPlace(chunk)
		r.chunk = -1
		if err := r.read(r.entries[:n], off, r.x.chunks[chunk].sum); err != nil {
			return nil, err
		}
		r.chunk = chunk
	}
	return entryAt(r.entries[:], pos%chunkEntries), nil
}

// read fills b from the index file and compares it with what was verified when the file was opened.
func (r *sortedReader) read(b []byte, off int64, sum uint32) error {
	if err := readFull(r.f, r.f.path, b, off); err != nil {
		return err
	}
	if checksum(b) != sum {
		return damaged(r.f.path, off, errChanged)
	}
	return nil
}
