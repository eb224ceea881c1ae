package source

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"queen/stages"
)

// Options of a Discovery.
type Options struct {
	Log      stages.Log
	Guard    time.Duration   // how far ceilings stay below the safe time
	Interval time.Duration   // between looks
	Looked   func(err error) // told the outcome of every look, nil or why the log could not be asked; may be nil
}

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	switch {
	case o.Log == nil:
		return fmt.Errorf("discovery: no log")
	case o.Guard < 0:
		return fmt.Errorf("discovery: guard %v: want 0 or more", o.Guard)
	case o.Interval <= 0:
		return fmt.Errorf("discovery: interval %v: want more than 0", o.Interval)
	}
	return nil
}

// Discovery looks for new appends, once an interval for all queues of a sink, and wakes the pipelines they concern.
//
// Why a queue cannot be missed: a look asks for stamps above the safe time of the look before, and what that look could not see is
// stamped above it. A queue that is reported stays due until the ceiling has passed the safe time of that look and a peek found
// nothing below the ceiling; a queue that is new here is due at once.
type Discovery struct {
	o Options

	mu      sync.Mutex
	feeds   map[stages.QueueID]*Feed
	due     map[*Feed]struct{} // quiet feeds that have to be peeked at
	running map[*Feed]struct{}
	safe    stages.Micros // safe time of the last look: what is stamped at or below it has been reported
	looked  bool          // safe is set
}

// Feed is Discovery's row of one queue.
type Feed struct {
	d     *Discovery
	queue stages.QueueID
	start func()
	next  chan struct{}

	// under d.mu
	from   stages.Micros // nothing in [position, from) is left for a pipeline to read; of a quiet feed
	seen   stages.Micros // safe time of the last look that reported the queue
	closed bool
}

// NewDiscovery returns a Discovery that looks once Run is called.
func NewDiscovery(o Options) (*Discovery, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Discovery{
		o: o, feeds: map[stages.QueueID]*Feed{}, due: map[*Feed]struct{}{}, running: map[*Feed]struct{}{}, safe: stages.Beginning,
	}, nil
}

