package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/semaphore"

	"queen/broker/command"
	"queen/stages"
)

// What a proposer keeps to (design section 4).
const (
	groupBytes    = 256 << 10              // commands that wait are joined into one entry up to this size
	maxEntries    = 8                      // entries in flight
	inflightBytes = 64 << 20               // and their bytes
	entryShare    = inflightBytes >> 3     // what an entry takes of them, at least
	tickEvery     = 500 * time.Millisecond // without a command, a tick moves the log clock
	answerLimit   = 30 * time.Second       // after this long a proposal's outcome is called unknown
)

// Errors of Propose. Only ErrUnclear leaves open what happened.
var (
	ErrNoLeader = errors.New("this node does not lead the cluster")
	ErrUnclear  = fmt.Errorf("raft: %w", stages.ErrUnclear)
	ErrTooLarge = fmt.Errorf("command is larger than a raft entry may be (%d bytes)", command.MaxEntry)
	ErrUnknown  = errors.New("the leader does not know this command: its node may be of an older version, bring all to one")
	ErrDiskFull = errors.New("the disk of the raft log is full")
)

// applier is what the proposer needs of raft.
type applier interface {
	Apply(entry []byte, timeout time.Duration) raft.ApplyFuture
}

// proposer turns commands into entries. It is one goroutine that packs and one that answers:
//
//	propose: put the command into the queue, wait for its answer
//	pack:    wait for a command and for room in flight; take all that wait, up to 256 KiB or one larger command;
//	         give them a time and encode them; hand the entry to raft
//	answer:  entries come back in log order; give each command its result
//
// Because raft's channel holds all entries in flight, whatever was packed while one fsync ran goes into the next one: the
// number of fsyncs does not grow with the number of callers.
//
// Invariants: a command leaves the queue once, either packed or withdrawn; a withdrawn one was never seen by raft. Every
// command that was packed gets exactly one answer. A body is read under mu only, until the command is packed: who waits
// may give up at any moment, and its body is its own again then.
type proposer struct {
	log   applier
	time  func() stages.Micros // the time that the next entry carries
	ready func() bool          // this node leads, and its term's barrier is applied

	mu     sync.Mutex
	queue  []*proposal
	closed bool

	wake   chan struct{} // holds one token while the queue may hold something
	room   *semaphore.Weighted
	flight chan flight
	busy   atomic.Int64 // commands queued or in flight
}

// proposal is one command on its way.
type proposal struct {
	kind    command.Kind
	body    []byte
	request [16]byte
	packed  bool        // under proposer.mu
	done    chan answer // holds one
}

type answer struct {
	result any
	err    error
}

// flight is one entry that raft has.
type flight struct {
	group  []*proposal
	future raft.ApplyFuture
	weight int64
}

func newProposer(log applier, now func() stages.Micros, ready func() bool) *proposer {
	return &proposer{
		log: log, time: now, ready: ready,
		wake:   make(chan struct{}, 1),
		room:   semaphore.NewWeighted(inflightBytes),
		flight: make(chan flight, maxEntries),
	}
}

// propose queues one command and waits for its result.
func (p *proposer) propose(ctx context.Context, kind command.Kind, request [16]byte, body []byte) (any, error) {
	if 1+command.HeaderSize+len(body) > command.MaxEntry {
		return nil, ErrTooLarge
	}
	if !p.ready() {
		return nil, ErrNoLeader
	}
	c := &proposal{kind: kind, body: body, request: request, done: make(chan answer, 1)}
	if !p.enqueue(c) {
		return nil, ErrNoLeader
	}
	limit := time.NewTimer(answerLimit)
	defer limit.Stop()
	select {
	case a := <-c.done:
		return a.result, a.err
	case <-ctx.Done():
		return p.giveUp(c, ctx.Err())
	case <-limit.C:
		return p.giveUp(c, fmt.Errorf("%w: no answer within %s", ErrNoLeader, answerLimit))
	}
}

func (p *proposer) enqueue(c *proposal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.queue = append(p.queue, c)
	p.busy.Add(1)
	p.poke()
	return true
}

