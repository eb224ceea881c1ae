package segment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"queen/stages"
)

// readTogether is how much adjacent frames may share one read.
const readTogether = 1 << 20

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
func (s *Store) Bodies(ctx context.Context, list *stages.Listing, appends []stages.Append, into func(i int, b stages.Body) error) error {
	if len(appends) > 0 && list.Gen != s.o.Generation {
		return fmt.Errorf("queue %d: listing of generation %d, the store has %d: %w", list.Queue, list.Gen, s.o.Generation, stages.ErrStaleRef)
	}
	r := &reader{s: s, list: list, into: into}
	r.body.init()
	for first := 0; first < len(appends); {
		if err := ctx.Err(); err != nil {
			return err
		}
		end, size := together(appends, first)
		if err := r.readGroup(appends, first, end, size); err != nil {
			return err
		}
		first = end
	}
	return nil
}

// reader is one call of Bodies.
type reader struct {
	s    *Store
	list *stages.Listing
	into func(i int, b stages.Body) error
	body body
}

// together finds the frames from first on that lie behind each other in one segment.
func together(appends []stages.Append, first int) (end int, size int64) {
	last := appends[first]
	size = int64(last.Len)
	for end = first + 1; end < len(appends); end++ {
		a := appends[end]
		if a.Seg != last.Seg || int64(a.Off) != int64(last.Off)+int64(last.Len) || size+int64(a.Len) > readTogether {
			break
		}
		size += int64(a.Len)
		last = a
	}
	return end, size
}

func (r *reader) readGroup(appends []stages.Append, first, end int, size int64) error {
	a := appends[first]
	path := r.s.o.FS.PathJoin(r.s.queueDir(r.list.Queue), segmentName(a.Seg))
	f, err := r.s.handles.acquire(path)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(path, int64(a.Off), err)
	}
	if err != nil {
		return err
	}
	defer r.s.handles.release(f)
	buf := r.s.buffers.get(int(size))
	defer r.s.buffers.put(buf)
	if err := readFull(f, path, buf, int64(a.Off)); err != nil {
		return err
	}
	for i, rest := first, buf; i < end; i++ {
		n := appends[i].Len
		if err := r.hand(i, appends[i], rest[:n], path); err != nil {
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
	if headSum(frame) != a.Sum {
		return fmt.Errorf("another frame is here: partition %d, stamp %d, offset %d, %d records is not what was listed", h.partition, h.ts, h.base, h.count)
	}
	b.block = block
	b.header = stages.Header{TS: h.ts, Partition: h.partition, Base: h.base, Count: h.count, Weight: h.weight, Flags: h.flags,
		Ref: stages.Ref{Gen: list.Gen, Seg: a.Seg, Off: a.Off, Len: a.Len}}
	return nil
}
