package commit_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"queen/commit"
	"queen/stages"
)

// process opens a process: a lease handle and a ledger, on the one world.
func (w *world) process(t *testing.T, d *datadriven.TestData) *proc {
	instance, incarnation, encoder := "node-1", "00000000000000a1", "e1"
	d.MaybeScanArgs(t, "instance", &instance)
	d.MaybeScanArgs(t, "incarnation", &incarnation)
	d.MaybeScanArgs(t, "encoder", &encoder)
	p := &proc{w: w, pins: commit.Pins{Format: "jsonl", Compression: "zstd", Level: 3, Layout: "merged",
		Align: "hour", Prefix: "queen", Bucket: "b", Endpoint: "http://s3", Writer: "w1", Encoder: encoder}}
	p.lease = commit.NewLease(&commit.Store{KV: w.kv, Log: w, Now: time.Now, Sink: "default", Wait: stages.DefaultWait, Instance: instance, TTL: 30*time.Second + 500*time.Millisecond,
		Backoff: commit.Backoff{First: time.Second, Max: time.Minute, Jitter: func() float64 { return 0.5 }}}, commit.NewKeys("default", "q"), incarnation)
	p.ledger = commit.NewLedger(p.lease, stages.QueueInfo{ID: queueID, Name: "q"}, w)
	return p
}

// errCrash is what a crash point panics with: the process is gone, and so is all that it knew.
var errCrash = errors.New("crashed")

