package commit

import (
	"context"
	"time"
)

// hurried is the longest wait of a process that is stopping: short, and never none (no hot loop).
const hurried = 250 * time.Millisecond

// Backoff is the waiting rule of everything that is tried again without limit: First doubling to Max, each delay times a factor in
// [0.75, 1.25). Once Hurry is closed no wait is longer than 250 ms (contract S13).
type Backoff struct {
	First, Max time.Duration
	Jitter     func() float64  // in [0, 1); safe for several goroutines
	Hurry      <-chan struct{} // closed when the process is stopping; nil = never
}

// Delay returns the delay before attempt n+1, n counted from 0.
func (b Backoff) Delay(n int) time.Duration {
	d := b.Max
	if n < 32 && b.First<<n > 0 && b.First<<n < b.Max {
		d = b.First << n
	}
	return time.Duration(float64(d) * (0.75 + b.Jitter()/2))
}

// Wait waits for d, or until ctx ends, whose error it then returns.
func (b Backoff) Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.Hurry:
	}
	short := time.NewTimer(min(d, hurried))
	defer short.Stop()
	select {
	case <-timer.C:
	case <-short.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
