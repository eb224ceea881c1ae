package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"queen/stages"
)

// batchOps is how many operations one batch may have.
const batchOps = 256

// batchesAtOnce is how many batches of refreshes are under way at once: those that wait while the log syncs one entry go into the next one
// together, so that many leases cost fewer syncs than batches.
const batchesAtOnce = 4

// Refresh rewrites the rows of all leases that are held and not being written by somebody else at this moment (a fenced batch
// refreshes its own), 256 to a batch, and returns those that turned out to be lost. An error is of the batches that had no clear answer;
// their leases are refreshed again next time, and found out then.
func Refresh(ctx context.Context, kv stages.KV, leases []*Lease) (lost []*Lease, err error) {
	batches := slices.Collect(slices.Chunk(leases, batchOps))
	losses, errs, panics := make([][]*Lease, len(batches)), make([]error, len(batches)), make([]any, len(batches))
	var group errgroup.Group
	group.SetLimit(batchesAtOnce)
	for i, batch := range batches {
		group.Go(func() error {
			defer func() { panics[i] = recover() }()
			losses[i], errs[i] = refreshSome(ctx, kv, batch)
			return nil
		})
	}
	_ = group.Wait() // each batch has its own error
	for _, p := range panics {
		if p != nil {
			panic(p) // here the caller can guard against it
		}
	}
	return slices.Concat(losses...), errors.Join(errs...)
}

func refreshSome(ctx context.Context, kv stages.KV, leases []*Lease) (lost []*Lease, err error) {
	mine, ops := make([]*Lease, 0, len(leases)), make([]stages.Op, 0, len(leases))
	defer func() {
		for _, l := range mine {
			l.unlock()
		}
	}()
	for _, l := range leases {
		if !l.tryLock() {
			continue
		}
		if !l.Held() {
			l.unlock()
			continue
		}
		mine = append(mine, l)
		op, err := l.fence()
		if err != nil {
			return nil, err
		}
		op.Required = false
		ops = append(ops, op)
	}
	if len(ops) == 0 {
		return nil, nil
	}
	sent := mine[0].store.Now()
	results, _, err := kv.Batch(ctx, ops)
	if err != nil || len(results) != len(ops) {
		if errors.Is(err, stages.ErrUnclear) {
			for _, l := range mine {
				l.sentUnclear(sent)
			}
		}
		return nil, fmt.Errorf("refresh %d leases: %w", len(ops), cause(err))
	}
	for i, l := range mine {
		switch r := results[i]; {
		case r.Applied:
			l.wrote(r.Row.Version, sent)
		case !l.found(r.Row):
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// Release gives the leases back: each row is read, and deleted at its version if it is of this incarnation. A failure is tried again after
// 100 ms doubling to 1 s for at most 10 s in all; then the rows run out by themselves, since none of these handles refreshes its row any more.
// It returns how many it could not give back. A lease that was never claimed, as of a queue whose key this node lacks, costs the log nothing.
func Release(ctx context.Context, kv stages.KV, leases []*Lease) (left int, err error) {
	leases = slices.DeleteFunc(slices.Clone(leases), func(l *Lease) bool { return !l.mayHold() })
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	pause := 100 * time.Millisecond
	for {
		var rest []*Lease
		for at := 0; at < len(leases); at += batchOps {
			some := leases[at:min(at+batchOps, len(leases))]
			if e := releaseSome(ctx, kv, some); e != nil {
				rest, err = append(rest, some...), e
			}
		}
		if len(rest) == 0 {
			return 0, nil
		}
		leases = rest
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			gaveBack(rest)
			return len(rest), err
		}
		pause = min(2*pause, time.Second)
	}
}

func releaseSome(ctx context.Context, kv stages.KV, leases []*Lease) error {
	byKey := map[string]*Lease{}
	read := stages.Op{Kind: stages.OpGetMany}
	for _, l := range leases {
		if err := l.lock(ctx); err != nil {
			return err
		}
		defer l.unlock()
		byKey[l.key()] = l
		read.Keys = append(read.Keys, l.key())
	}
	results, _, err := kv.Batch(ctx, []stages.Op{read})
	if err != nil || len(results) != 1 {
		return fmt.Errorf("read %d leases to release: %w", len(leases), cause(err))
	}
	var ops []stages.Op
	for _, row := range results[0].Rows {
		l := byKey[row.Key]
		if doc := parseLease(row.Value); doc.Instance == l.store.Instance && doc.Incarnation == l.incarnation {
			ops = append(ops, stages.Op{Kind: stages.OpDelete, Key: row.Key, Expect: &row.Version})
		}
	}
	if len(ops) > 0 {
		if _, _, err := kv.Batch(ctx, ops); err != nil {
			return fmt.Errorf("release %d leases: %w", len(ops), err) // unclear too: the next look finds out
		}
	}
	gaveBack(leases)
	return nil
}

// mayHold says whether the row may be ours.
func (l *Lease) mayHold() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claimed
}

// gaveBack makes handles that are not used any more.
func gaveBack(leases []*Lease) {
	for _, l := range leases {
		l.mu.Lock()
		l.held, l.claimed, l.lost = false, false, errMoved("lease %s: given back", l.key())
		l.mu.Unlock()
	}
}
