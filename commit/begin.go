package commit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen/stages"
)

// Crash points of this package (contract S15).
const (
	AfterIntent  = "after_intent"
	BeforeCommit = "before_commit"
	AfterCommit  = "after_commit"
)

// Pins are the values that shape the bytes and keys of the windows that this process begins; an intent records them (contract B1).
type Pins struct {
	Format, Compression      string
	Level                    int
	Layout, Align            string
	Prefix, Bucket, Endpoint string
	Writer, Encoder          string
}

// Finisher looks for a window that an earlier life uploaded whole.
type Finisher interface {
	// Finished returns the upload that fits the intent, or false when the bucket holds none. A look that failed is an error.
	Finished(ctx context.Context, job *stages.Job) (*stages.Uploaded, bool, error)
}

// Turns lets one window at a time through Begin to Finish.
type Turns chan struct{}

// NewTurns returns the turns of one pass.
func NewTurns() Turns { return make(Turns, 1) }

func (t Turns) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t Turns) give() { <-t }

// Options is what Begin and Finish of one pass need besides the ledger.
type Options struct {
	Ledger   *Ledger
	Turns    Turns
	Pins     Pins
	Latency  time.Duration // repinning: how long a request of the old owner may still be under way
	Finisher Finisher
	Sort     func(stages.Listing) []stages.Append
	// Known says whether this binary can write the intent: as it is, with another encoder (repinned differs), or not at all (a sentence).
	Known func(in stages.Intent) (repinned stages.Intent, err error)
	Crash func(point string)
	// Check is asked right before the intent of a new window is written, for what the queue is by then; its error ends the pass, and nothing is
	// written. nil asks nothing: the queue is what it was when it was adopted.
	Check func(ctx context.Context, w stages.Window) (stages.QueueInfo, error)
	// After is called when a window has become real, while its turn and its slot are still held. nil does nothing.
	After func(ctx context.Context, c Committed)
	// Slot is room to write one window, taken whole before the intent (no hold-and-wait) and given back by Finish.
	Slot Slot
}

// Slot is one window's share of the node's memory: Take waits for all that the window needs. Give is safe without Take, and twice.
type Slot interface {
	Take(ctx context.Context, w stages.Window) error
	Give()
}

// Begin fixes a window: its intent is written (or found, in a redo), and when this node has applied it the window is listed from a view in
// which that intent is the open one.
type Begin struct {
	o Options
	g *Ledger
}

var _ stages.Stage[stages.Window, *stages.Job] = (*Begin)(nil)

// NewBegin returns the stage.
func NewBegin(o Options) *Begin { return &Begin{o: o, g: o.Ledger} }

// Do waits for the queue's turn and emits one job for a window. The turn is given back by Finish.
func (b *Begin) Do(ctx context.Context, w stages.Window, emit func(*stages.Job) error) error {
	if err := b.o.Turns.take(ctx); err != nil {
		return err
	}
	if err := b.o.Slot.Take(ctx, w); err != nil {
		return err
	}
	job := &stages.Job{Queue: b.g.queue, Redo: w.Why == stages.Redo}
	var err error
	if job.Redo {
		err = b.redo(ctx, w, job)
	} else {
		err = b.first(ctx, w, job)
	}
	if err == nil && job.Finished == nil {
		err = b.list(ctx, job)
	}
	if err != nil {
		return fmt.Errorf("begin window %d of %s: %w", w.K, b.g.queue.Name, err)
	}
	return emit(job)
}

// Drain has nothing left to emit.
func (b *Begin) Drain(context.Context, func(*stages.Job) error) error { return nil }

func (b *Begin) first(ctx context.Context, w stages.Window, job *stages.Job) error {
	if b.g.open != nil || w.K != b.g.k+1 {
		return errData("window %d does not follow the pointer at %d", w.K, b.g.k)
	}
	p := b.o.Pins
	job.Intent = stages.Intent{K: w.K, Start: w.Shown, End: w.End, At: stages.MicrosOf(b.g.store().Now()).ISO(), Format: p.Format,
		Compression: p.Compression, Level: p.Level, Layout: p.Layout, Align: p.Align, Prefix: p.Prefix, Bucket: p.Bucket,
		Endpoint: p.Endpoint, Writer: p.Writer, Encoder: p.Encoder}
	if w.Start != stages.Beginning {
		job.Intent.From = &w.Start
	}
	queue := b.g.queue
	if b.o.Check != nil {
		var err error
		if queue, err = b.o.Check(ctx, w); err != nil {
			return err
		}
	}
	job.Intent.Key = queue.Key
	if err := b.intent(ctx, job.Intent); err != nil {
		return err
	}
	b.o.Crash(AfterIntent)
	return nil
}

