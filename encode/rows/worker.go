package rows

import (
	"context"
	"fmt"

	"queen/stages"
)

// worker reads and formats one run after the other.
type worker struct {
	p     *pump
	f     Formatter
	t     *run   // the one that it is at
	spare []byte // its buffer, nil = none yet
}

func (k *worker) work(ctx context.Context) {
	for t := range k.p.tasks {
		if ctx.Err() != nil {
			continue
		}
		k.t = t
		// A panic below ends this window and not the broker.
		if err := stages.Guard(func() error { return k.format(ctx) }); err != nil {
			k.p.fail(err)
		}
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

// format reads and formats the run.
func (k *worker) format(ctx context.Context) error {
	t := k.t
	next := 0
	out := k.spare[:0]
	var h stages.Header // one for all appends: it is handed on by its address
	var at sequence
	err := k.p.rows.Read(ctx, t.appends, func(i int, body stages.Body) error {
		if i != next || i >= len(t.appends) {
			return fmt.Errorf("read appends: got append %d of %d, expected %d: %w", i, len(t.appends), next, stages.ErrDamaged)
		}
		if i%touchNames == 0 {
			t.touch(k.p.rows.List.Parts, i)
		}
		part := &k.p.rows.List.Parts[t.appends[i].Part]
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
		out, err = k.f.Append(out, part.Name, &h, body)
		next++
		return err
	})
	if err == nil && next != len(t.appends) {
		err = fmt.Errorf("read appends: got %d of %d: %w", next, len(t.appends), stages.ErrDamaged)
	}
	if err != nil {
		return err
	}
	t.last = at
	return k.hand(ctx, out, true)
}

// room is Room for the run that the worker is at.
func (k *worker) room(ctx context.Context, dst []byte, n int) ([]byte, error) {
	if cap(dst)-len(dst) >= n {
		return dst, nil
	}
	if len(dst) > 0 {
		if err := k.hand(ctx, dst, false); err != nil {
			return nil, err
		}
	}
	if n <= k.p.buffer {
		if k.spare == nil {
			k.spare = make([]byte, 0, k.p.buffer)
		}
		return k.spare[:0], nil
	}
	// It is taken when it is the run's turn and all before it is written.
	if err := k.hand(ctx, k.spare[:0], false); err != nil {
		return nil, err
	}
	if cap(k.p.large) < n {
		k.p.large = nil
		k.p.large = make([]byte, 0, n)
	}
	return k.p.large[:0], nil
}

// hand waits until it is the run's turn and all before out is written or being written, and hands out on.
func (k *worker) hand(ctx context.Context, out []byte, end bool) error {
	select {
	case k.t.pieces <- piece{out, end}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if cap(out) <= k.p.buffer {
		k.spare = <-k.p.written
	}
	return nil
}
