package sink

import (
	"context"
	"sync"
	"time"

	"queen/commit"
	"queen/encode"
	"queen/source"
	"queen/stages"
	"queen/upload"
	"queen/window"
)

// queue is one queue of a sink.
//
// A queue that has nothing to do, or whose window only fills, is this row and nothing else: discovery reads the headers of what is new into
// the row's window. It has a goroutine, live, when there is something to do (a claim, a redo, a window that is due) until there is nothing
// left; inside it, a pass is one run of the pipeline. Only so many rows are live at once; the others are in line (activity.go).
//
//	look ---- missing, held, keys refused ----> timer, look again
//	  | lease acquired
//	adopt (rows) --- no window due ---> row; discovery fills its window and wakes it
//	  | a window is due
//	pass: headers -> window -> begin -> encode -> upload -> finish
//	  | no window due -> row
//	  | retry         -> timer, adopt again, next pass: an open intent is redone
//	  | lease lost    -> wait a time to live, look again
//	  | failed        -> wait 60 s, look again
//
// Locks. What stands above mu never changes, or guards itself. What stands below is read and written with mu held, by live and by those who
// come from outside: discovery (wake), the refresh (lostLease), the list of queues (compare, forget), a drain, people (status, metrics). Under
// mu nobody waits for the store, the bucket or a goroutine. The locks of feeds, the cutter, the sink and the listeners are taken inside of it,
// never around it: discovery calls wake without one. An adopted value is made by prepare and handed to run by live.
type queue struct {
	s      *Sink
	name   string
	lease  *commit.Lease
	status status // what people see

	mu         sync.Mutex
	activity   activity
	woken      bool        // there is something to do, or somebody has to look whether there is
	draining   bool        // the drain has come to this row
	leaving    bool        // it is being given back to the other nodes
	cutShort   bool        // of one that leaves: what is open is left to the next owner
	owned      bool        // this process held the lease when it looked last
	called     bool        // placement says that it is to be claimed
	looked     bool        // a claim of this process had an answer
	adopted    *adopted    // what was adopted last; nil before the first time
	pass       *pass       // the one that runs
	timer      *time.Timer // of sleeping
	partitions int         // as counted last
	failures   int         // failed attempts since the goroutine started, a window was committed or a pass ended by itself
	faults     int         // data faults since a window was committed or a pass ended by itself
	noted      bool        // its name was looked at
	leftIn     uint64      // window whose change of bucket was told
}

// adopted is what a pass goes on from. Position, enters and stale change, under the queue's lock.
type adopted struct {
	q      *queue
	info   stages.QueueInfo
	ledger *commit.Ledger
	cutter *window.Cutter // the open window: filled by discovery, or by the pass that runs
	feed   *source.Feed
	at     commit.Position // where the last committed window ends; without its manifest
	enters bool            // the next window is this life's first one under the prefix: the first of all, or the prefix was changed since
	stale  bool            // the rows may say something else by now, or speak of another queue: adopt again
	first  bool            // no record has been read of a queue that starts at its beginning; see reading
}

// pass is one run of the pipeline.
type pass struct {
	cancel context.CancelCauseFunc
	stop   chan struct{} // closed to end the source
	once   sync.Once
}

// drain ends the source; what is in the pipeline is finished.
func (p *pass) drain() { p.once.Do(func() { close(p.stop) }) }

// run is one pass: the queue's records from where its window is filled up to the ceiling, and every window that is due by then. A nil error
// says that all of these are committed.
func (q *queue) run(ctx context.Context, a *adopted) error {
	if err := q.checkFresh(ctx, a); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := q.enter(a, cancel)
	defer q.leave()
	defer q.guardLease(ctx, cancel)()

	slot := &slot{q: q}
	defer slot.Give()
	options := q.commitOptions(a.ledger, slot)
	headers := source.Headers{Log: q.s.o.Log, Queue: a.info.ID, From: a.cutter.From(), Guard: q.s.cfg.SafeGuard, Drain: p.stop}
	up := upload.NewStage(q.s.uploadOptions(q.client()))
	defer up.Close(ctx)
	finish := commit.NewFinish(options)

	r := stages.NewRun(ctx)
	stages.Source(r, "headers", headers.Generate).
		Via(stages.Via(r, "window", noting(a.cutter, a.reading), 1)).
		Via(stages.Via(r, "begin", noting(commit.NewBegin(options), q.cut), 0)).
		Via(stages.Via(r, "encode", noting(q.s.shared.encoders.around(q.encoder()), q.uploading), 0)).
		Via(stages.Via(r, "upload", up, 1)).
		To(stages.Sink(r, "finish", q.committing(finish)))
	return r.Wait()
}

