package placement

import (
	"cmp"
	"slices"
	"time"
)

// Waits before a claim.
const (
	perQueue = 50 * time.Millisecond   // for each queue that this node runs
	longest  = 1500 * time.Millisecond // the most of these, and of the jitter
)

// Distances between two looks at lease rows: perRow keeps ten thousand of them from costing more than a few of them do.
const (
	shortestLook = 500 * time.Millisecond
	perRow       = 2 * time.Millisecond
	overdueLook  = 100 * time.Millisecond // at a row that should have run out by our clock: the log's may be behind
)

// period is the distance between two looks at the row of a queue that nothing is known to happen to: so often that it is looked at between its
// refresh and its end, which tells a lease that was given back from one that ran out.
func (b *Book) period() time.Duration {
	return min(b.o.TTL/3, max(b.o.Look, time.Duration(len(b.rows))*perRow))
}

// Due returns the queues whose lease rows are to be looked at now, sorted: all after a period; before that those that may have run out, and the
// one that was given back. When there is one, those go along whose turn it is soon: rows are read together.
func (b *Book) Due(now Moment) []string {
	var due, soon []string
	period := b.period()
	for name, w := range b.rows {
		switch {
		case now >= w.due(period) || b.giving.queue == name:
			due = append(due, name)
		case now >= w.looked+period/2:
			soon = append(soon, name)
		}
	}
	if len(due) > 0 {
		due = append(due, soon...)
	}
	slices.Sort(due)
	return due
}

// due is when the row is to be looked at.
func (w *waiter) due(period time.Duration) Moment {
	switch {
	case w.looked == never:
		return never
	case w.holder == "":
		return w.looked + period
	}
	return min(w.looked+period, max(w.expires, w.looked+overdueLook))
}

// Claims returns the queues that are to be claimed now, in this order, and takes note that they are. Drop, Lost or Want follow for each.
func (b *Book) Claims(now Moment, size Size) []string {
	if b.here == never {
		return nil
	}
	var out []string
	ahead := b.ahead()
	for _, w := range b.candidates() {
		if b.moment(w, size, ahead) <= now {
			w.claimed = true
			ahead++
			out = append(out, w.name)
		}
	}
	return out
}

// ahead is how many claims are under way.
func (b *Book) ahead() (n int) {
	for _, w := range b.rows {
		if w.claimed {
			n++
		}
	}
	return n
}

// candidates are the queues that may be claimed, in the order in which that is their turn. An own row is one: an earlier life of this node left it.
func (b *Book) candidates() []*waiter {
	var all []*waiter
	for _, w := range b.rows {
		if !w.claimed && (w.free != never || w.own(b)) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(x, y *waiter) int {
		return cmp.Or(cmp.Compare(x.free+x.jitter, y.free+y.jitter), cmp.Compare(x.name, y.name))
	})
	return all
}

func (w *waiter) own(b *Book) bool { return w.holder == b.o.Instance }

// moment is when a queue is to be claimed, with so many claims ahead of it.
func (b *Book) moment(w *waiter, size Size, ahead int) Moment {
	if w.own(b) {
		return max(b.here, w.rest)
	}
	wait := min(w.jitter+time.Duration(size.Load+ahead)*perQueue, longest)
	if size.Held+ahead >= b.Share(size.Queues) && !w.back {
		wait += b.o.TTL
	}
	return max(max(w.free, b.here)+wait, w.rest)
}

// Next returns when Claims or Due may have something new, at most limit from now.
func (b *Book) Next(now Moment, size Size, limit time.Duration) time.Duration {
	next := now + limit
	ahead, period := b.ahead(), b.period()
	for _, w := range b.rows {
		next = min(next, w.due(period))
		if b.here != never && !w.claimed && (w.free != never || w.own(b)) {
			next = min(next, b.moment(w, size, ahead))
		}
	}
	return max(next-now, 0)
}

