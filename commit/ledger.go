package commit

import (
	"context"
	"errors"
	"time"

	"queen/stages"
)

// Ledger is one queue's rows as this process last saw and wrote them, and the only way to write them.
//
// A write is a round, repeated until the rows give a clear answer:
//
//	take the lease's turn
//	an earlier round was unclear? read the rows and decide
//	batch [fence, target]; both required
//	   applied  -> absorb both versions, done
//	   refused  -> not written: give the turn back, wait, next round
//	   unclear, or a precondition lost (whatever index it names) -> read the rows and decide
//
// Decide, from all four rows read at one moment: the lease is ours at whatever version -> adopt it; then the target is what we wanted to
// write -> done; the target is as we knew it -> next round; anything else -> the pass ends and starts again from the rows. Another
// holder -> fenced. No holder -> the pass ends; the next one acquires again.
type Ledger struct {
	lease  *Lease // it knows the store and the keys
	listen Listener
	queue  stages.QueueInfo

	known [targets]uint64 // versions of the rows as last seen; guarded by the lease's turn

	// Without a lock: Adopt writes them while no pass runs, and in a pass it is Begin until it has emitted, then Finish, who may touch them. The
	// pipeline hands the job from one to the other, and Turns lets Begin go on only when Finish is done.
	k     uint64        // of the pointer as last seen; 0 when there is none
	end   stages.Micros // of the pointer
	start stages.Micros
	open  *stages.Intent // the intent that is open, if any
	doubt *doubt         // the pointer that was sent last, while nobody knows whether it landed
	quiet quiet
}

// quiet is the wait of an intent that was rewritten for another encoder, as this process has it.
type quiet struct {
	of    stages.Micros // Intent.NotBefore
	until time.Time
}

// quietFor is when what was left of a wait, when it was seen first, has passed on this process's own clock.
func (g *Ledger) quietFor(t stages.Micros) time.Time {
	if g.quiet.of != t {
		g.quiet = quiet{t, g.store().Now().Add(t.Sub(g.store().Log.Safe()))}
	}
	return g.quiet.until
}

// Listener hears what people want to know and no decision depends on.
type Listener interface {
	// PreconditionLost: a batch was sent and rolled back because the lease was not ours any more.
	PreconditionLost(queue string)
	// Committed: the pointer of a window is known to have landed. Once for each window of this ledger, except for one whose answer was lost
	// and whose row nobody could read back before the process ended, the queue was made anew, or another owner moved the pointer on.
	Committed(window Committed)
	// Waiting: a step could not be done and is tried again by itself.
	Waiting(queue, step string, err error)
	// Ignored: a row cannot be read and counts as absent.
	Ignored(queue, key string)
}

// NewLedger returns the ledger of a queue, behind its lease; it knows nothing until Adopt.
func NewLedger(lease *Lease, queue stages.QueueInfo, listen Listener) *Ledger {
	return &Ledger{lease: lease, queue: queue, listen: listen}
}

func (g *Ledger) store() *Store { return g.lease.store }

func (g *Ledger) key(t target) string { return g.lease.keys.of(t) }

// write puts value into a row behind the fence. landed is true when the row holds it, even if err says that the lease has gone
// since: for a pointer that is what counts.
func (g *Ledger) write(ctx context.Context, step string, row target, value []byte) (landed bool, err error) {
	unclear := false
	for n := 0; ; n++ {
		landed, err = g.round(ctx, row, value, &unclear)
		if landed {
			return true, err
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Retry || e.Wait >= 0 {
			return false, err
		}
		if errors.Is(err, errOwn) && n == 0 {
			continue
		}
		g.listen.Waiting(g.queue.Name, step, err)
		if err := g.store().Backoff.Wait(ctx, g.store().Backoff.Delay(n)); err != nil {
			return false, err
		}
	}
}

// errOwn: the fence met a newer version that is our own. The ledger knows it now, so the next round need not wait.
var errOwn = errors.New("lost to our own newer version")

// round is one round. An error with a negative wait asks for another one.
func (g *Ledger) round(ctx context.Context, row target, value []byte, unclear *bool) (landed bool, err error) {
	if err := g.lease.lock(ctx); err != nil {
		return false, err
	}
	defer g.lease.unlock()
	if err := g.lease.Lost(); err != nil && !*unclear {
		return false, err
	}
	if *unclear {
		if landed, err := g.decide(ctx, row, value); landed || err != nil {
			return landed, err
		}
		*unclear = false
	}
	fence, err := g.lease.fence()
	if err != nil {
		return false, err
	}
	known := g.known[row]
	sent := g.store().Now()
	results, lost, err := g.store().KV.Batch(ctx, []stages.Op{fence,
		{Kind: stages.OpPut, Key: g.key(row), Value: value, Forever: true, Expect: &known, Required: true}})
	switch {
	case errors.Is(err, stages.ErrUnclear):
		g.lease.sentUnclear(sent)
		*unclear = true
		landed, derr := g.decide(ctx, row, value)
		if !landed && derr == nil {
			*unclear = false
			return false, errAgain("write %s: %w", g.key(row), err)
		}
		return landed, derr
	case err != nil:
		return false, errAgain("write %s: %w", g.key(row), err)
	case lost != nil:
		landed, err = g.decide(ctx, row, value)
		if !landed && err == nil {
			return false, errAgain("write %s: %w", g.key(row), errOwn)
		}
		if !landed && g.lease.Lost() != nil {
			g.listen.PreconditionLost(g.queue.Name)
		}
		return landed, err
	case len(results) != 2 || !results[0].Applied || !results[1].Applied:
		*unclear = true
		return false, errAgain("write %s: %w", g.key(row), errShape)
	}
	g.lease.wrote(results[0].Row.Version, sent)
	g.known[row] = results[1].Row.Version
	return true, nil
}

// decide reads the rows and says what they mean for a write of value to a row: landed, or nil and not landed (write again), or why not.
// The turn must be held.
func (g *Ledger) decide(ctx context.Context, row target, value []byte) (landed bool, err error) {
	r, err := readRows(ctx, g.store().KV, g.lease.keys)
	if err != nil {
		return false, err
	}
	now := r.targets[row]
	landed = now.Version != g.known[row] && now.Version != 0 && sameJSON(now.Value, value)
	if landed {
		g.known[row] = now.Version
	}
	if !g.lease.found(r.lease) {
		return landed, g.lease.Lost()
	}
	if !landed && now.Version != g.known[row] {
		return false, errMoved("%s: written by another process", g.key(row))
	}
	return landed, nil
}
