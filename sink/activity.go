package sink

import (
	"math"
	"time"
)

// activity is what a queue's row is doing. Of the five exactly one holds, and these are all ways between them:
//
//	idle, sleeping -> live       wake: a window is due, or the row is new; its timer; lostLease; a drain that has to finish something
//	idle, sleeping -> in line    the same, while as many are live as may be
//	in line        -> live       its turn
//	live           -> in line    makeWay: it has adopted, or written a window, and others are in line
//	live           -> idle       rest: nothing left to do
//	live           -> sleeping   sleep: nothing to do before a timer, or ever
//	idle, sleeping -> forgotten  the queue does not exist any more and nothing of it is held
type activity uint8

const (
	idle activity = iota
	inLine
	live
	sleeping
	forgotten
)

// mostLive bounds how many rows are live at once: more would only wait for memory, each with a pipeline. Who is live for long, with a backlog,
// goes back in line after each window while others are there.
const mostLive = 32

// crew is the goroutines of the rows that are live, and the rows in line for one.
type crew struct {
	live   int
	line   []*queue
	closed bool // nobody new: the sink waits for those that there are
}

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

// start makes a row live that is not, or puts it in line. The lock is held.
func (q *queue) start() {
	if q.activity != idle && q.activity != sleeping || q.s.stopping() && !q.unfinished() {
		return
	}
	if a, ok := q.s.enlist(q); ok {
		q.stopTimer()
		q.activity = a
	}
}

// unfinished says that something of the row has to be done before the sink ends: a window whose intent is written, or one that the drain
// wants closed. The lock is held.
func (q *queue) unfinished() bool {
	return q.adopted != nil && (q.adopted.ledger.Open() || !q.adopted.stale && q.adopted.cutter.Wanted())
}

// enlist gives a row a goroutine or a place in line. It does neither when the sink is over.
func (s *Sink) enlist(q *queue) (activity, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work == nil || s.crew.closed {
		return 0, false
	}
	if s.crew.live == mostLive {
		s.crew.line = append(s.crew.line, q)
		return inLine, true
	}
	s.crew.live++
	ctx := s.work
	s.running.Go(func() {
		for next := q; next != nil; next = s.nextInLine() {
			s.guarded("queue "+next.name, func() { next.live(ctx) })
		}
	})
	return live, true
}

// nextInLine takes the row whose turn it is; nil ends the goroutine that asked.
func (s *Sink) nextInLine() *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.crew.line) == 0 {
		s.crew.live--
		return nil
	}
	q := s.crew.line[0]
	s.crew.line = s.crew.line[1:]
	return q
}

// lined says that rows are in line.
func (s *Sink) lined() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.crew.line) > 0
}

// wanted says that somebody waits for memory or for a turn: a pass whose request ran into a time limit has to end.
func (s *Sink) wanted() bool { return s.lined() || s.shared.budget.Waiting() }

// makeWay puts a live row at the end of the line, if there is one. Its window and its feed stay as they are.
func (q *queue) makeWay() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	if len(q.s.crew.line) == 0 || q.s.crew.closed {
		return false
	}
	q.activity = inLine
	q.s.crew.line = append(q.s.crew.line, q)
	return true
}

// attend begins a turn of live: whatever wakes the row from now on makes it look again. It is false when the sink stops and the row has
// nothing to finish.
func (q *queue) attend() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.activity, q.woken = live, false
	if q.s.stopping() && !q.unfinished() {
		q.activity = idle
		q.drained()
		return false
	}
	return true
}

// rest ends live if nothing has come up meanwhile.
func (q *queue) rest(a *adopted) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if (q.woken || a.stale) && !q.s.stopping() {
		return false
	}
	a.feed.Done()
	q.activity = idle
	if q.s.stopping() {
		q.drained()
	}
	return true
}

// never is a wait that only a stop or a restart of the sink ends.
const never = time.Duration(math.MaxInt64)

// sleep ends live until a timer starts it again. It is false while the sink stops and the attempt is to be repeated: the sink waits for
// goroutines, and not for timers.
func (q *queue) sleep(v verdict) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.s.stopping() && !v.rest {
		return false
	}
	q.activity = sleeping
	if v.rest {
		q.failures = 0 // who has rested begins anew
		if v.wait != never {
			q.called = false
			q.s.unwant(q.name) // until it is back
		}
	}
	if v.wait == never && (q.called || q.leaving) { // it was called, or told to leave, before it slept
		v.wait = 0
	}
	if v.wait == never || q.s.stopping() {
		return true
	}
	var timer *time.Timer
	timer = time.AfterFunc(v.wait, func() {
		q.s.guarded("queue "+q.name, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			if q.timer == timer { // else it was stopped too late
				q.start()
			}
		})
	})
	q.timer = timer
	return true
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

// drained tells the end of a queue that this process owned, once the drain has come to it. The lock is held.
func (q *queue) drained() {
	if q.owned && q.draining && q.status.now() != stateDrained {
		q.s.raise(q, drained{})
	}
}

// disown notes that this process does not own the queue any more.
func (q *queue) disown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.owned = false
}
