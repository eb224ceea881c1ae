package sink

import (
	"context"
	"math"
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
// A queue that has nothing to do is this row and nothing else. It has a goroutine, live, from the moment there is something to do (a claim,
// a redo, records below the ceiling) until there is nothing left; inside it, a pass is one run of the pipeline.
//
//	look ---- missing, held, keys refused ----> timer, look again
//	  | lease acquired
//	adopt (rows) --- nothing below the ceiling ---> row; discovery wakes it
//	  | something to do
//	pass: headers -> window -> begin -> encode -> upload -> finish
//	  | idle       -> row
//	  | retry      -> wait, adopt again, next pass: an open intent is redone
//	  | lease lost -> wait a time to live, look again
//	  | failed     -> wait 60 s, look again
//
// Locks. What stands above mu never changes, or guards itself. What stands below is read and written with mu held, by live and by those who
// come from outside: discovery (wake), the refresh (lostLease), the list of queues (compare, forget), a drain, people (status, metrics). Under
// mu nobody waits for the store, the bucket or a goroutine. The locks of feeds, the cutter, the sink and the listeners are taken inside of it,
// never around it: discovery calls wake without one. An adopted value is made by prepare and handed to run by live.
type queue struct {
	s      *Sink
	name   string
	keys   commit.Keys
	lease  *commit.Lease
	client *upload.Client // permitted by the lease
	status status         // what people see

	mu         sync.Mutex
	activity   activity
	woken      bool        // there is something to do, or somebody has to look whether there is
	adopted    *adopted    // what was adopted last; nil before the first time
	pass       *pass       // the one that runs
	timer      *time.Timer // of sleeping
	owned      bool        // this process held the lease when it looked last
	looked     bool        // a claim of this process had an answer
	partitions int         // as counted last
	failures   int         // failed attempts since the goroutine started, a window was committed or a pass ended by itself
	faults     int         // data faults since a window was committed or a pass ended by itself
	leftIn     uint64      // window whose change of bucket was told
}

// adopted is what a pass goes on from. Position and stale change, under the queue's lock.
type adopted struct {
	info   stages.QueueInfo
	ledger *commit.Ledger
	feed   *source.Feed
	at     commit.Position // where the next pass goes on
	stale  bool            // the rows may say something else by now, or speak of another queue: adopt again
}

// pass is one run of the pipeline.
type pass struct {
	cutter *window.Cutter
	cancel context.CancelCauseFunc
	stop   chan struct{} // closed to end the source
	once   sync.Once
}

// drain ends the source; what is in the pipeline is finished. With force, the open window is closed first.
func (p *pass) drain(force bool) {
	p.once.Do(func() {
		if force {
			p.cutter.Force(stages.Drain)
		}
		close(p.stop)
	})
}

// run is one pass: the queue's records from its position up to the ceiling, window after window, until nothing is open and nothing new is
// known. A nil error says exactly that.
func (q *queue) run(ctx context.Context, a *adopted) error {
	if err := q.checkFresh(ctx, a); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := q.enter(a, cancel)
	if err != nil {
		return err
	}
	defer q.leave()
	defer q.guardLease(ctx, cancel)()

	slot := &slot{q: q}
	defer slot.Give()
	options := q.commitOptions(a.ledger, slot)
	headers := source.Headers{Log: q.s.o.Log, Queue: a.info.ID, From: p.from(), Guard: q.s.cfg.SafeGuard,
		Next: a.feed.Next(), Drain: p.stop, Idle: p.idle(a.feed)}
	up := upload.NewStage(q.s.uploadOptions(q.client))
	defer up.Close(ctx)
	finish := commit.NewFinish(options)

	r := stages.NewRun(ctx)
	stages.Source(r, "headers", headers.Generate).
		Via(stages.Via(r, "window", noting(p.cutter, q.reading(a)), 1)).
		Via(stages.Via(r, "begin", checking(noting(commit.NewBegin(options), q.cut), q.checkBegin), 0)).
		Via(stages.Via(r, "encode", noting(q.s.encoders.around(encode.New(encode.Lookup, q.read, q.s.cfg.FetchConcurrency)), q.uploading), 0)).
		Via(stages.Via(r, "upload", up, 1)).
		To(stages.Sink(r, "finish", q.committing(finish)))
	return r.Wait()
}

// live is the queue's goroutine: it ends when there is nothing to do, or nothing to do before a timer.
func (q *queue) live(ctx context.Context) {
	for {
		a, err := q.prepare(ctx)
		if err == nil && q.rest() {
			return
		}
		if err == nil {
			err = q.run(ctx, a)
		}
		if err == nil {
			q.settle(a)
			continue
		}
		v := q.judge(ctx, err)
		if v.rest {
			q.sleep(v.wait)
			return
		}
		if q.s.backoff.Wait(ctx, v.wait) != nil {
			q.sleep(never)
			return
		}
	}
}

// enter makes the pass that starts now. It only drains when what was adopted is stale already.
func (q *queue) enter(a *adopted, cancel context.CancelCauseFunc) (*pass, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	cutter, err := window.New(q.s.rules(), a.at.At, a.at.K+1, a.at.Redo)
	if err != nil {
		return nil, &commit.Error{Kind: commit.Fatal, Err: err}
	}
	q.pass = &pass{cutter: cutter, cancel: cancel, stop: make(chan struct{})}
	if q.s.stopping() || a.stale {
		q.pass.drain(false)
	}
	return q.pass, nil
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.status.leave()
	q.pass = nil
}

// settle takes a pass that ended with nothing left to do.
func (q *queue) settle(a *adopted) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failures, q.faults = 0, 0
	a.feed.Done(a.at.At)
}