// live is the queue's goroutine: it ends when there is nothing to do, or nothing to do before a timer.
func (q *queue) live(ctx context.Context) {
	for q.attend() {
		if q.left() {
			q.handOver(ctx)
			return
		}
		var a *adopted
		var fresh, due bool
		err := stages.Guard(func() (err error) { // a fault in one queue is no end of the others, or of the broker
			if a, fresh, err = q.prepare(ctx); err == nil {
				due, err = q.due(ctx, a)
			}
			return err
		})
		switch {
		case err != nil:
		case due && fresh && q.makeWay(): // others are to be claimed first
			return
		case due:
			err = stages.Guard(func() error { return q.run(ctx, a) })
		case q.rest(a):
			return
		default:
			continue
		}
		if err == nil {
			if q.settle(); q.makeWay() {
				return
			}
			continue
		}
		v := q.hasten(q.judge(ctx, err))
		if q.sleep(v) {
			return
		}
		if q.s.backoff.Wait(ctx, v.wait) != nil { // what is open when the sink stops is tried until the end of its grace
			q.sleep(verdict{never, true})
			return
		}
	}
}

// due says whether a pass has to run. While the sink stops, only what is open or forced is worth one.
func (q *queue) due(ctx context.Context, a *adopted) (bool, error) {
	if q.s.stopping() || q.leaves() {
		return a.cutter.Wanted(), nil
	}
	return a.feed.Fill(ctx)
}

// enter makes the pass that starts now. It only drains when what was adopted is stale already.
func (q *queue) enter(a *adopted, cancel context.CancelCauseFunc) *pass {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pass = &pass{cancel: cancel, stop: make(chan struct{})}
	a.cutter.Pause(false)
	if q.s.stopping() || q.leaving || a.stale {
		q.pass.drain()
	}
	return q.pass
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.status.leave()
	q.pass = nil
}

// settle takes a pass that ended with all its windows committed.
func (q *queue) settle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failures, q.faults = 0, 0
}

// read reads bodies of appends from the log.
func (q *queue) read(ctx context.Context, list *stages.Listing, appends []stages.Append, into func(int, stages.Body) error) error {
	err := q.s.o.Log.Bodies(ctx, list, appends, into)
	if ctx.Err() == nil {
		q.s.raise(q, bodiesRead{err})
	}
	return err
}

func (q *queue) encoder() *encode.Stage {
	return encode.New(q.s.shared.formats.Lookup, q.read, q.s.need.readers, &q.s.shared.chunks, q.s.cfg.Tenant)
}

// committing is the end of the pipeline.
func (q *queue) committing(finish *commit.Finish) func(context.Context, *stages.Uploaded) error {
	return func(ctx context.Context, up *stages.Uploaded) error {
		q.s.raise(q, entered{stateCommit})
		return finish.Do(ctx, up)
	}
}

// committed hears that a window is real. Whatever failed before is over: the next failure is a first one, also in a queue so busy that no pass
// of it ever ends by itself.
func (q *queue) committed(c commit.Committed) {
	q.mu.Lock()
	q.adopted.moveTo(commit.Position{K: c.Pointer.K, At: c.Pointer.End, Manifest: c.Pointer.Manifest})
	q.failures, q.faults = 0, 0
	if q.pass != nil && q.s.lined() {
		q.pass.drain() // the rest of a backlog waits for the next turn
		q.adopted.cutter.Pause(true)
	}
	q.mu.Unlock()
	q.s.raise(q, windowCommitted{c})
}

func (q *queue) commitOptions(ledger *commit.Ledger, slot *slot) commit.Options {
	return commit.Options{Ledger: ledger, Turns: commit.NewTurns(), Pins: q.s.pins, Latency: requestDeadline, Finisher: finisher{q},
		Sort: window.Sort, Known: q.s.known, Crash: q.s.crash, Slot: slot, Check: q.checkBegin, After: q.checkpointing(slot)}
}

// finisher looks for finished uploads of this queue.
type finisher struct{ q *queue }

var _ commit.Finisher = finisher{}

func (f finisher) Finished(ctx context.Context, job *stages.Job) (*stages.Uploaded, bool, error) {
	s := f.q.s
	if in := job.Intent; (in.Bucket != s.pins.Bucket || in.Endpoint != s.pins.Endpoint) && f.q.first(in.K) {
		s.raise(f.q, bucketChanged{in})
	}
	up, ok, err := f.q.client().Finished(ctx, upload.Identity{Sink: s.cfg.Name, Tenant: s.cfg.Tenant, Queue: f.q.name}, job.Intent)
	if ok {
		s.raise(f.q, foundFinished{job.Intent.K})
	}
	return up, ok, err
}

// first is true once for a window.
func (q *queue) first(k uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := q.leftIn
	q.leftIn = k
	return was != k
}
