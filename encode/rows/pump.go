package rows

import (
	"context"
	"io"
	"sync"

	"queen/stages"
)

const (
	// BufferBytes is the size of a buffer that rows are formatted into.
	BufferBytes = 5 << 18
	// runTarget is how many bytes the rows of a run are meant to take when they are formatted: so few that hardly a run needs a second buffer.
	runTarget = 1 << 20
	// lineBytes is about what a record takes in a line beside its weight (stages.RecordWeight): names of members, stamp and offset. It is a guess
	// that says where runs end, and bounds nothing.
	lineBytes = 40
)

// Memory is what Pump holds at most with so many readers, in bytes: a buffer for each, and one that is written. A record that does not fit
// a buffer comes on top of it, one at a time.
func Memory(readers int) int64 { return int64(max(readers, 1)+1) * BufferBytes }

// Room makes room for n more bytes behind dst. It returns dst, or an empty buffer in its place when dst is full: then what stood in it is on its way, and
// it may have waited for that. Its error ends the window, and a formatter returns it as it is.
type Room func(dst []byte, n int) ([]byte, error)

// Formatter appends the bytes of one append to dst. Each worker has its own, so it may keep scratch space. It must check
// that the body holds exactly the records that the header names. Before each record it asks Room for what the record takes at most, and appends no
// more than that. h is good until Append returns.
type Formatter interface {
	Append(dst []byte, name string, h *stages.Header, body stages.Body) ([]byte, error)
}

// Pump reads, formats and writes all rows to w, in order. The bytes that w sees do not depend on Readers.
//
// Invariants of the loop:
//   - Appends are cut into runs that take about 1 MiB when they are formatted, always at the same places.
//   - Appends are in order within a run, which its worker sees, and from run to run, which the caller's goroutine sees.
//   - A worker formats its run into its buffer. When that is full, or the run ends, it waits until it is the run's turn, and swaps it for the one
//     that was written last. So there are Readers+1 buffers, whatever a run turns out to take, and no worker waits for a buffer.
//   - A record that does not fit a buffer is formatted when it is its run's turn and the last such record is written: there is one at a time.
//   - Runs reach w in order, on the caller's goroutine; only reading and formatting is done by the workers. They take runs in order too, so the run
//     whose turn it is always has a worker.
//   - The first error of any worker, of w or of ctx ends the loop at once and is what Pump returns.
//   - When Pump returns, all its goroutines have ended.
func Pump(ctx context.Context, w io.Writer, r Rows, newFormatter func(Room) Formatter) error {
	readers := max(r.Readers, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pump{rows: r, tasks: make(chan *run, readers+1), fail: cancel, written: make(chan []byte, 1)}
	p.measure()
	var workers sync.WaitGroup
	for range readers {
		k := &worker{p: p}
		k.f = newFormatter(func(dst []byte, n int) ([]byte, error) { return k.room(ctx, dst, n) })
		workers.Go(func() { k.work(ctx) })
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
	first, last sequence   // what stands at its ends, as far as it is formatted
	seen        byte       // what touch read, so that the loads are not left out
	pieces      chan piece // what it takes, in order
}

// piece is some of the formatted rows of a run.
type piece struct {
	out []byte
	end bool // of the run
}

type pump struct {
	rows    Rows
	cut     int64 // bytes of frames that make a run
	buffer  int   // size of a buffer, bytes
	tasks   chan *run
	written chan []byte // to the worker whose piece was taken: the buffer that was written last, nil = none yet
	large   []byte      // for a record that fits no buffer; of the worker whose turn it is, until it hands it on
	fail    context.CancelCauseFunc
}

// measure decides where runs end and how large buffers are. Frames of small records take several times as much when they are formatted.
func (p *pump) measure() {
	var frames int64
	for i := range p.rows.Appends {
		frames += int64(p.rows.Appends[i].Len)
	}
	lines := max(frames, p.rows.List.Weight+lineBytes*p.rows.List.Records)
	p.cut = int64(runTarget * (float64(frames) / float64(max(lines, 1))))
	p.buffer = int(min(BufferBytes, lines+lines/4+4<<10)) // a small window takes little
}

// drive hands runs to the workers, ahead of them at most, and writes each when its turn comes.
func (p *pump) drive(ctx context.Context, w io.Writer, ahead int) error {
	rest := p.rows.Appends
	free := make([]*run, ahead)
	for i := range free {
		free[i] = &run{pieces: make(chan piece)}
	}
	var flight []*run
	o := output{w: w, p: p}
	for len(rest) > 0 || len(flight) > 0 {
		for len(rest) > 0 && len(free) > 0 {
			t := free[len(free)-1]
			free = free[:len(free)-1]
			n := p.next(rest)
			t.appends, rest = rest[:n], rest[n:]
			t.first, t.last = sequence{}, sequence{}
			flight = append(flight, t)
			p.tasks <- t // never blocks: its room is that of all runs
		}
		t := flight[0]
		if err := o.write(ctx, t); err != nil {
			return err
		}
		flight = append(flight[:0], flight[1:]...)
		free = append(free, t)
	}
	return nil
}

// next returns how many of the appends make the next run: at least one.
func (p *pump) next(appends []stages.Append) int {
	var length int64
	for i := range appends {
		if length += int64(appends[i].Len); length > p.cut && i > 0 {
			return i
		}
	}
	return len(appends)
}

// output is where the runs go.
type output struct {
	w     io.Writer
	p     *pump
	last  sequence
	spare []byte // what was written last
}

// write writes a run, piece by piece.
func (o *output) write(ctx context.Context, t *run) error {
	for begun := false; ; begun = true {
		var next piece
		select {
		case next = <-t.pieces:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if cap(next.out) <= o.p.buffer { // else it has no other in its place
			o.p.written <- o.spare // first of all, since who handed the piece on waits for it and for nothing else
			o.spare = next.out[:0]
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !begun {
			if err := o.last.follow(t.first, t.first); err != nil {
				return err
			}
		}
		if next.end {
			o.last = t.last
		}
		if len(next.out) > 0 {
			if _, err := o.w.Write(next.out); err != nil {
				return err
			}
		}
		if next.end {
			return nil
		}
	}
}