// Change is a queue whose holder is another one than was told.
type Change struct {
	Queue  string
	Holder string // "" = it is free
}

// Changes returns what has not been told yet; Told notes that it was.
func (b *Book) Changes() []Change {
	var all []Change
	for name, w := range b.rows {
		if w.looked != never && !w.shown {
			all = append(all, Change{name, w.holder})
		}
	}
	slices.SortFunc(all, func(x, y Change) int { return cmp.Compare(x.Queue, y.Queue) })
	return all
}

// Told notes that people were told of a change.
func (b *Book) Told(c Change) {
	if w := b.rows[c.Queue]; w != nil && w.holder == c.Holder {
		w.shown = true
	}
}

// Excess says whether one of the queues that this node holds is to be given back now.
func (b *Book) Excess(now Moment, size Size) bool {
	if b.here == never || size.Held <= b.Share(size.Queues) {
		b.over = never
		return false
	}
	if b.over == never {
		b.over = now
	}
	return now-b.over >= b.patience() && b.giving.queue == "" && b.alive(now)
}

// patience is how long there must have been too many queues before one is given back: a time to live, and twice as long each time that nobody took what was
// given, up to an hour. A node may be there and not take a queue: it lacks a key, or what an intent says, or is far behind. It counts as a node all the same, since
// its row does not say so; what is given for it comes back after the cool-down, and is seldom tried again.
func (b *Book) patience() Moment {
	return min(b.o.TTL<<min(b.refused, 16), max(b.o.TTL, time.Hour))
}

// alive says whether all nodes that are counted have been heard of lately. One that has missed two beats is probably gone, and what was given to it
// would lie around.
func (b *Book) alive(now Moment) bool {
	for _, n := range b.nodes {
		if !n.out && n.expires-now < b.o.TTL/3 {
			return false
		}
	}
	return true
}

// Held is a queue that this node holds.
type Held struct {
	Queue    string
	Buffered int64 // bytes of its open window
}

// Least returns the queue to give back: the one with the least buffered, by name among equals; "" when there is none.
func Least(held []Held) string {
	if len(held) == 0 {
		return ""
	}
	return slices.MinFunc(held, func(x, y Held) int {
		return cmp.Or(cmp.Compare(x.Buffered, y.Buffered), cmp.Compare(x.Queue, y.Queue))
	}).Queue
}

// Give notes that a queue is being given back. Given, or Kept when nothing came of it, follows.
func (b *Book) Give(now Moment, queue string) { b.giving = giving{queue, now, never} }

// Given notes that the queue is released. This node does not claim it for two times to live.
func (b *Book) Given(now Moment, queue string) {
	b.Want(queue)
	w := b.rows[queue]
	w.rest, w.claimed = now+2*b.o.TTL, false
	if b.giving.queue == queue {
		b.giving.released = now
	}
}

// Kept notes that a queue is not being given back any more.
func (b *Book) Kept(queue string) {
	if b.giving.queue == queue {
		b.giving = giving{}
	}
}

// Giving is the queue that is being given back, "" when there is none, and how long it has not been released.
func (b *Book) Giving(now Moment) (queue string, unreleased time.Duration) {
	if g := b.giving; g.queue != "" && g.released == never {
		return g.queue, now - g.begun
	}
	return b.giving.queue, 0
}

// Settled says what became of the queue that was given back: another node holds it, or nobody took it for a time to live. The next one may follow.
func (b *Book) Settled(now Moment) (queue, holder string, ok bool) {
	g := b.giving
	if g.queue == "" || g.released == never {
		return "", "", false
	}
	w := b.rows[g.queue]
	if w != nil && w.holder != "" && w.holder != b.o.Instance && w.looked > g.released {
		holder = w.holder
	} else if now-g.released < b.o.TTL {
		return "", "", false
	}
	b.giving = giving{}
	if holder != "" || w == nil {
		b.refused = 0
	} else {
		b.refused++
		b.over, w.back = never, true
	}
	return g.queue, holder, true
}
