package sink

import (
	"context"
	"sync"
	"time"
)

// stall is a process that stands still for a while: nothing that it sends leaves, and nothing that comes reaches it.
type stall struct {
	mu     sync.Mutex
	over   chan struct{} // closed when it goes on; nil = it does not stand
	frozen bool          // its own clock stands too, as that of a virtual machine that is moved
	begun  time.Time
	lost   time.Duration // that its clock is behind
}

func (s *stall) begin(frozen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.frozen, s.begun = make(chan struct{}), frozen, time.Now()
}

func (s *stall) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen {
		s.lost += time.Since(s.begun)
	}
	close(s.over)
	s.over = nil
}

func (s *stall) wait(ctx context.Context) {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over == nil {
		return
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// now is the clock of the process.
func (s *stall) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil && s.frozen {
		return s.begun.Add(-s.lost)
	}
	return time.Now().Add(-s.lost)
}