// from is where a pass reads from. One that starts while the sink stops only redoes what is open.
func (p *pass) from() stages.Micros {
	select {
	case <-p.stop:
		return math.MaxInt64
	default:
		return p.cutter.From()
	}
}

// idle says that a pass may end: the window stage has taken all below the ceiling and holds nothing, and nothing above it is known.
func (p *pass) idle(feed *source.Feed) func(stages.Micros) bool {
	return func(ceiling stages.Micros) bool { return p.cutter.Idle(ceiling) && feed.Quiet(ceiling) }
}

// reading notes the first record of a queue that starts at its beginning: up to there the lake is complete.
func (q *queue) reading(a *adopted) func(stages.Batch) {
	q.mu.Lock()
	first := a.at.K == 0 && a.at.Redo == nil
	q.mu.Unlock()
	return func(b stages.Batch) {
		if first && len(b.Marks) > 0 {
			q.s.raise(q, firstSeen{b.Marks[0].TS})
			first = false
		}
	}
}

// read reads bodies of appends from the log.
func (q *queue) read(ctx context.Context, id stages.QueueID, headers []stages.Header, into func(int, stages.Body) error) error {
	err := q.s.o.Log.Bodies(ctx, id, headers, into)
	if ctx.Err() == nil {
		q.s.raise(q, bodiesRead{err})
	}
	return err
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
	q.adopted.at = commit.Position{K: c.Pointer.K, At: c.Pointer.End, Manifest: c.Pointer.Manifest}
	q.failures, q.faults = 0, 0
	q.mu.Unlock()
	q.s.raise(q, windowCommitted{c})
}

func (q *queue) commitOptions(ledger *commit.Ledger, slot *slot) commit.Options {
	return commit.Options{Ledger: ledger, Turns: commit.NewTurns(), Pins: q.s.pins, Latency: requestDeadline, Finisher: finisher{q},
		Sort: window.Sort, Known: q.s.known, Crash: q.s.crash, Slot: slot}
}

// finisher looks for finished uploads of this queue.
type finisher struct{ q *queue }

var _ commit.Finisher = finisher{}

func (f finisher) Finished(ctx context.Context, job *stages.Job) (*stages.Uploaded, bool, error) {
	s := f.q.s
	if in := job.Intent; (in.Bucket != s.pins.Bucket || in.Endpoint != s.pins.Endpoint) && f.q.first(in.K) {
		s.raise(f.q, bucketChanged{in})
	}
	up, ok, err := f.q.client.Finished(ctx, upload.Identity{Sink: s.cfg.Name, Tenant: s.cfg.Tenant, Queue: f.q.name}, job.Intent)
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
