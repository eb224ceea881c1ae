package rows

import (
	"context"
	"fmt"
	"io"
	"sync"

	"queen/stages"
)

// runWeight is the record weight of one run in bytes: what a worker reads and formats at a time.
const runWeight = 1 << 20

// keepBytes is the largest buffer that is used again for another run: one huge record must not stay for good.
const keepBytes = 4 << 20

// Formatter appends the bytes of one append to dst. Each worker has its own, so it may keep scratch space. It must check
// that the body holds exactly the records that the header names.
type Formatter interface {
	Append(dst []byte, name string, h stages.Header, body stages.Body) ([]byte, error)
}

// Pump reads, formats and writes all rows to w, in order. The bytes that w sees do not depend on Readers.
//
// Invariants of the loop:
//   - Appends are cut into runs of about 1 MiB of weight, always at the same places.
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
	headers []stages.Header
	out     []byte
	done    chan struct{} // gets one value when out is complete
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
	for len(rest) > 0 || len(flight) > 0 {
		for len(rest) > 0 && len(free) > 0 {
			t := free[len(free)-1]
			free = free[:len(free)-1]
			n := cut(rest)
			t.headers, rest = rest[:n], rest[n:]
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

// cut returns how many of the headers make the next run: at least one.
func cut(headers []stages.Header) int {
	var weight int64
	for i, h := range headers {
		if weight += int64(h.Weight); weight >= runWeight {
			return i + 1
		}
	}
	return len(headers)
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

// format reads and formats one run.
func (p *pump) format(ctx context.Context, f Formatter, t *run) error {
	next := 0
	name := ""
	err := p.rows.Read(ctx, t.headers, func(i int, body stages.Body) error {
		if i != next || i >= len(t.headers) {
			return fmt.Errorf("read appends: got append %d of %d, expected %d: %w", i, len(t.headers), next, stages.ErrDamaged)
		}
		h := t.headers[i]
		if g := body.Header(); g.Partition != h.Partition || g.TS != h.TS || g.Base != h.Base || g.Count != h.Count {
			return fmt.Errorf("read append (partition %d, stamp %d, offset %d, %d records): got (%d, %d, %d, %d): %w",
				h.Partition, h.TS, h.Base, h.Count, g.Partition, g.TS, g.Base, g.Count, stages.ErrDamaged)
		}
		if i == 0 || h.Partition != t.headers[i-1].Partition {
			name = p.rows.Names[h.Partition]
		}
		var err error
		t.out, err = f.Append(t.out, name, h, body)
		next++
		return err
	})
	if err == nil && next != len(t.headers) {
		err = fmt.Errorf("read appends: got %d of %d: %w", next, len(t.headers), stages.ErrDamaged)
	}
	return err
}
