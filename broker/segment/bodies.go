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

// Bodies calls into once for each header, in the order given; the Body is good until into returns. Before that the frame is
// verified: header and block checksums, that queue, partition, stamp, base, count, weight and flags are those of the header, and
// that its body decodes to exactly that many records. A reference of another generation is stages.ErrStaleRef; whatever else does
// not fit wraps stages.ErrDamaged and names file and place. An error of into is returned as it is. It may run in many goroutines.
func (s *Store) Bodies(ctx context.Context, queue stages.QueueID, headers []stages.Header, into func(i int, b stages.Body) error) error {
	for i := range headers {
		if gen := headers[i].Ref.Gen; gen != s.o.Generation {
			return fmt.Errorf("queue %d: reference of generation %d, the store has %d: %w", queue, gen, s.o.Generation, stages.ErrStaleRef)
		}
	}
	for first := 0; first < len(headers); {
		if err := ctx.Err(); err != nil {
			return err
		}
		end, size := together(headers, first)
		if err := s.readGroup(queue, headers, first, end, size, into); err != nil {
			return err
		}
		first = end
	}
	return nil
}

// together finds the frames from first on that lie behind each other in one segment.
func together(headers []stages.Header, first int) (end int, size int64) {
	last := headers[first].Ref
	size = int64(last.Len)
	for end = first + 1; end < len(headers); end++ {
		r := headers[end].Ref
		if r.Seg != last.Seg || int64(r.Off) != int64(last.Off)+int64(last.Len) || size+int64(r.Len) > readTogether {
			break
		}
		size += int64(r.Len)
		last = r
	}
	return end, size
}

func (s *Store) readGroup(queue stages.QueueID, headers []stages.Header, first, end int, size int64,
	into func(i int, b stages.Body) error) error {
	ref := headers[first].Ref
	path := s.o.FS.PathJoin(s.queueDir(queue), segmentName(ref.Seg))
	f, err := s.handles.acquire(path)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(path, int64(ref.Off), err)
	}
	if err != nil {
		return err
	}
	defer s.handles.release(f)
	buf := s.buffers.get(int(size))
	defer s.buffers.put(buf)
	if err := readFull(f, path, buf, int64(ref.Off)); err != nil {
		return err
	}
	b := body{where: path}
	for i, rest := first, buf; i < end; i++ {
		h := headers[i]
		frame := rest[:h.Ref.Len]
		rest = rest[h.Ref.Len:]
		b.header = h
		if b.block, err = openFrame(frame, queue, h); err != nil {
			return damaged(path, int64(h.Ref.Off), err)
		}
		if err := into(i, &b); err != nil {
			return err
		}
	}
	return nil
}

// openFrame verifies that these bytes are the frame that h describes and returns its record block.
func openFrame(b []byte, queue stages.QueueID, h stages.Header) ([]byte, error) {
	got, block, err := decodeFrame(b)
	if err != nil {
		return nil, err
	}
	want := head{queue: queue, partition: h.Partition, ts: h.TS, base: h.Base, count: h.Count, weight: h.Weight, flags: h.Flags, body: got.body}
	if got != want {
		return nil, fmt.Errorf("another frame is here: %+v, wanted %+v", got, want)
	}
	n, err := countMessages(block)
	if err != nil {
		return nil, err
	}
	if n != int(h.Count) {
		return nil, fmt.Errorf("body holds %d records, its header says %d", n, h.Count)
	}
	return block, nil
}