// window runs one window from begin to finish; between them stands an uploader that prints what it would put.
func (p *proc) window(t *testing.T, d *datadriven.TestData) (err error) {
	w := stages.Window{K: p.pos.K + 1, Start: p.pos.At, Why: stages.Size}
	var end, shown int64
	d.MaybeScanArgs(t, "end", &end)
	d.MaybeScanArgs(t, "k", &w.K)
	w.End = stages.Micros(end)
	if w.Shown = w.Start; w.Shown == stages.Beginning {
		d.ScanArgs(t, "shown", &shown)
		w.Shown = stages.Micros(shown)
	}
	if d.Cmd == "redo" {
		w = stages.Window{K: p.pos.Redo.K, Start: p.pos.At, Shown: p.pos.Redo.Start, End: p.pos.Redo.End, Why: stages.Redo}
	}
	if d.Cmd != "redo" {
		p.w.safe = max(p.w.safe, w.End) // no window is cut above it
	}
	crash := "never"
	d.MaybeScanArgs(t, "crash", &crash)
	defer func() {
		if r := recover(); r == errCrash {
			err = errCrash
		} else if r != nil {
			panic(r)
		}
	}()
	at := func(point string) {
		if point == crash {
			panic(errCrash)
		}
	}
	o := commit.Options{Ledger: p.ledger, Turns: commit.NewTurns(), Pins: p.pins, Latency: 20 * time.Second, Finisher: p.w, Sort: p.w.sort,
		Known: p.known, Crash: at, Slot: p.w}
	p.w.committed = func(c commit.Committed) { p.pos = commit.Position{K: c.Pointer.K, At: c.Pointer.End} }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if d.HasArg("timeout") {
		var after string
		d.ScanArgs(t, "timeout", &after)
		limit, err := time.ParseDuration(after)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if d.HasArg("stop") { // the pass ends while the batch of the pointer is on its way
		p.w.sent = func(row string) {
			if row == "committed" {
				cancel()
			}
		}
		defer func() { p.w.sent = nil }()
	}
	begin, finish := commit.NewBegin(o), commit.NewFinish(o)
	return begin.Do(ctx, w, func(job *stages.Job) error {
		up := job.Finished
		if up == nil {
			up = p.upload(job, at, d.HasArg("hold"))
		}
		if d.HasArg("lose") { // what happened while the upload ran
			p.w.kv.Put("s3:default:q:lease", `{"instance":"node-2","incarnation":"b","sinceMs":1}`, time.Minute)
		}
		if d.HasArg("stall") {
			<-time.After(31 * time.Second)
		}
		return finish.Do(ctx, up)
	})
}

func (p *proc) upload(job *stages.Job, at func(string), hold bool) *stages.Uploaded {
	in := job.Intent
	name := fmt.Sprintf("w-%d-%d-%d.%s", in.K, in.Start, in.End, in.Encoder)
	p.w.printf("PUT %s", name)
	p.w.bucket[name] = true
	at("mid_upload")
	manifest := manifestOf(job)
	p.w.printf("PUT %s", manifest)
	p.w.bucket[manifest] = true
	at("after_upload")
	return &stages.Uploaded{Job: job, Manifest: manifest, Records: int64(len(job.Sorted)), Bytes: 10}
}

func manifestOf(job *stages.Job) string {
	return fmt.Sprintf("windows/%d.json at=%s encoder=%s", job.Intent.K, job.Intent.At, job.Intent.Encoder)
}

// Finished implements commit.Finisher over the printed bucket.
func (w *world) Finished(_ context.Context, job *stages.Job) (*stages.Uploaded, bool, error) {
	w.printf("GET %d.json: %v", job.Intent.K, w.bucket[manifestOf(job)])
	return &stages.Uploaded{Manifest: manifestOf(job), Records: 2, Bytes: 10}, w.bucket[manifestOf(job)], nil
}

// known is a binary that writes jsonl with the encoder of its pins.
func (p *proc) known(in stages.Intent) (stages.Intent, error) {
	if in.Format != "jsonl" {
		return in, fmt.Errorf("format %q", in.Format)
	}
	in.Encoder = p.pins.Encoder
	return in, nil
}

func (w *world) Take(context.Context, stages.Window) error { return nil }
func (w *world) Give()                                     {}

func (w *world) Committed(c commit.Committed) {
	w.printf("committed k=%d end=%d records=%d redo=%v", c.Pointer.K, c.Pointer.End, c.Pointer.Records, c.Redo)
	w.committed(c)
}

func (w *world) PreconditionLost(string)               { w.printf("event: precondition lost") }
func (w *world) Waiting(_, step string, err error)     { w.printf("event: %s waits: %v", step, err) }
func (w *world) Ignored(_, key string)                 { w.printf("event: %s ignored", key) }
func (w *world) sort(l stages.Listing) []stages.Append { return l.Appends }

// Safe and the rest implement stages.Log over the rows: the intent that is open in the store is open in the applied state.
func (w *world) Safe() stages.Micros {
	if w.since.IsZero() {
		return w.safe
	}
	return w.safe.Add(time.Since(w.since))
}

func (w *world) Positions(context.Context, stages.QueueID, stages.Micros) ([]stages.Position, error) {
	panic("not used")
}

func (w *world) Listing(_ context.Context, _ stages.QueueID, _ string, k uint64) (stages.Listing, error) {
	in, err := stages.ParseIntent(w.kv.Get("s3:default:q:intent").Value)
	if err != nil || in.K != k || w.behind > 0 {
		w.behind--
		w.printf("list %d: not applied here yet", k)
		return stages.Listing{}, stages.ErrNoIntent
	}
	w.printf("list %d: up to %d", k, in.End)
	return stages.Listing{K: k, End: in.End, Appends: make([]stages.Append, 2)}, nil
}

func (w *world) Moved(context.Context, stages.Micros) ([]stages.QueueID, stages.Micros, error) {
	return nil, w.Safe(), nil
}

func (w *world) Headers(context.Context, stages.QueueID, stages.Micros, stages.Micros) iter.Seq2[stages.Header, error] {
	return func(func(stages.Header, error) bool) {}
}

func (w *world) Bodies(context.Context, *stages.Listing, []stages.Append, func(int, stages.Body) error) error {
	return nil
}

func number(t *testing.T, s string) stages.Micros {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return stages.Micros(n)
}

func micros(m stages.Micros) string {
	if m == stages.Beginning {
		return "beginning"
	}
	return strconv.FormatInt(int64(m), 10)
}

// shown prints an error with what it asks of the runtime.
func shown(err error) string {
	if err == nil {
		return "ok"
	}
	if e, ok := errors.AsType[*commit.Error](err); ok {
		return fmt.Sprintf("%s wait=%s twin=%v: %v", e.Kind, e.Wait, e.Twin, err)
	}
	return "error: " + err.Error()
}
