package segment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"sync"

	"queen/stages"
)

// togetherBytes is how much adjacent frames may share one read.
const togetherBytes = 1 << 20

// buffers is a pool of read buffers.
type buffers struct{ pool sync.Pool }

func (p *buffers) get(n int) []byte {
	if b, ok := p.pool.Get().(*[]byte); ok && cap(*b) >= n {
		return (*b)[:n]
	}
	return make([]byte, n, max(n, 64<<10))
}

func (p *buffers) put(b []byte) {
	if cap(b) <= keepBuffer {
		p.pool.Put(&b)
	}
}

// Bodies calls into once for each append, in the order given; the Body is good until into returns. Before that the frame is verified:
// header and block checksums, that it is of this queue and partition, and that its header is the one that was listed. That its body decodes
// to as many records as the header says is verified while they are read, or behind into when it did not read them all.
// A listing of another generation is stages.ErrStaleRef; whatever else does not fit wraps stages.ErrDamaged and names file and place. An
// error of into is returned as it is. It may run in many goroutines.
//
// A window (list.K > 0) is read whole, and in another order than it was written in: its segments are mapped, and the frames of a group are
// touched before the first is used, so that their cache misses overlap. What was picked, and what can't be mapped, is read, frames that lie
// behind each other in one read. The bytes that into sees are the same.
func (s *Store) Bodies(ctx context.Context, list *stages.Listing, appends []stages.Append, into func(i int, b stages.Body) error) error {
	if len(appends) == 0 {
		return nil
	}
	if list.Gen != s.o.Generation {
		return fmt.Errorf("queue %d: listing of generation %d, the store has %d: %w", list.Queue, list.Gen, s.o.Generation, stages.ErrStaleRef)
	}
	r := &reader{s: s, list: list, into: into}
	r.body.init()
	if list.K > 0 {
		r.openAll(ctx, appends)
	}
	defer r.closeAll()
	return r.read(ctx, appends)
}

// reader is one call of Bodies.
type reader struct {
	s      *Store
	list   *stages.Listing
	into   func(i int, b stages.Body) error
	body   body
	buf    []byte
	low    uint32   // segment of files[0]
	files  []source // by segment, when they are not too many
	one    source   // else the one that was used last
	mapped bool     // one of files at least
	frames [touchTogether][]byte
	seen   byte // what touch read, so that the loads are not left out
}

// source is where the frames of one segment come from, for one call: a mapping, or else a file that is opened at the first read of it.
type source struct {
	seg  uint32 // 0 = not used yet
	path string
	m    *mapping
	f    *handle
}

// source returns that of a segment.
func (r *reader) source(seg uint32) *source {
	if i := seg - r.low; uint64(i) < uint64(len(r.files)) { // segments below low are far above it here
		return &r.files[i]
	}
	if r.one.seg != seg {
		r.close(&r.one)
		r.one = source{seg: seg, path: r.path(seg)}
	}
	return &r.one
}

func (r *reader) path(seg uint32) string {
	return r.s.o.FS.PathJoin(r.s.queueDir(r.list.Queue), segmentName(seg))
}

func (r *reader) close(x *source) {
	if x.m != nil {
		r.s.maps.release(x.m)
	}
	if x.f != nil {
		r.s.handles.release(x.f)
	}
	*x = source{}
}

func (r *reader) closeAll() {
	for i := range r.files {
		r.close(&r.files[i])
	}
	r.close(&r.one)
	if r.buf != nil {
		r.s.buffers.put(r.buf)
	}
}

// read reads all appends. A page of a mapping that the disk can't give back, or that was cut off the file, is a fault of this goroutine; it
// becomes an error that names the file.
func (r *reader) read(ctx context.Context, appends []stages.Append) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(r.mapped))
	defer func() {
		if p := recover(); p != nil {
			err = r.fault(p)
		}
	}()
	for first := 0; first < len(appends); {
		if err := ctx.Err(); err != nil {
			return err
		}
		end, err := r.readSome(appends, first)
		if err != nil {
			return err
		}
		first = end
	}
	return nil
}

// readSome reads some appends from first on and returns the one behind them.
func (r *reader) readSome(appends []stages.Append, first int) (end int, err error) {
	x := r.source(appends[first].Seg)
	if x.m != nil {
		return r.readMapped(appends, first)
	}
	end, size := together(appends, first)
	return end, r.readTogether(x, appends, first, end, size)
}

// together finds the frames from first on that lie behind each other in one segment.
func together(appends []stages.Append, first int) (end int, size int64) {
	last := appends[first]
	size = int64(last.Len)
	for end = first + 1; end < len(appends); end++ {
		a := appends[end]
		if a.Seg != last.Seg || int64(a.Off) != int64(last.Off)+int64(last.Len) || size+int64(a.Len) > togetherBytes {
			break
		}
		size += int64(a.Len)
		last = a
	}
	return end, size
}

// readTogether reads frames that lie behind each other.
func (r *reader) readTogether(x *source, appends []stages.Append, first, end int, size int64) (err error) {
	off := int64(appends[first].Off)
	if x.f == nil {
		x.f, err = r.s.handles.acquire(x.path)
	}
	if err = r.s.stale(r.list.Queue, x.seg, err); errors.Is(err, fs.ErrNotExist) {
		return damaged(x.path, off, err)
	}
	if err != nil {
		return err
	}
	if int64(cap(r.buf)) < size {
		if r.buf != nil {
			r.s.buffers.put(r.buf)
		}
		r.buf = r.s.buffers.get(int(size))
	}
	buf := r.buf[:size]
	if err := readFull(x.f, x.path, buf, off); err != nil {
		return err
	}
	for i, rest := first, buf; i < end; i++ {
		n := appends[i].Len
		if err := r.hand(i, appends[i], rest[:n], x.path); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// hand verifies the frame of append i and hands its body on.
func (r *reader) hand(i int, a stages.Append, frame []byte, path string) error {
	b := &r.body
	b.path, b.whole = path, false
	if err := b.open(frame, r.list, a); err != nil {
		return damaged(path, int64(a.Off), err)
	}
	if err := r.into(i, b); err != nil || b.whole {
		return err
	}
	n, err := countMessages(b.block)
	if err == nil && n != int(b.header.Count) {
		err = fmt.Errorf("body holds %d records, its header says %d", n, b.header.Count)
	}
	if err != nil {
		return damaged(path, int64(a.Off), err)
	}
	return nil
}

// open verifies that these bytes are the frame that was listed.
func (b *body) open(frame []byte, list *stages.Listing, a stages.Append) error {
	h, block, err := decodeFrame(frame)
	if err != nil {
		return err
	}
	if want := list.Parts[a.Part].ID; h.queue != list.Queue || h.partition != want {
		return fmt.Errorf("another frame is here: of queue %d, partition %d, wanted %d, %d", h.queue, h.partition, list.Queue, want)
	}
	if h.shown != a.Sum {
		return fmt.Errorf("another frame is here: partition %d, stamp %d, offset %d, %d records is not what was listed", h.partition, h.ts, h.base, h.count)
	}
	b.block = block
	b.header = stages.Header{TS: h.ts, Partition: h.partition, Base: h.base, Count: h.count, Weight: h.weight, Flags: h.flags,
		Ref: stages.Ref{Gen: list.Gen, Seg: a.Seg, Off: a.Off, Len: a.Len}}
	return nil
}
