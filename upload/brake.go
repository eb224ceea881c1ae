package upload

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// brake bounds how many requests to one bucket are under way at once, after the store has said that they are too many. Waits between the attempts
// of one request slow that request down; this slows the bucket down, and no other.
//
// Each 503 or 429 halves the number of requests that may be under way, down to one; each request that succeeds allows one more. Above
// `plenty` there is no bound again. Who waits gets its turn in order.
type brake struct {
	mu      sync.Mutex
	limit   int // 0 = no bound
	busy    int
	waiting []chan struct{} // closed when it is the waiter's turn, which then counts as busy
}

// plenty is more requests than a node has under way to one bucket.
const plenty = 64

// errBusy is a request that did not get its turn.
var errBusy = errors.New("it did not get its turn: the store has asked for fewer requests, and those before it take long")

// enter waits for a turn, at most d.
func (b *brake) enter(ctx context.Context, d time.Duration) error {
	b.mu.Lock()
	if b.limit == 0 || b.busy < b.limit {
		b.busy++
		b.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	b.waiting = append(b.waiting, turn)
	b.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-turn:
		return nil
	case <-timer.C:
		return b.leaveLine(turn, errBusy)
	case <-ctx.Done():
		return b.leaveLine(turn, context.Cause(ctx))
	}
}

// leaveLine ends a wait. A turn that came at the same moment is taken all the same.
func (b *brake) leaveLine(turn chan struct{}, why error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, turn)
	if i < 0 {
		return nil
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return why
}

// leave ends a request that had its turn: e is what became of it, nil = success.
func (b *brake) leave(e *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e != nil && throttled(e):
		if b.limit == 0 {
			b.limit = b.busy
		}
		b.limit = max(1, b.limit/2)
	case e == nil && b.limit > 0:
		if b.limit++; b.limit > plenty {
			b.limit = 0
		}
	}
	b.busy--
	for len(b.waiting) > 0 && (b.limit == 0 || b.busy < b.limit) {
		close(b.waiting[0])
		b.waiting = b.waiting[1:]
		b.busy++
	}
}

// throttled says that the store wants fewer requests.
func throttled(e *Error) bool {
	return e.Status == 429 || e.Status == 503 || e.Code == "SlowDown"
}
