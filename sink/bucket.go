package sink

import (
	"context"
	"time"
)

// bucketPeriod is how often a bucket that answers is probed again (contract B8).
const bucketPeriod = 60 * time.Second

// nudgedWait is how soon it is probed when a queue's request has failed.
const nudgedWait = time.Second

// probe asks the bucket once, and notes the answer.
func (s *Sink) probe(ctx context.Context) bool {
	err := s.client.Probe(ctx, s.cfg.Prefix)
	if err != nil && ctx.Err() != nil {
		return false
	}
	s.raise(nil, probed{err})
	return err == nil
}

// reach probes until the bucket answers, 1 s doubling to 60 s. It is false when the sink stops first. No queue is claimed before.
func (s *Sink) reach(ctx context.Context) bool {
	for n := 0; !s.probe(ctx); n++ {
		if s.stopping() || s.backoff.Wait(ctx, s.backoff.Delay(n)) != nil || s.stopping() {
			return false
		}
	}
	return !s.stopping()
}

// nudge has the bucket probed soon: what failed for one queue may be a fault of all, and then status says so.
func (s *Sink) nudge() {
	select {
	case s.nudged <- struct{}{}:
	default:
	}
}

// watchBucket probes again and again, quicker while there is no answer, and soon after a request of a queue has failed, yet at most once a
// second.
func (s *Sink) watchBucket(ctx context.Context) {
	for n := 0; ; {
		wait := bucketPeriod
		if n > 0 {
			wait = s.backoff.Delay(n - 1)
		}
		if !s.untilProbe(ctx, wait) {
			return
		}
		if s.probe(ctx) {
			n = 0
		} else {
			n++
		}
	}
}

// untilProbe waits for the next probe; false is the end of ctx.
func (s *Sink) untilProbe(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-s.nudged:
	}
	soon := time.NewTimer(min(wait, nudgedWait))
	defer soon.Stop()
	select {
	case <-soon.C:
		return true
	case <-ctx.Done():
		return false
	}
}