func (p *proposer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// giveUp ends the wait for a command: withdrawn when raft has not seen it, else its outcome is unknown.
func (p *proposer) giveUp(c *proposal, why error) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.packed {
		return nil, fmt.Errorf("%w (%w)", ErrUnclear, why)
	}
	for i, q := range p.queue {
		if q == c {
			p.queue = append(p.queue[:i], p.queue[i+1:]...)
			p.busy.Add(-1)
			break
		}
	}
	select {
	case a := <-c.done: // the proposer closed meanwhile
		return a.result, a.err
	default:
		return nil, fmt.Errorf("propose: %w", why)
	}
}

// pack runs until ctx ends; then nothing is in the queue and nothing is taken any more.
func (p *proposer) pack(ctx context.Context) {
	defer close(p.flight)
	defer p.refuse()
	tick := time.NewTimer(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-tick.C:
			p.tick()
		}
		for p.waiting() {
			if !p.send(ctx) {
				return
			}
			tick.Reset(tickEvery)
		}
		tick.Reset(tickEvery)
	}
}

// tick queues a tick when this node leads. Nobody waits for its answer.
func (p *proposer) tick() {
	if p.ready() {
		p.enqueue(&proposal{kind: command.KindTick, done: make(chan answer, 1)})
	}
}

func (p *proposer) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue) > 0
}

// send waits for room in flight and hands one entry to raft.
func (p *proposer) send(ctx context.Context) bool {
	if p.room.Acquire(ctx, entryShare) != nil {
		return false
	}
	group, entry := p.take()
	if len(group) == 0 { // withdrawn meanwhile
		p.room.Release(entryShare)
		return true
	}
	weight := int64(entryShare)
	if extra := int64(len(entry)) - weight; extra > 0 {
		// Only this goroutine acquires, so waiting here with a share in hand cannot deadlock. The group is packed already:
		// a close must not lose it, so the wait does not end with ctx. Room comes with the answers of what is in flight.
		if err := p.room.Acquire(context.WithoutCancel(ctx), extra); err != nil {
			panic(err) // cannot happen: no deadline, and extra is below the whole
		}
		weight += extra
	}
	p.flight <- flight{group: group, future: p.log.Apply(entry, 0), weight: weight}
	return true
}

// take removes from the queue what goes into the next entry, and encodes it.
func (p *proposer) take() ([]*proposal, []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, size := 0, 1
	for n < len(p.queue) {
		more := command.HeaderSize + len(p.queue[n].body)
		if n > 0 && size+more > groupBytes {
			break
		}
		size += more
		n++
	}
	group := p.queue[:n:n]
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil
	}
	if n == 0 {
		return nil, nil
	}
	return group, p.entry(group, size)
}

// entry encodes a group. All its commands carry one time; applying them spreads it. It needs mu.
func (p *proposer) entry(group []*proposal, size int) []byte {
	at := p.time()
	entry := command.AppendEntry(make([]byte, 0, size))
	for _, c := range group {
		entry = command.AppendCommand(entry, command.Command{Kind: c.kind, Time: at, Request: c.request, Body: c.body})
		c.packed, c.body = true, nil
	}
	return entry
}

// refuse answers what still waits when the proposer closes.
func (p *proposer) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.queue {
		p.busy.Add(-1)
		c.done <- answer{err: ErrNoLeader}
	}
	p.queue = nil
}

// answer gives each command its result; it ends when pack has ended and all that was in flight is answered.
func (p *proposer) answer() {
	for f := range p.flight {
		results, err := settle(f.future, len(f.group))
		p.room.Release(f.weight)
		for i, c := range f.group {
			a := answer{err: err}
			if err == nil {
				a.result = results[i]
			}
			p.busy.Add(-1)
			c.done <- a
		}
	}
}

// settle waits for an entry and sorts out what its end means.
func settle(f raft.ApplyFuture, n int) ([]any, error) {
	switch err := f.Error(); {
	case err == nil:
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return nil, ErrNoLeader // raft answers these before it writes anything
	default:
		return nil, fmt.Errorf("%w (%w)", ErrUnclear, err)
	}
	o, ok := f.Response().(outcome)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w (the state gave no outcome)", ErrUnclear)
	case o.err != nil:
		return nil, fmt.Errorf("%w (%w)", ErrUnclear, o.err)
	case len(o.results) != n:
		return nil, fmt.Errorf("%w (%d results for %d commands)", ErrUnclear, len(o.results), n)
	}
	return o.results, nil
}
