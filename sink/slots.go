package sink

import (
	"context"
	"sync"

	"queen/commit"
	"queen/upload"
)

// encoderBytes is what encoding one object takes beside the parts of its upload, at most.
const encoderBytes = 16 << 20

// slots is what the sinks of a node share for writing: each window holds one slot from before its intent until its pointer has moved, and
// asks for nothing more meanwhile, so no two windows can wait for each other. A pass that fails gives its slot back before it waits.
type slots struct {
	free semaphore
	size int64 // bytes charged for a slot
	part int64 // of them, what an object may hold before it goes up in parts
}

// newSlots divides a memory limit in bytes: half of it is for writing, in as many slots as windows may be encoded at once, but in at least
// one. Half of a slot's share is the most that an object holds before it goes up in parts.
func newSlots(limit, threshold int64, threads int) *slots {
	least := 3*int64(upload.PartBytes) + encoderBytes
	n := max(1, min(int64(threads), limit/2/least))
	part := max(upload.PartBytes, min(threshold, limit/2/n-encoderBytes))
	return &slots{free: newSemaphore(int(n)), size: max(part, 3*upload.PartBytes) + encoderBytes, part: part}
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

// Take waits for a free slot.
func (s *slot) Take(ctx context.Context) error {
	if err := s.q.s.slots.free.take(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
	s.q.s.raise(s.q, entered{stateIntent})
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
