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

// Filler is the open window of a queue: window.Cutter.
type Filler interface {
	// From is the stamp from which it wants to be filled; what lies below has been handed to it.
	From() stages.Micros
	// Fill takes the next appends and says whether a window is due.
	Fill(stages.Batch) (due bool, err error)
	// Open says whether time alone may make a window due.
	Open() bool
}

// Discovery looks for new appends, once an interval for all queues of a sink, fills the open windows of those that have no pipeline, and
// starts the pipelines of those whose window is due. So a queue that only fills a window costs a row too, and reading its headers is all
// that it costs in time.
//
// Why a queue cannot be missed: a look asks for stamps above the safe time of the look before, and what that look could not see is
// stamped above it. A queue that is reported stays due until it has been read up to a ceiling above the safe time of that look; a queue
// that is new here, or whose pipeline ended, is due at once.
type Discovery struct {
	o Options

	mu     sync.Mutex
	feeds  map[stages.QueueID]*Feed
	due    map[*Feed]struct{} // quiet feeds that have to be read
	open   map[*Feed]struct{} // quiet feeds whose window holds something: it may become due as time passes
	safe   stages.Micros      // safe time of the last look: what is stamped at or below it has been reported
	looked bool               // safe is set
}

// Feed is Discovery's row of one queue.
type Feed struct {
	d      *Discovery
	queue  stages.QueueID
	filler Filler
	start  func()

	// under d.mu
	seen    stages.Micros // safe time of the last look that reported the queue
	running bool          // a pipeline has it: only that fills it
	closed  bool
}

// NewDiscovery returns a Discovery that looks once Run is called.
func NewDiscovery(o Options) (*Discovery, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Discovery{
		o: o, feeds: map[stages.QueueID]*Feed{}, due: map[*Feed]struct{}{}, open: map[*Feed]struct{}{}, safe: stages.Beginning,
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
	ceiling := safe.Add(-d.o.Guard)
	for _, f := range d.note(moved, safe) {
		start := d.look(ctx, f, ceiling)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if start {
			d.wake(f)
		}
	}
	return nil
}

// look fills one quiet feed up to the ceiling and says whether its pipeline has to run. A read that fails says so too: the pipeline will
// meet the error and report it.
func (d *Discovery) look(ctx context.Context, f *Feed, ceiling stages.Micros) bool {
	d.mu.Lock()
	_, unread := d.due[f]
	d.mu.Unlock()
	if f.filler.From() > ceiling {
		return false // its last pipeline saw more than this look
	}
	due, err := f.fill(ctx, ceiling, unread)
	if due || err != nil {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.seen < ceiling {
		delete(d.due, f)
	}
	if f.filler.Open() && !f.closed {
		d.open[f] = struct{}{}
	} else {
		delete(d.open, f)
	}
	return false
}

// Safe returns the safe time of the last look; ok is false before the first.
func (d *Discovery) Safe() (safe stages.Micros, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.safe, d.looked
}

// Watch adds a queue that this sink runs from now on. Its pipeline counts as running until Done; after that start is called, on the goroutine
// of Look, when a window is due; it must not block. It replaces an earlier feed of the queue.
func (d *Discovery) Watch(queue stages.QueueID, filler Filler, start func()) *Feed {
	since := d.since()
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.feeds[queue]; old != nil {
		d.forget(old)
	}
	f := &Feed{d: d, queue: queue, filler: filler, start: start, seen: since, running: true}
	d.feeds[queue] = f
	return f
}

// ceiling is the ceiling of the last look. The caller holds the lock.
func (d *Discovery) ceiling() stages.Micros { return d.safe.Add(-d.o.Guard) }

// since is the first stamp that no look has asked for yet. The first look asks for what comes after it: older stamps are found by the
// reading that each new feed gets.
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

// note takes the outcome of a look and returns the quiet feeds that it concerns.
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
		if !f.running {
			d.due[f] = struct{}{}
		}
	}
	quiet := make([]*Feed, 0, len(d.due)+len(d.open))
	for f := range d.due {
		quiet = append(quiet, f)
	}
	for f := range d.open {
		if _, due := d.due[f]; !due {
			quiet = append(quiet, f)
		}
	}
	slices.SortFunc(quiet, func(a, b *Feed) int { return cmp.Compare(a.queue, b.queue) })
	return quiet
}

// wake starts the pipeline of a quiet feed.
func (d *Discovery) wake(f *Feed) {
	d.mu.Lock()
	ok := !f.closed && !f.running
	if ok {
		delete(d.due, f)
		delete(d.open, f)
		f.running = true
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
	delete(d.open, f)
	if d.feeds[f.queue] == f {
		delete(d.feeds, f.queue)
	}
}

// fillMarks is how much of a backlog a row reads before its pipeline does.
const fillMarks = 4096

// Fill hands on what lies below the present ceiling, as far as a row does that, and says whether the pipeline has to run: a window is due, or
// there is more. For the owner of a running feed.
func (f *Feed) Fill(ctx context.Context) (due bool, err error) {
	return f.fill(ctx, f.d.o.Log.Safe().Add(-f.d.o.Guard), true) // safe time first, then the view: nothing below is missed
}

// fill reads only if there may be something to read. Only whole stamps are handed on, so that whoever reads next begins with a new one.
func (f *Feed) fill(ctx context.Context, ceiling stages.Micros, unread bool) (due bool, err error) {
	batch, more := stages.Batch{Ceiling: ceiling}, false
	if from := f.filler.From(); unread && from < ceiling {
		for h, err := range f.d.o.Log.Headers(ctx, f.queue, from, ceiling) {
			if err != nil {
				return false, err
			}
			if n := len(batch.Marks); n >= fillMarks && batch.Marks[n-1].TS != h.TS {
				batch.Ceiling, more = h.TS, true
				break
			}
			batch.Marks = append(batch.Marks, stages.Mark{TS: h.TS, Weight: int64(h.Weight)})
		}
	}
	due, err = f.filler.Fill(batch)
	return due || more, err
}

// Done says that the pipeline has ended, whatever the reason. It may be started again from the next look on.
func (f *Feed) Done() {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return
	}
	f.running = false
	f.d.due[f] = struct{}{}
}

// Through says up to where a quiet queue is known to be complete, apart from what its open window holds. ok is false while its pipeline runs.
func (f *Feed) Through() (through stages.Micros, ok bool) {
	from := f.filler.From()
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.running || f.closed {
		return 0, false
	}
	if _, due := f.d.due[f]; due {
		return from, true
	}
	return max(from, f.d.ceiling()), true
}

// Close forgets the feed: its start is not called again, unless a Look is calling it right now. A pipeline that runs is the sink's to end.
func (f *Feed) Close() {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.forget(f)
}
