package rows

import (
	"context"
	"fmt"
	"io"
	"sync"

	"queen/stages"
)

// runBytes is the length of the frames of one run: what a worker reads and formats at a time.
const runBytes = 1 << 20

// keepBytes is the largest buffer that is used again for another run: one huge record must not stay for good.
const keepBytes = 4 << 20

// Formatter appends the bytes of one append to dst. Each worker has its own, so it may keep scratch space. It must check
// that the body holds exactly the records that the header names. h is good until Append returns.
type Formatter interface {
	Append(dst []byte, name string, h *stages.Header, body stages.Body) ([]byte, error)
}

// Pump reads, formats and writes all rows to w, in order. The bytes that w sees do not depend on Readers.
//
// Invariants of the loop:
//   - Appends are cut into runs of about 1 MiB of frames, always at the same places.
//   - Appends are in order within a run, which its worker sees, and from run to run, which the caller's goroutine sees.
//   - At most Readers+1 runs are in memory: the one being written and those being read ahead.
//   - Runs reach w in order, on the caller's goroutine; only reading and formatting is done by the workers.
//   - The first error of any worker, of w or of ctx ends the loop at once and is what Pump returns.
//   - When Pump returns, all its goroutines have ended.
func Pump(ctx context.Context, w io.Writer, r Rows, newFormatter func() Formatter) error {
	readers := max(r.Readers, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pump{rows: r, tasks: make(chan *run, readers+1), fail: cancel}
	var workers sync.WaitGroup
	for range readers {
		f := newFormatter()
		workers.Go(func() { p.work(ctx, f) })
	}
	err := p.drive(ctx, w, readers+1)
	if err != nil {
		cancel(err)
	}
	close(p.tasks)
	workers.Wait()
	cancel(nil)
	return err
}

type run struct {
	appends     []stages.Append
	first, last sequence // what stands at its ends
	out         []byte
	seen        byte          // what touch read, so that the loads are not left out
	done        chan struct{} // gets one value when out is complete
}

type pump struct {
	rows  Rows
	tasks chan *run
	fail  context.CancelCauseFunc
}

// drive hands runs to the workers, ahead of them at most, and writes each when its turn comes.
func (p *pump) drive(ctx context.Context, w io.Writer, ahead int) error {
	rest := p.rows.Appends
	free := make([]*run, ahead)
	for i := range free {
		free[i] = &run{done: make(chan struct{}, 1)}
	}
	var flight []*run
	var last sequence
	for len(rest) > 0 || len(flight) > 0 {
		for len(rest) > 0 && len(free) > 0 {
			t := free[len(free)-1]
			free = free[:len(free)-1]
			n := cut(rest)
			t.appends, rest = rest[:n], rest[n:]
			flight = append(flight, t)
			p.tasks <- t // never blocks: its room is that of all runs
		}
		t := flight[0]
		select {
		case <-t.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := last.follow(t.first, t.last); err != nil {
			return err
		}
		if _, err := w.Write(t.out); err != nil {
			return err
		}
		if t.out = t.out[:0]; cap(t.out) > keepBytes {
			t.out = nil
		}
		flight = append(flight[:0], flight[1:]...)
		free = append(free, t)
	}
	return nil
}

// cut returns how many of the appends make the next run: at least one.
func cut(appends []stages.Append) int {
	var length int64
	for i := range appends {
		if length += int64(appends[i].Len); length >= runBytes {
			return i + 1
		}
	}
	return len(appends)
}

func (p *pump) work(ctx context.Context, f Formatter) {
	for t := range p.tasks {
		if ctx.Err() != nil {
			continue
		}
		// A panic below ends this window and not the broker.
		if err := stages.Guard(func() error { return p.format(ctx, f, t) }); err != nil {
			p.fail(err)
			continue
		}
		t.done <- struct{}{}
	}
}

// touchNames is how many names are looked at together: with many partitions each lies somewhere else in memory, and so their cache misses
// overlap.
const touchNames = 32

// touch loads a byte of the names of the next appends.
func (t *run) touch(parts []stages.Part, i int) {
	for _, a := range t.appends[i:min(i+touchNames, len(t.appends))] {
		if name := parts[a.Part].Name; name != "" {
			t.seen ^= name[0]
		}
	}
}

// format reads and formats one run.
func (p *pump) format(ctx context.Context, f Formatter, t *run) error {
	next := 0
	var at sequence
	var h stages.Header // one for all appends: it is handed on by its address
	err := p.rows.Read(ctx, t.appends, func(i int, body stages.Body) error {
		if i != next || i >= len(t.appends) {
			return fmt.Errorf("read appends: got append %d of %d, expected %d: %w", i, len(t.appends), next, stages.ErrDamaged)
		}
		if i%touchNames == 0 {
			t.touch(p.rows.List.Parts, i)
		}
		part := &p.rows.List.Parts[t.appends[i].Part]
		h = body.Header()
		if h.Partition != part.ID || h.Count < 1 {
			return fmt.Errorf("read append %d of partition %d (%q): got %d records of partition %d: %w", i, part.ID, part.Name, h.Count, h.Partition, stages.ErrDamaged)
		}
		if err := at.next(part.Name, &h); err != nil {
			return err
		}
		if i == 0 {
			t.first = at
		}
		var err error
		t.out, err = f.Append(t.out, part.Name, &h, body)
		next++
		return err
	})
	if err == nil && next != len(t.appends) {
		err = fmt.Errorf("read appends: got %d of %d: %w", next, len(t.appends), stages.ErrDamaged)
	}
	t.last = at
	return err
}