// Run looks at once and then every interval, until ctx ends. A look that fails is told to Looked, and the next one makes up for it.
func (d *Discovery) Run(ctx context.Context) {
	tick := time.NewTicker(d.o.Interval)
	defer tick.Stop()
	for {
		err := d.Look(ctx)
		if ctx.Err() != nil {
			return
		}
		if d.o.Looked != nil {
			d.o.Looked(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look looks once. Run calls it; a test may instead. It is not for two goroutines at once.
func (d *Discovery) Look(ctx context.Context) error {
	moved, safe, err := d.o.Log.Moved(ctx, d.since())
	if err != nil {
		return fmt.Errorf("look for moved queues: %w", err)
	}
	for _, f := range d.note(moved, safe) {
		some := d.peek(ctx, f, safe.Add(-d.o.Guard))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if some {
			d.wake(f)
		}
	}
	return nil
}

// Safe returns the safe time of the last look; ok is false before the first.
func (d *Discovery) Safe() (safe stages.Micros, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.safe, d.looked
}

// Watch adds a queue that this sink runs from now on: start is called, on the goroutine of Look, when something at or above from lies
// below the ceiling; it must not block. It replaces an earlier feed of the queue.
func (d *Discovery) Watch(queue stages.QueueID, from stages.Micros, start func()) *Feed {
	since := d.since()
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.feeds[queue]; old != nil {
		d.forget(old)
	}
	f := &Feed{d: d, queue: queue, start: start, next: make(chan struct{}, 1), from: from, seen: since}
	d.feeds[queue], d.due[f] = f, struct{}{}
	return f
}

// ceiling is the ceiling of the last look. The caller holds the lock.
func (d *Discovery) ceiling() stages.Micros { return d.safe.Add(-d.o.Guard) }

// since is the first stamp that no look has asked for yet. The first look asks for what comes after it: older stamps are found by the
// peek that each new feed gets.
func (d *Discovery) since() stages.Micros {
	safe := d.o.Log.Safe()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.looked {
		d.safe, d.looked = safe, true
	}
	if d.safe == math.MaxInt64 {
		return d.safe
	}
	return d.safe + 1
}

// note takes the outcome of a look: it tells the running feeds that there is a reason to look again and returns the due ones.
func (d *Discovery) note(moved []stages.QueueID, safe stages.Micros) []*Feed {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.safe = max(d.safe, safe)
	for _, q := range moved {
		f := d.feeds[q]
		if f == nil {
			continue
		}
		f.seen = d.safe
		if _, ok := d.running[f]; !ok {
			d.due[f] = struct{}{}
		}
	}
	for f := range d.running {
		f.nudge()
	}
	due := make([]*Feed, 0, len(d.due))
	for f := range d.due {
		due = append(due, f)
	}
	slices.SortFunc(due, func(a, b *Feed) int { return cmp.Compare(a.queue, b.queue) })
	return due
}

// peek says whether something of a due feed lies below the ceiling. If not, and nothing is known above it either, the feed is no longer
// due. A read that fails counts as something: the pipeline will meet the error and report it.
func (d *Discovery) peek(ctx context.Context, f *Feed, ceiling stages.Micros) bool {
	d.mu.Lock()
	from := f.from
	d.mu.Unlock()
	if from < ceiling {
		for range d.o.Log.Headers(ctx, f.queue, from, ceiling) {
			return true
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.from = max(f.from, ceiling)
	if f.seen < ceiling {
		delete(d.due, f)
	}
	return false
}

// wake starts the pipeline of a due feed.
func (d *Discovery) wake(f *Feed) {
	d.mu.Lock()
	_, ok := d.due[f]
	if ok {
		delete(d.due, f)
		d.running[f] = struct{}{}
	}
	d.mu.Unlock()
	if ok {
		f.start()
	}
}

// forget drops a feed. The caller holds the lock.
func (d *Discovery) forget(f *Feed) {
	f.closed = true
	delete(d.due, f)
	delete(d.running, f)
	if d.feeds[f.queue] == f {
		delete(d.feeds, f.queue)
	}
}

// nudge tells a running pipeline to look again; one that has not taken the last nudge needs no second.
func (f *Feed) nudge() {
	select {
	case f.next <- struct{}{}:
	default:
	}
}

// Next is sent to at each look while the pipeline runs: for Headers.
func (f *Feed) Next() <-chan struct{} { return f.next }

// Quiet says that no look has reported an append that may lie at or above ceiling: a pipeline that has read up to there may end.
func (f *Feed) Quiet(ceiling stages.Micros) bool {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return f.seen < ceiling
}

// Start starts the pipeline now, whether or not something lies below the ceiling: for a window that is to be redone. It does nothing
// while the pipeline runs.
func (f *Feed) Start() {
	f.d.mu.Lock()
	if !f.closed {
		if _, ok := f.d.running[f]; !ok {
			f.d.due[f] = struct{}{}
		}
	}
	f.d.mu.Unlock()
	f.d.wake(f)
}

// Done says that the pipeline has ended, whatever the reason, and that the queue stands at position. It may be started again from the
// next look on.
func (f *Feed) Done(position stages.Micros) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return
	}
	delete(f.d.running, f)
	f.from = position
	f.d.due[f] = struct{}{}
}

// Through says up to where a quiet queue is known to be complete: no append in [position, through) waits for a pipeline. ok is false
// while its pipeline runs.
func (f *Feed) Through() (through stages.Micros, ok bool) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if _, running := f.d.running[f]; running || f.closed {
		return 0, false
	}
	if _, due := f.d.due[f]; due {
		return f.from, true
	}
	return max(f.from, f.d.ceiling()), true
}

// Close forgets the feed: its start is not called again, unless a Look is calling it right now. A pipeline that runs is the sink's to end.
func (f *Feed) Close() {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.forget(f)
}
