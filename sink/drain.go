package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen/stages"
)

// untilDrain returns a context that ends with ctx or when a drain begins.
func (s *Sink) untilDrain(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// finish ends the passes and waits for the queues' goroutines.
func (s *Sink) finish() {
	s.drain.Do(func() { close(s.draining) }) // an abort stops new work too
	for _, q := range s.all() {
		q.beginDrain()
	}
	s.mu.Lock()
	s.crew.closed = true // the refresh goes on, and a lease that it finds lost must start nothing
	s.mu.Unlock()
	s.running.Wait()
}

// ending says what a drain has left undone: a queue that is owned here and has not drained was cut off, or has failed in an open window. Ask it
// when no queue runs and before the leases are given back.
func (s *Sink) ending() stopped {
	var e stopped
	for _, q := range s.all() {
		q.mu.Lock()
		if q.owned && q.status.now() != stateDrained {
			e.left = append(e.left, q.name)
			if q.adopted != nil && q.adopted.ledger.Open() {
				e.open = append(e.open, fmt.Sprintf("%s %d", q.name, q.adopted.at.K+1))
			}
		}
		q.mu.Unlock()
	}
	s.mu.Lock()
	cause := context.Cause(s.work)
	s.mu.Unlock()
	if len(e.left) > 0 && errors.Is(cause, errGrace) {
		e.why = cause
	}
	return e
}

// release gives all leases back, unless the stop was an abort that wants none of it.
func (s *Sink) release(ctx context.Context) {
	var held []*queue
	for _, q := range s.all() {
		if q.lease.Held() {
			held = append(held, q)
		}
	}
	if len(held) > 0 && ctx.Err() == nil {
		s.tryRelease(ctx, held)
	}
}

// errGrace is the cause of passes that a drain could not wait for.
var errGrace = errors.New("the grace of the shutdown is over")

// Drain stops the reading, finishes the windows that are worth it or begun, gives the leases back and waits for Run to return. Nine tenths
// of the configured grace are for the windows; what is left of them then is cut off and redone by the next life. ctx ends it at once.
func (s *Sink) Drain(ctx context.Context) error {
	s.drain.Do(func() { close(s.draining) })
	s.mu.Lock()
	begun := s.abort != nil
	s.mu.Unlock()
	if !begun {
		return nil
	}
	timer := time.NewTimer(s.cfg.ShutdownGrace * 9 / 10)
	defer timer.Stop()
	for {
		select {
		case <-s.ended:
			return nil
		case <-timer.C:
			s.cut(errGrace)
		case <-ctx.Done():
			s.abort(context.Cause(ctx))
			<-s.ended
			return context.Cause(ctx)
		}
	}
}

// beginDrain ends a queue because the sink stops.
func (q *queue) beginDrain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopTimer()
	q.draining = true
	if !q.leaving { // else that was done
		q.windDown()
	}
	switch {
	case q.pass != nil:
	case q.activity == live || q.activity == inLine:
	case q.unfinished():
		q.start()
	default:
		q.drained()
	}
}

// windDown ends the reading of a queue. An open window of a MiB or more, or of a queue that is behind, is closed and finished, and so is
// whatever has an intent; a smaller window is left to the next life. The lock is held.
func (q *queue) windDown() {
	if a := q.current(); a != nil && (q.pass != nil || a.cutter.Open()) {
		buffered := a.cutter.Status().Weight
		lag, _ := q.lag()
		aged := lag >= 10*time.Second
		worth := buffered >= 1<<20 || buffered > 0 && aged
		q.s.raise(q, draining{buffered: buffered, aged: aged, closing: worth, state: q.status.now(), leaving: q.leaving})
		if worth {
			a.cutter.Force(stages.Drain)
		}
	}
	if q.pass != nil {
		q.pass.drain()
	}
}
