package sink

import (
	"context"
	"sync"
	"sync/atomic"

	"queen/commit"
	"queen/stages"
	"queen/upload"
)

// encoderBytes is what encoding one object takes beside the parts of its upload, at most.
const encoderBytes = 16 << 20

// mostSlots bounds how many windows are written at once, however much memory there is.
const mostSlots = 16

// slots is what the sinks of a node share for writing: each window holds one slot from before its intent until its pointer has moved, and
// asks for no more memory meanwhile, so no two windows can wait for each other. A pass that fails gives its slot back before it waits; and while
// somebody waits for a slot, a request that ran into a time limit ends its pass (upload.ClientOptions.Wanted).
//
// There are as many as memory allows, because most of the time of a window is the store's: one that does not answer must not hold up the queues
// that it does not concern. How many are encoded at once is another question: see permits.
type slots struct {
	free    semaphore
	waiting atomic.Int64
	size    int64 // bytes charged for a slot
	part    int64 // of them, what an object may hold before it goes up in parts
}

// newSlots divides a memory limit in bytes: half of it is for writing. An object goes up in parts above the threshold, or above what would leave
// no room for a second window, whichever is less.
func newSlots(limit, threshold int64) *slots {
	limit /= 2
	part := min(threshold, max(upload.PartBytes, limit/2-encoderBytes))
	size := max(part, 3*upload.PartBytes) + encoderBytes
	return &slots{free: newSemaphore(int(max(1, min(mostSlots, limit/size)))), size: size, part: part}
}

// wanted says that somebody waits for a slot.
func (s *slots) wanted() bool { return s.waiting.Load() > 0 }

// take waits for a free slot.
func (s *slots) take(ctx context.Context) error {
	select {
	case s.free <- struct{}{}:
		return nil
	default:
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	return s.free.take(ctx)
}

// charged returns the bytes that are charged now.
func (s *slots) charged() int64 { return int64(len(s.free)) * s.size }

// slot is one pass's hold on a slot; it implements commit.Slot.
type slot struct {
	q    *queue
	mu   sync.Mutex
	held bool
}

var _ commit.Slot = (*slot)(nil)

// Take waits for a free slot. The queue is seen to wait: its window is cut and not begun.
func (s *slot) Take(ctx context.Context) error {
	s.q.s.raise(s.q, entered{stateIntent})
	if err := s.q.s.slots.take(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
	return nil
}

// Give gives the slot back if it is held.
func (s *slot) Give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held {
		s.held = false
		s.q.s.slots.free.give()
	}
}

// permits bound how many windows are encoded at once. One is held while an encoder makes bytes and reads bodies for them, and not while they wait
// for the upload. Who holds one waits for nothing but the log; who waits for one may hold a slot, which nobody needs to give a permit back. So
// there is no circle. Bytes do not depend on it: an encoder stands still and goes on.
type permits struct{ free semaphore }

// around bounds a stage that encodes.
func (p permits) around(stage stages.Stage[*stages.Job, stages.Chunk]) stages.Stage[*stages.Job, stages.Chunk] {
	return encoding{stage, p.free}
}

type encoding struct {
	stages.Stage[*stages.Job, stages.Chunk]
	free semaphore
}

// Do implements stages.Stage. Emit is called by one goroutine at a time, and Do of the stage returns after it.
func (e encoding) Do(ctx context.Context, job *stages.Job, emit func(stages.Chunk) error) error {
	if err := e.free.take(ctx); err != nil {
		return err
	}
	held := true
	defer func() {
		if held {
			e.free.give()
		}
	}()
	return e.Stage.Do(ctx, job, func(c stages.Chunk) error {
		e.free.give()
		held = false
		if err := emit(c); err != nil || c.End {
			return err
		}
		if err := e.free.take(ctx); err != nil {
			return err
		}
		held = true
		return nil
	})
}

// semaphore lets as many through as it has room for; who waits longest is next.
type semaphore chan struct{}

func newSemaphore(n int) semaphore { return make(semaphore, n) }

func (s semaphore) take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s semaphore) give() { <-s }
