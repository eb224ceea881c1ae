package sink

import (
	"context"
	"errors"
	"sync"
	"time"

	"queen/upload"
)

// leastLimit is the shortest lag in which a queue may be and healthy all the same.
const leastLimit = 30 * time.Second

// health is the verdict of contract S12: red when the lag of a queue that runs here is above three times the longest window, or above 30 s
// if that is more. Time in which discovery could not look counts too, and so does the time before a queue has told anything.
func (s *Sink) health() (verdict map[string]any, ok bool) {
	limit := max(3*s.cfg.MaxWindow, leastLimit)
	watched := 0
	for _, q := range s.all() {
		stale, counts := q.stale()
		if !counts {
			continue
		}
		watched++
		if stale > limit {
			return map[string]any{"ok": false, "queue": q.name, "staleMs": stale.Milliseconds(), "limitMs": limit.Milliseconds()}, false
		}
	}
	return map[string]any{"ok": true, "queues": watched}, true
}

// stale is how long the lake has been without news of a queue.
func (q *queue) stale() (stale time.Duration, counts bool) {
	q.mu.Lock()
	lag, known := q.lag()
	q.mu.Unlock()
	q.status.mu.Lock()
	counts = q.status.watched
	since := q.status.since
	q.status.mu.Unlock()
	now := q.s.o.Now()
	if !known {
		return now.Sub(since), counts
	}
	return lag + max(0, now.Sub(q.s.bucket.lookedAt(since))-2*q.s.cfg.DiscoveryInterval), counts
}

// bucketStatus is what people see of the sink as a whole: the bucket, and when discovery looked last.
type bucketStatus struct {
	mu      sync.Mutex
	checked time.Time
	err     error
	mute    chan struct{} // closed by the next probe that is answered; nil while the last one was
	looked  time.Time
}

func (b *bucketStatus) hear(event any, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case probed:
		b.checked, b.err = now, e.err
		b.setMute(silent(e.err))
	case seen:
		b.looked = now
	}
}

// silent says that the store gave no answer at all. Whatever it answers, a window may still find its way.
func silent(err error) bool {
	e, ok := errors.AsType[*upload.Error](err)
	return ok && e.Status == 0
}

// setMute notes whether the last probe had no answer. The lock is held.
func (b *bucketStatus) setMute(mute bool) {
	switch {
	case mute && b.mute == nil:
		b.mute = make(chan struct{})
	case !mute && b.mute != nil:
		close(b.mute)
		b.mute = nil
	}
}

// answering waits while the bucket is mute: a window that waited for such a store with memory in its hands would slow every other bucket.
func (b *bucketStatus) answering(ctx context.Context) error {
	b.mu.Lock()
	mute := b.mute
	b.mu.Unlock()
	if mute == nil {
		return nil
	}
	select {
	case <-mute:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lookedAt is when discovery last looked with success, at least since.
func (b *bucketStatus) lookedAt(since time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.looked.After(since) {
		return b.looked
	}
	return since
}

// report returns the block `bucket`; reachable is false only after a probe that failed.
func (b *bucketStatus) report() (block map[string]any, reachable bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	block = map[string]any{"reachable": nil, "error": nil, "checkedAt": nil}
	if !b.checked.IsZero() {
		block["checkedAt"], block["reachable"] = iso(b.checked), b.err == nil
	}
	if b.err != nil {
		block["error"] = b.err.Error()
	}
	return block, b.err == nil
}
