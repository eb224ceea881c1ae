package sink

import (
	"math"
	"time"
)

// activity is what a queue's row is doing. Of the four exactly one holds, and these are all ways between them:
//
//	idle      -> live       wake: discovery has found something, or the row is new
//	sleeping  -> live       its timer, or lostLease
//	live      -> idle       rest: nothing left to do
//	live      -> sleeping   sleep: nothing to do before a timer, or ever
//	idle, sleeping -> forgotten   the queue does not exist any more and nothing of it is held
type activity uint8

const (
	idle activity = iota
	live
	sleeping
	forgotten
)

// wake says that there is something to do. Discovery calls it; it does not block. Who sleeps is not woken: it looks by itself when its time has
// come.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.woken = true
	if q.activity == idle {
		q.start()
	}
}

// start starts the goroutine of a row that has none. The lock is held.
func (q *queue) start() {
	if q.activity != idle && q.activity != sleeping {
		return
	}
	if q.s.spawn(q.live) {
		q.stopTimer()
		q.activity = live
	}
}

// rest ends live if nothing is left to do.
func (q *queue) rest() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.woken && (!q.s.stopping() || q.adopted.at.Redo != nil) {
		q.woken = false
		return false
	}
	q.activity = idle
	if q.s.stopping() {
		q.drained()
	}
	return true
}

// never is a wait that only a stop or a restart of the sink ends.
const never = time.Duration(math.MaxInt64)

// sleep ends live until a timer starts it again.
func (q *queue) sleep(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.activity, q.failures = sleeping, 0 // who has slept begins anew
	if d == never || q.s.stopping() {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.timer == timer { // else it was stopped too late
			q.start()
		}
	})
	q.timer = timer
}

// stopTimer ends the wait of a sleeping row. The lock is held.
func (q *queue) stopTimer() {
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}

// outdate makes the next attempt adopt again. The lock is held.
func (q *queue) outdate() {
	if a := q.adopted; a != nil && !a.stale {
		a.stale = true
		a.feed.Close()
	}
	q.woken = true
}

// current is what was adopted, nil when it is stale. The lock is held.
func (q *queue) current() *adopted {
	if q.adopted == nil || q.adopted.stale {
		return nil
	}
	return q.adopted
}

// drained tells the end of a queue that this process owned. The lock is held.
func (q *queue) drained() {
	if q.owned {
		q.s.raise(q, drained{})
	}
}

// disown notes that this process does not own the queue any more.
func (q *queue) disown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.owned = false
}
