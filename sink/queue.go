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
type queue struct {
	s      *Sink
	name   string
	keys   commit.Keys
	lease  *commit.Lease
	status status // what people see; has its own lock

	mu        sync.Mutex
	info      stages.QueueInfo
	ledger    *commit.Ledger
	feed      *source.Feed
	at        commit.Position // where the next pass goes on; valid while adopted
	ready     bool            // lease held and rows read: at is what the rows say
	busy      bool            // live runs
	woken     bool            // something lies below the ceiling
	gone      bool            // the queue does not exist any more
	forgotten bool            // the row is no more
	timer     *time.Timer     // of a queue that waits without a goroutine
	pass      *pass           // the one that runs
	had       bool            // owned when it was looked at last
	looks     int             // claims tried by this process
	faults    int             // data faults in a row
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
func (q *queue) run(ctx context.Context) error {
	if err := q.checkFresh(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := q.enter(cancel)
	if err != nil {
		return err
	}
	defer q.leave()
	defer q.guardLease(ctx, cancel)()

	slot := &slot{q: q}
	defer slot.Give()
	options := q.commitOptions(slot)
	headers := source.Headers{Log: q.s.o.Log, Queue: q.info.ID, From: q.from(p), Guard: q.s.cfg.SafeGuard,
		Next: q.feed.Next(), Drain: p.stop, Idle: q.idle(p)}
	up := upload.NewStage(q.s.uploadOptions())
	defer up.Close(ctx)

	r := stages.NewRun(ctx)
	stages.Source(r, "headers", headers.Generate).
		Via(stages.Via(r, "window", p.cutter, 1)).
		Via(stages.Via(r, "begin", noting(commit.NewBegin(options), q.cut), 0)).
		Via(stages.Via(r, "encode", noting(encode.New(encode.Lookup, q.read, q.s.cfg.FetchConcurrency), q.uploading), 0)).
		Via(stages.Via(r, "upload", up, 1)).
		Via(stages.Via(r, "finish", noting(commit.NewFinish(options), q.committing), 0)).
		To(stages.Sink(r, "committed", q.committed))
	return r.Wait()
}

// live is the queue's goroutine: it ends when there is nothing to do, or nothing to do before a timer.
func (q *queue) live(ctx context.Context) {
	for failures := 0; ; {
		err := q.prepare(ctx)
		if err == nil && q.rest() {
			return
		}
		if err == nil {
			err = q.run(ctx)
		}
		if err == nil {
			failures = 0
			q.settle()
			continue
		}
		v := q.judge(ctx, err, failures)
		failures++
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

// wake says that there is something to do. Discovery calls it; it does not block.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.woken = true
	q.start()
}

// start starts live unless it runs. The lock is held.
func (q *queue) start() {
	if !q.busy && !q.forgotten && q.s.spawn(func(ctx context.Context) { q.live(ctx) }) {
		q.busy = true
	}
}

// rest ends live if nothing is left to do.
func (q *queue) rest() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.woken && (!q.s.stopping() || q.at.Redo != nil) {
		q.woken = false
		return false
	}
	q.busy = false
	if q.s.stopping() {
		q.s.raise(q, drained{})
	}
	return true
}

// settle takes a pass that ended with nothing left to do.
func (q *queue) settle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.faults = 0
	q.feed.Done(q.at.At)
}

// never is a wait that only a stop or a restart of the sink ends.
const never = time.Duration(math.MaxInt64)

// sleep ends live until a timer starts it again.
func (q *queue) sleep(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = false
	if d == never || q.s.stopping() {
		return
	}
	q.timer = time.AfterFunc(d, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.start()
	})
}

// enter makes the pass that starts now.
func (q *queue) enter(cancel context.CancelCauseFunc) (*pass, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	cutter, err := window.New(q.s.rules(), q.at.At, q.at.K+1, q.at.Redo)
	if err != nil {
		return nil, &commit.Error{Kind: commit.Fatal, Err: err}
	}
	q.pass = &pass{cutter: cutter, cancel: cancel, stop: make(chan struct{})}
	if q.s.stopping() || q.gone {
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

// from is where a pass reads from. One that starts while the sink stops only redoes what is open.
func (q *queue) from(p *pass) stages.Micros {
	select {
	case <-p.stop:
		return math.MaxInt64
	default:
		return p.cutter.From()
	}
}

// idle says that a pass may end: the window stage has taken all below the ceiling and holds nothing, and nothing above it is known.
func (q *queue) idle(p *pass) func(stages.Micros) bool {
	feed := q.feed
	return func(ceiling stages.Micros) bool { return p.cutter.Idle(ceiling) && feed.Quiet(ceiling) }
}

// committed is the end of the pipeline: a window is real.
func (q *queue) committed(_ context.Context, c commit.Committed) error {
	q.mu.Lock()
	q.at = commit.Position{K: c.Pointer.K, At: c.Pointer.End}
	q.mu.Unlock()
	q.s.raise(q, windowCommitted{c})
	return nil
}

// read reads bodies of appends from the log.
func (q *queue) read(ctx context.Context, id stages.QueueID, headers []stages.Header, into func(int, stages.Body) error) error {
	err := q.s.o.Log.Bodies(ctx, id, headers, into)
	if ctx.Err() == nil {
		q.s.raise(q, bodiesRead{err})
	}
	return err
}

func (q *queue) commitOptions(slot *slot) commit.Options {
	return commit.Options{Ledger: q.ledger, Turns: commit.NewTurns(), Pins: q.s.pins, Latency: requestDeadline, Finisher: finisher{q},
		Sort: window.Sort, Known: q.s.known, Crash: q.s.crash, Slot: slot}
}

// finisher looks for finished uploads of this queue.
type finisher struct{ q *queue }

var _ commit.Finisher = finisher{}

func (f finisher) Finished(ctx context.Context, job *stages.Job) (*stages.Uploaded, bool, error) {
	s := f.q.s
	if in := job.Intent; in.Bucket != s.pins.Bucket || in.Endpoint != s.pins.Endpoint {
		s.raise(f.q, bucketChanged{job.Intent})
	}
	up, ok, err := s.client.Finished(ctx, upload.Identity{Sink: s.cfg.Name, Tenant: s.cfg.Tenant, Queue: f.q.name}, job.Intent)
	if ok {
		s.raise(f.q, foundFinished{job.Intent.K})
	}
	return up, ok, err
}
