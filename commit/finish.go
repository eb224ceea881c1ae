package commit

import (
	"context"
	"fmt"

	"queen/stages"
)

// Committed is a window that has become real.
type Committed struct {
	Job     *stages.Job
	Pointer Pointer
	Lost    []stages.Range
}

// Finish moves the pointer of an uploaded window behind the fence and gives the turn back.
type Finish struct {
	o Options
	g *Ledger
}

var _ stages.Stage[*stages.Uploaded, Committed] = (*Finish)(nil)

// NewFinish returns the stage.
func NewFinish(o Options) *Finish { return &Finish{o: o, g: o.Ledger} }

// Do emits the window once its pointer row is written.
func (f *Finish) Do(ctx context.Context, up *stages.Uploaded, emit func(Committed) error) error {
	f.o.Crash(BeforeCommit)
	p := Pointer{K: up.Job.Intent.K, End: up.Job.Intent.End, Manifest: up.Manifest, Records: up.Records, Bytes: up.Bytes,
		CommittedAtMs: f.g.now().UnixMilli()}
	value, err := p.encode()
	if err != nil {
		return err
	}
	landed, err := f.g.write(ctx, "commit", f.g.keys.Committed, value)
	if !landed {
		return fmt.Errorf("commit window %d of %s: %w", p.K, f.g.queue.Name, err)
	}
	// The window is real even if the lease is gone by now; whoever writes next finds that out.
	f.o.Crash(AfterCommit)
	f.g.pointer, f.g.open = p, nil
	f.o.Slot.Give()
	f.o.Turns.give()
	return emit(Committed{Job: up.Job, Pointer: p, Lost: up.Lost})
}

// Drain has nothing left to emit.
func (f *Finish) Drain(context.Context, func(Committed) error) error { return nil }
