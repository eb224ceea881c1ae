package commit

import (
	"context"
	"fmt"

	"queen/stages"
)

// Committed is a window that has become real.
type Committed struct {
	Intent  stages.Intent
	Redo    bool // the intent was found, not written, by the pass that committed it
	Pointer stages.Pointer
	Lost    []stages.Range
}

// doubt is a window whose pointer was sent and not seen in its row. The next adoption sees.
type doubt struct {
	window Committed
	value  []byte // of the row
}

// Finish moves the pointer of an uploaded window behind the fence and gives the turn back. It is the end of the pipeline.
type Finish struct {
	o Options
	g *Ledger
}

// NewFinish returns the stage.
func NewFinish(o Options) *Finish { return &Finish{o: o, g: o.Ledger} }

// Do writes the pointer row of a window. The ledger's listener hears of it at once and here, whatever becomes of the pass: a pipeline that is
// cancelled hands nothing on. When no answer came and reading the row back failed too, the next Adopt of this ledger tells.
func (f *Finish) Do(ctx context.Context, up *stages.Uploaded) error {
	f.o.Crash(BeforeCommit)
	p := stages.Pointer{K: up.Job.Intent.K, End: up.Job.Intent.End, Manifest: up.Manifest, Records: up.Records, Bytes: up.Bytes,
		CommittedAtMs: f.g.store().Now().UnixMilli()}
	value, err := p.Encode()
	if err != nil {
		return err
	}
	window := Committed{Intent: up.Job.Intent, Redo: up.Job.Redo, Pointer: p, Lost: up.Lost}
	f.g.doubt = &doubt{window, value}
	landed, err := f.g.write(ctx, "commit", committed, value)
	if !landed {
		return fmt.Errorf("commit window %d of %s: %w", p.K, f.g.queue.Name, err)
	}
	// The window is real even if the lease is gone by now; whoever writes next finds that out.
	f.g.k, f.g.end, f.g.open, f.g.doubt = p.K, p.End, nil, nil
	f.g.listen.Committed(window)
	f.o.Crash(AfterCommit)
	if f.o.After != nil {
		f.o.After(ctx, window)
	}
	f.o.Slot.Give()
	f.o.Turns.give()
	return nil
}
