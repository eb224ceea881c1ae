package sink

import (
	"context"
	"errors"
	"time"

	"queen/commit"
	"queen/encode"
	"queen/stages"
	"queen/upload"
)

// Waits of a queue that does not go on by itself.
const (
	missingWait     = 5 * time.Second
	failedWait      = 60 * time.Second
	requestDeadline = 120 * time.Second // of one request to the store: how long an old owner's may still be under way
)

// verdict is what follows an error: when to try again, and whether the goroutine ends meanwhile.
type verdict struct {
	wait time.Duration
	rest bool
}

// stopped are the errors that end a queue's goroutine without being faults.
type (
	missingError struct{}
	heldError    struct{ holder string }
	keysError    struct{ error }
)

func (missingError) Error() string { return "the queue does not exist" }

func (e heldError) Error() string { return "held by " + e.holder }

// judge decides what follows the end of an attempt that failed; n counts the failures in a row. Whatever it was, the next attempt starts
// from the rows.
func (q *queue) judge(ctx context.Context, err error, n int) verdict {
	open := q.reset()
	if ctx.Err() != nil {
		return verdict{never, true}
	}
	if q.s.stopping() && !open {
		q.s.raise(q, drained{})
		return verdict{never, true}
	}
	var ce *commit.Error
	var ue *upload.Error
	var unknown *encode.UnknownError
	var panicked *stages.PanicError
	var missing missingError
	var held heldError
	var keys keysError
	switch {
	case errors.As(err, &missing):
		q.s.raise(q, queueMissing{})
		return verdict{missingWait, true}
	case errors.As(err, &held):
		q.s.raise(q, heldElsewhere{held.holder})
		return verdict{q.s.cfg.LeaseTTL/3 + q.s.jitter(200*time.Millisecond), true}
	case errors.As(err, &keys):
		return q.fail(err, failedWait)
	case errors.As(err, &panicked):
		q.s.raise(q, crashed{err, panicked.Stack})
		return verdict{failedWait, true}
	case errors.As(err, &unknown):
		return q.abandon(ctx, err, failedWait)
	case errors.Is(err, stages.ErrDamaged):
		return q.abandon(ctx, err, q.faultWait())
	case errors.As(err, &ce):
		return q.judgeCommit(ctx, err, ce, n)
	case errors.As(err, &ue) && !ue.Retryable:
		return q.fail(err, failedWait)
	case errors.As(err, &ue):
		return q.again(err, max(q.s.backoff.Delay(n), ue.RetryAfter))
	case errors.Is(err, stages.ErrStaleRef) && n == 0:
		return q.again(err, 0)
	}
	return q.again(err, q.s.backoff.Delay(n))
}

func (q *queue) judgeCommit(ctx context.Context, err error, ce *commit.Error, n int) verdict {
	switch ce.Kind {
	case commit.Fenced:
		q.lose()
		q.s.raise(q, fenced{err, ce.Holder, ce.Twin})
		return verdict{commit.WholeTTL(q.s.cfg.LeaseTTL), true}
	case commit.Fatal:
		return q.abandon(ctx, err, failedWait)
	case commit.Data:
		return q.abandon(ctx, err, q.faultWait())
	}
	if ce.Wait >= 0 && n == 0 {
		return q.again(err, ce.Wait)
	}
	return q.again(err, max(ce.Wait, q.s.backoff.Delay(n)))
}

// reset forgets what the rows said and reports whether a window was open.
func (q *queue) reset() (open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	open = q.ledger != nil && q.ledger.Open()
	if q.feed != nil {
		q.feed.Close()
		q.feed = nil
	}
	q.ready, q.woken = false, true
	return open
}

// again keeps the goroutine: the attempt is repeated after a wait.
func (q *queue) again(err error, wait time.Duration) verdict {
	q.s.raise(q, waiting{"pass", err})
	return verdict{wait: wait}
}

// fail leaves the queue for a while; its lease stays.
func (q *queue) fail(err error, wait time.Duration) verdict {
	q.s.raise(q, failed{err})
	return verdict{wait, true}
}

// abandon gives the lease back too: another node may be able to do what this one cannot.
func (q *queue) abandon(ctx context.Context, err error, wait time.Duration) verdict {
	q.s.raise(q, failed{err})
	q.s.tryRelease(ctx, []*queue{q})
	return verdict{wait, true}
}

// faultWait is how long this node stays away from a queue whose data it cannot read: 2 times to live, doubling to an hour.
func (q *queue) faultWait() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait := 2 * commit.WholeTTL(q.s.cfg.LeaseTTL)
	for i := 0; i < q.faults && wait < time.Hour; i++ {
		wait *= 2
	}
	q.faults++
	return wait
}
