// Package placement decides which node of a sink claims which queue, and when one is given back (contract S7).
//
// It is pure: no I/O, no clock, no goroutine, no random source of its own. Package sink tells a Book what it sees (presence rows, lease rows of
// queues that it does not hold, how its own claims went) and asks it what to do at a moment. A Book decides nothing about correctness: whoever it
// sends to claim asks the log, and the fence (package commit) keeps a node that is wrong from writing.
//
//	book.go     what is known: nodes, lease rows, who was counted out
//	decide.go   what follows: look, claim, give back
//
// The rules, with N the nodes that are there (this one always), Q the queues of the sink and a share of Q/N rounded up:
//
//   - A free queue is claimed a jitter and 50 ms for each queue that this node runs after it was seen free, 1.5 s at most; a whole time to live
//     later by a node that has its share; and not before a cool-down is over. So who runs least claims first.
//   - A lease that ran out without having been given back counts its holder out until that node writes its presence row again.
//   - Who has held more than its share for a whole time to live gives one queue back, the one with the least to finish, and stays away from it
//     for two. The next one follows when the last is held by another node, or when nobody took it within a time to live.
package placement

import (
	"cmp"
	"time"
)

// Moment is a moment of this process: the monotonic time since some start.
type Moment = time.Duration

// never is a moment that has not come.
const never = Moment(-1)

// Options of a Book.
type Options struct {
	Instance string        // name of this node
	TTL      time.Duration // time to live of lease and presence rows
	// Jitter is drawn once for each time that a queue is seen free, in [0, 1): the wait that belongs to it is below the 50 ms of one queue, so it
	// never puts a node before one that runs less.
	Jitter func() float64
	Look   time.Duration // shortest distance between two looks at a row that nothing is known to happen to; 0 = 500 ms
}

// Book is what one node knows of the nodes and queues of a sink. It is for one goroutine at a time.
type Book struct {
	o     Options
	nodes map[string]*node   // by name; without this one
	rows  map[string]*waiter // queues that this node would run and does not hold, by name
	here  Moment             // when this node's own presence row was first written; never = it was not

	over    Moment // since when this node has held more than its share; never = it does not
	refused int    // how often in a row nobody took what was given, with these nodes
	giving  giving
}

// node is another node, as its presence row shows it.
type node struct {
	version uint64
	expires Moment // of the row
	out     bool   // one of its leases ran out since it wrote the row
}

// waiter is a queue that this node does not hold.
type waiter struct {
	name    string
	looked  Moment // when its lease row was last looked at; never = it was not
	holder  string // as the row said; "" = it is free
	version uint64
	expires Moment // of the lease row, unless it is written again
	free    Moment // since when it is seen free; never = it is not
	jitter  time.Duration
	rest    Moment // it is not claimed before
	back    bool   // nobody took it when this node gave it: it is claimed again whatever the share
	claimed bool   // it was handed out to be claimed, and there was no answer yet
	shown   bool   // the holder was told to people
}

// giving is the queue that is being given back.
type giving struct {
	queue    string // "" = none
	begun    Moment
	released Moment // never = not yet
}

// New returns a book in which nothing is written.
func New(o Options) *Book {
	o.Look = cmp.Or(o.Look, shortestLook)
	return &Book{o: o, nodes: map[string]*node{}, rows: map[string]*waiter{}, here: never, over: never}
}

// Row is a lease row or a presence row.
type Row struct {
	Node    string // whose it is; "" = there is no row
	Version uint64
	Left    time.Duration // until it runs out; negative = not known: a time to live from when this version was first seen
}

// Nodes takes the presence rows of all nodes, read at one moment.
func (b *Book) Nodes(now Moment, rows []Row) {
	there := map[string]bool{}
	for _, r := range rows {
		if r.Node == b.o.Instance {
			continue
		}
		there[r.Node] = true
		n := b.nodes[r.Node]
		if n == nil {
			n = &node{}
			b.nodes[r.Node], b.refused = n, 0
		}
		fresh := n.version != r.Version
		n.expires = b.expiry(now, r, fresh, n.expires)
		if fresh {
			n.version, n.out = r.Version, false
		}
	}
	for name := range b.nodes {
		if !there[name] {
			delete(b.nodes, name)
			b.refused = 0
			b.hurry(now, name)
		}
	}
}

// Here notes that this node's presence row is written. Nothing is claimed or given back before: the others do not count it, nor it those that
// start with it.
func (b *Book) Here(now Moment) {
	if b.here == never {
		b.here = now
	}
}

// hurry has the rows of a node that has gone looked at soon: it may have given them back.
func (b *Book) hurry(now Moment, name string) {
	for _, w := range b.rows {
		if w.holder == name {
			w.expires = min(w.expires, now)
		}
	}
}

func (b *Book) expiry(now Moment, r Row, fresh bool, before Moment) Moment {
	switch {
	case r.Left >= 0:
		return now + r.Left
	case fresh:
		return now + b.o.TTL
	}
	return before
}

// Want notes that this node would run a queue and does not hold it.
func (b *Book) Want(queue string) {
	if b.rows[queue] == nil {
		b.rows[queue] = &waiter{name: queue, looked: never, free: never}
	}
}

// Drop forgets a queue: this node holds it now, or it does not exist any more.
func (b *Book) Drop(queue string) { delete(b.rows, queue) }

// Lost notes that a claim found another holder. The log is ahead of what this node has applied, which may go on showing the queue free.
func (b *Book) Lost(now Moment, queue, holder string) {
	b.Want(queue)
	w := b.rows[queue]
	w.take(holder)
	w.claimed, w.looked, w.expires, w.rest = false, now, now+b.o.TTL, max(w.rest, now+b.o.TTL/3)
}

// take notes who holds the queue.
func (w *waiter) take(holder string) {
	if w.holder != holder || w.looked == never {
		w.shown = false
	}
	w.holder = holder
	if holder != "" {
		w.free = never
	}
}

// Saw takes the lease row of a queue as own applied state shows it.
func (b *Book) Saw(now Moment, queue string, r Row) {
	w := b.rows[queue]
	if w == nil {
		return
	}
	if r.Node == "" {
		if w.holder != "" && now >= w.expires {
			b.countOut(w.holder)
			w.rest = 0 // a cool-down was for whoever had it
		}
		w.take("")
		if w.free == never {
			w.free, w.jitter = now, time.Duration(b.o.Jitter()*float64(perQueue))
		}
	} else {
		w.take(r.Node)
		w.expires, w.version = b.expiry(now, r, w.version != r.Version, w.expires), r.Version
	}
	w.looked = now
}

// countOut takes a node for gone: it let a lease run out. Its presence row, which may live on for a while, says nothing any more until it is
// written again.
func (b *Book) countOut(name string) {
	if n := b.nodes[name]; n != nil {
		n.out = true
	}
}

// Size is how much there is of what a share is made of.
type Size struct {
	Queues int // of the sink, held by anybody or nobody
	Held   int // by this node
	Load   int // held by this node over all sinks of the process
}

// NodeCount returns how many nodes share the queues.
func (b *Book) NodeCount() int {
	n := 1
	for _, other := range b.nodes {
		if !other.out {
			n++
		}
	}
	return n
}

// Share returns how many of so many queues are this node's.
func (b *Book) Share(queues int) int {
	n := b.NodeCount()
	return (queues + n - 1) / n
}
