package sink

import (
	"context"
	"time"
)

// bucketPeriod is how often a bucket that answers is probed again (contract B8).
const bucketPeriod = 60 * time.Second

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

// watchBucket probes again and again, quicker while there is no answer.
func (s *Sink) watchBucket(ctx context.Context) {
	for n := 0; ; {
		wait := bucketPeriod
		if n > 0 {
			wait = s.backoff.Delay(n - 1)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if s.probe(ctx) {
			n = 0
		} else {
			n++
		}
	}
}