// redo goes on with the open intent as it is written, whatever the settings say now.
func (b *Begin) redo(ctx context.Context, w stages.Window, job *stages.Job) error {
	if b.g.open == nil || b.g.open.K != w.K {
		return errData("window %d is to be redone and its intent is not open", w.K)
	}
	job.Intent = *b.g.open
	repinned, err := b.known(job.Intent)
	if err != nil {
		return errFatal("window %d was begun with values this binary does not know: %w", w.K, err)
	}
	if safe := b.g.store().Log.Safe(); job.Intent.End > safe {
		// Records may still join such a window, so that no two listings of it need be the same (contract S5).
		return errFatal("the row %s ends window %d at %s and the log's safe time is %s: no sink wrote that; restore the row or delete it",
			b.g.key(intent), w.K, job.Intent.End.ISO(), safe.ISO())
	}
	up, ok, err := b.o.Finisher.Finished(ctx, job)
	if err != nil {
		return err
	}
	if ok {
		up.Job, job.Finished = job, up
		return nil
	}
	if repinned != job.Intent {
		// Another encoder would put other bytes under the same keys: say so first, and let what its owner still has under way land before ours.
		repinned.NotBefore = b.g.store().Log.Safe().Add(b.o.Latency)
		job.Intent = repinned
		if err := b.intent(ctx, repinned); err != nil {
			return err
		}
	}
	return b.await(ctx, w, job.Intent.NotBefore)
}

// known asks Known, after what no binary may take for known (contract B1).
func (b *Begin) known(in stages.Intent) (stages.Intent, error) {
	if in.Unknown != "" {
		return in, errors.New(in.Unknown)
	}
	return b.o.Known(in)
}

// await waits until the safe time has reached t, which is the clock of the row: a life that ends in between leaves the rest of the wait to the
// next one, and a drain does not shorten it. It was not behind our claim of the queue when t was made, because the rows of this pass were
// read through the log after it; and since that claim the old owner begins nothing. The log clock may leap, and what is under way does not hurry
// then: so what was left when this process first saw t has to pass on its own clock, too.
//
// Nothing is written meanwhile, so the slot is for others.
func (b *Begin) await(ctx context.Context, w stages.Window, t stages.Micros) error {
	store, quiet := b.g.store(), b.g.quietFor(t)
	for waited := false; ; waited = true {
		left := max(t.Sub(store.Log.Safe()), quiet.Sub(store.Now()))
		if left <= 0 && waited {
			return b.o.Slot.Take(ctx, w)
		}
		if left <= 0 {
			return nil
		}
		if !waited {
			b.o.Slot.Give()
		}
		if err := b.g.lease.Check(); err != nil {
			return err
		}
		if err := pause(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
}

func (b *Begin) intent(ctx context.Context, in stages.Intent) error {
	value, err := stages.MarshalRow(in)
	if err != nil {
		return err
	}
	if _, err := b.g.write(ctx, "intent", intent, value); err != nil {
		return err
	}
	b.g.open = &in
	return nil
}

// list waits until this node has applied the intent, lists the window and sorts it.
func (b *Begin) list(ctx context.Context, job *stages.Job) error {
	wait := time.Millisecond
	for {
		l, err := b.g.store().Log.Listing(ctx, b.g.queue.ID, b.g.store().Sink, job.Intent.K)
		if err == nil {
			if l.K != job.Intent.K || l.End != job.Intent.End {
				return errData("the log lists window %d up to %d, the intent says %d up to %d", l.K, l.End, job.Intent.K, job.Intent.End)
			}
			job.Listing, job.Sorted = l, b.o.Sort(l)
			return nil
		}
		if !errors.Is(err, stages.ErrNoIntent) {
			return fmt.Errorf("list: %w", err)
		}
		// Another owner may have committed the window meanwhile; then the intent never opens here and the lease says why.
		if err := b.g.lease.Check(); err != nil {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, 100*time.Millisecond)
	}
}

// pause waits for d, whatever hurries, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error { return Backoff{}.Wait(ctx, d) }
