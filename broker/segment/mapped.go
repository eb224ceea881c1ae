package segment

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"unsafe"

	"queen/stages"
)

// touchTogether is how many frames are touched before the first of them is used, touchBytes how much of each: behind that the processor has
// seen that they are read from front to back.
const (
	touchTogether = 32
	touchBytes    = 4 << 10
	cacheLine     = 64
)

// openAll prepares the segments that the appends of a window lie in: their paths, and their mappings where there can be any. When they are
// very many it does nothing.
//
// The open segment is mapped up to the end of the last frame that was applied: what lies below never changes, and the file only grows.
func (r *reader) openAll(ctx context.Context, appends []stages.Append) {
	low, high := appends[0].Seg, appends[0].Seg
	for i := range appends {
		low, high = min(low, appends[i].Seg), max(high, appends[i].Seg)
	}
	if high-low >= mapsPerCall {
		return
	}
	var ends [mapsPerCall]int64 // of what is wanted of each segment
	for i := range appends {
		a := &appends[i]
		ends[a.Seg-low] = max(ends[a.Seg-low], int64(a.Off)+int64(a.Len))
	}
	r.low, r.files = low, make([]source, high-low+1)
	view := r.s.View(r.list.Queue)
	for i, end := range ends[:len(r.files)] {
		if end == 0 {
			continue
		}
		x := &r.files[i]
		x.seg = low + uint32(i)
		x.path = r.path(x.seg)
		if size := view.size(x.seg); end <= size {
			x.m = r.s.maps.acquire(ctx, mapKey{view.queue, x.seg}, x.path, end, size)
		}
		r.mapped = r.mapped || x.m != nil
	}
}

// size is how many bytes of frames a segment has, 0 when there is no such segment.
func (v View) size(seg uint32) int64 {
	if i, ok := slices.BinarySearchFunc(v.sealed, seg, func(x *sealed, seg uint32) int { return cmp.Compare(x.seg, seg) }); ok {
		return v.sealed[i].size
	}
	if seg == v.tail.Seg && len(v.entries) > 0 {
		return v.tail.Len
	}
	return 0
}

// readMapped reads the next frames that lie in mapped segments, touchTogether of them at most.
func (r *reader) readMapped(appends []stages.Append, first int) (end int, err error) {
	n := 0
	for ; n < touchTogether && first+n < len(appends); n++ {
		a := &appends[first+n]
		x := r.source(a.Seg)
		if x.m == nil {
			break
		}
		r.frames[n] = x.m.data[a.Off:][:a.Len:a.Len] // it ends below the end of the mapping: openAll saw to it
	}
	for _, frame := range r.frames[:n] {
		r.seen ^= touch(frame)
	}
	for i := first; i < first+n; i++ {
		if err := r.hand(i, appends[i], r.frames[i-first], r.source(appends[i].Seg).path); err != nil {
			return 0, err
		}
	}
	return first + n, nil
}

// touch loads a byte of each cache line. The loads depend on nothing, so the processor has as many of them under way as it can.
func touch(frame []byte) (seen byte) {
	for i := 0; i < min(len(frame), touchBytes); i += cacheLine {
		seen ^= frame[i]
	}
	return seen
}

// fault turns a fault on a mapped page into an error, and panics again with anything else.
func (r *reader) fault(p any) error {
	at, ok := p.(interface {
		error
		Addr() uintptr
	})
	if !ok {
		panic(p)
	}
	for i := range r.files {
		m := r.files[i].m
		if m == nil || len(m.data) == 0 {
			continue
		}
		start := uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
		if off := at.Addr() - start; off < uintptr(len(m.data)) {
			return damaged(m.path, int64(off), errors.New("the disk does not give this page back, or the file was cut"))
		}
	}
	panic(p)
}
