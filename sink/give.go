package sink

import (
	"context"
	"time"

	"queen/sink/placement"
)

// hurried is the longest wait of a queue that is being given back.
const hurried = 250 * time.Millisecond

// giveOne picks the queue of this node that has the least to finish, and begins to give it back.
func (s *Sink) giveOne(now placement.Moment, e excess) {
	var held []placement.Held
	for _, q := range s.all() {
		if q.lease.Held() {
			q.mu.Lock()
			held = append(held, placement.Held{Queue: q.name, Buffered: q.buffered()})
			q.mu.Unlock()
		}
	}
	q := s.row(placement.Least(held))
	if q == nil || len(held) <= e.share { // a lease was lost meanwhile
		return
	}
	s.place.mu.Lock()
	s.place.book.Give(now, q.name)
	s.place.mu.Unlock()
	s.raise(q, e)
	q.giveBack()
}

// giveBack lets a queue go to another node: it drains as in a stop, then its lease is released.
func (q *queue) giveBack() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaving, q.woken = true, true
	q.windDown()
	q.start()
}

// cutOff ends the drain of a queue that is being given back and cannot finish, as with a bucket that is dead: the next owner redoes its window.
func (q *queue) cutOff() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.leaving {
		return
	}
	q.cutShort = true
	if q.pass != nil {
		q.pass.cancel(errGrace)
		return
	}
	q.start()
}

// leaves says that the queue is being given back.
func (q *queue) leaves() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.leaving
}

// left says that a queue which is being given back has nothing more to finish here.
func (q *queue) left() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.leaving || q.s.stopping() || q.stays() {
		return false
	}
	return q.cutShort || !q.unfinished()
}

// stays ends the giving back of a queue whose lease is not held any more: there is nothing to give. The lock is held.
func (q *queue) stays() bool {
	if q.lease.Held() {
		return false
	}
	q.leaving, q.cutShort = false, false
	q.s.place.mu.Lock()
	defer q.s.place.mu.Unlock()
	q.s.place.book.Kept(q.name)
	return true
}

// hasten shortens the wait after a failed attempt of a queue that is being given back. What would rest is not waited for.
func (q *queue) hasten(v verdict) verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.leaving || q.s.stopping() || q.stays() {
		return v
	}
	q.cutShort = q.cutShort || v.rest
	return verdict{wait: min(v.wait, hurried)}
}

// handOver releases the lease of a queue that has left. This node claims it again only when nobody else does for long.
func (q *queue) handOver(ctx context.Context) {
	q.mu.Lock()
	q.outdate()
	q.mu.Unlock()
	q.s.tryRelease(ctx, []*queue{q})
	now := q.s.moment()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaving, q.cutShort, q.called = false, false, false
	q.activity = sleeping
	q.s.place.mu.Lock()
	q.s.place.book.Given(now, q.name)
	q.s.place.mu.Unlock()
	q.s.raise(q, released{})
}
