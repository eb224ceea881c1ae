package sink

import (
	"context"
	"errors"
	"fmt"
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

// verdict is what follows an error: when to try again, and whether that is a new beginning or the same attempt once more.
type verdict struct {
	wait time.Duration
	rest bool
}

// standstill is the sink's own reason why a queue cannot go on here: what people are shown, and when to look again.
type standstill struct {
	event any // queueMissing, heldElsewhere, failed: it sets the state
	wait  time.Duration
	err   error
}

func (e *standstill) Error() string { return e.err.Error() }

func (e *standstill) Unwrap() error { return e.err }

// refuse is the standstill of a queue that must not be mirrored as it is: its names fit no store, or it would write over an earlier life.
func refuse(err error) error { return &standstill{failed{err}, failedWait, err} }

// judge decides what follows the end of an attempt that failed. Whatever it was, the next attempt starts from the rows.
func (q *queue) judge(ctx context.Context, err error) verdict {
	open, n := q.fault()
	if ctx.Err() != nil {
		return verdict{never, true}
	}
	if q.s.stopping() && !open {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.drained()
		return verdict{never, true}
	}
	if e, ok := errors.AsType[*standstill](err); ok {
		q.s.raise(q, e.event)
		return verdict{e.wait, true}
	}
	if e, ok := errors.AsType[*stages.PanicError](err); ok {
		err = fmt.Errorf("%w: a fault of queen, please report it with its stack, which is in the log; the queue is tried again in %v", err, failedWait)
		q.s.raise(q, crashed{err, e.Stack})
		return verdict{failedWait, true}
	}
	if _, ok := errors.AsType[*encode.UnknownError](err); ok {
		return q.abandon(ctx, err, failedWait)
	}
	if errors.Is(err, stages.ErrDamaged) {
		wait := q.faultWait()
		return q.abandon(ctx, fmt.Errorf("%w: nothing of it was sent; the lease is given back to a node that can read it, and this one looks again in %v", err, wait), wait)
	}
	if e, ok := errors.AsType[*commit.Error](err); ok {
		return q.judgeCommit(ctx, err, e, n)
	}
	if e, ok := errors.AsType[*upload.Error](err); ok {
		q.s.nudge()
		if !e.Retryable {
			return q.fail(err, failedWait)
		}
		return q.again(err, max(q.s.backoff.Delay(n), e.RetryAfter))
	}
	if errors.Is(err, stages.ErrStaleRef) && n == 0 {
		return q.again(err, 0)
	}
	return q.again(err, q.s.backoff.Delay(n))
}

func (q *queue) judgeCommit(ctx context.Context, err error, ce *commit.Error, n int) verdict {
	switch ce.Kind {
	case commit.Fenced:
		q.disown()
		q.s.place.moved.Store(true)
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
	wait := max(ce.Wait, q.s.backoff.Delay(n))
	if !q.lease.Held() { // a claim that failed: others may not want the queue either
		wait = min(wait, commit.WholeTTL(q.s.cfg.LeaseTTL))
	}
	return q.again(err, wait)
}

// fault counts a failure and forgets what the rows said. It reports whether a window was open, and how many failures there were before.
func (q *queue) fault() (open bool, before int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	open = q.adopted != nil && q.adopted.ledger.Open()
	q.outdate()
	before = q.failures
	q.failures++
	return open, before
}

// stepOf names what failed, for the log: what went to the bucket by its operation.
func stepOf(err error) string {
	if e, ok := errors.AsType[*upload.Error](err); ok {
		return string(e.Op)
	}
	if _, ok := errors.AsType[*commit.Error](err); ok {
		return "kv"
	}
	return "pass"
}

// again repeats the attempt after a wait.
func (q *queue) again(err error, wait time.Duration) verdict {
	q.s.raise(q, waiting{stepOf(err), err})
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
