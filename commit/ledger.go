package commit

import (
	"context"
	"errors"

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
	kv      stages.KV
	now     stages.Now
	log     stages.Log
	keys    Keys
	lease   *Lease
	backoff Backoff
	listen  Listener
	queue   stages.QueueInfo
	sink    string

	known map[string]uint64 // versions of the target rows as last seen, by key; guarded by the lease's turn

	// Without a lock: Adopt writes them while no pass runs, and in a pass it is Begin until it has emitted, then Finish, who may touch them. The
	// pipeline hands the job from one to the other, and Turns lets Begin go on only when Finish is done.
	pointer stages.Pointer // as last seen; K = 0 when there is none
	start   stages.Micros
	open    *stages.Intent // the intent that is open, if any
	doubt   *doubt         // the pointer that was sent last, while nobody knows whether it landed
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

// LedgerOptions describes a ledger.
type LedgerOptions struct {
	KV      stages.KV
	Log     stages.Log
	Now     stages.Now
	Sink    string
	Queue   stages.QueueInfo
	Keys    Keys
	Lease   *Lease
	Backoff Backoff
	Listen  Listener
}

// NewLedger returns the ledger of a queue; it knows nothing until Adopt.
func NewLedger(o LedgerOptions) *Ledger {
	return &Ledger{kv: o.KV, now: o.Now, log: o.Log, keys: o.Keys, lease: o.Lease, backoff: o.Backoff, listen: o.Listen,
		queue: o.Queue, sink: o.Sink, known: map[string]uint64{}}
}

// write puts value into the row of key behind the fence. landed is true when the row holds it, even if err says that the lease has gone
// since: for a pointer that is what counts.
func (g *Ledger) write(ctx context.Context, step, key string, value []byte) (landed bool, err error) {
	unclear := false
	for n := 0; ; n++ {
		landed, err = g.round(ctx, key, value, &unclear)
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
		if err := g.backoff.Wait(ctx, g.backoff.Delay(n)); err != nil {
			return false, err
		}
	}
}

// errOwn: the fence met a newer version that is our own. The ledger knows it now, so the next round need not wait.
var errOwn = errors.New("lost to our own newer version")

// round is one round. An error with a negative wait asks for another one.
func (g *Ledger) round(ctx context.Context, key string, value []byte, unclear *bool) (landed bool, err error) {
	if err := g.lease.lock(ctx); err != nil {
		return false, err
	}
	defer g.lease.unlock()
	if err := g.lease.Lost(); err != nil && !*unclear {
		return false, err
	}
	if *unclear {
		if landed, err := g.decide(ctx, key, value); landed || err != nil {
			return landed, err
		}
		*unclear = false
	}
	fence, err := g.lease.fence()
	if err != nil {
		return false, err
	}
	known := g.known[key]
	sent := g.now()
	results, lost, err := g.kv.Batch(ctx, []stages.Op{fence,
		{Kind: stages.OpPut, Key: key, Value: value, Forever: true, Expect: &known, Required: true}})
	switch {
	case errors.Is(err, stages.ErrUnclear):
		g.lease.sentUnclear(sent)
		*unclear = true
		landed, derr := g.decide(ctx, key, value)
		if !landed && derr == nil {
			*unclear = false
			return false, errAgain("write %s: %w", key, err)
		}
		return landed, derr
	case err != nil:
		return false, errAgain("write %s: %w", key, err)
	case lost != nil:
		landed, err = g.decide(ctx, key, value)
		if !landed && err == nil {
			return false, errAgain("write %s: %w", key, errOwn)
		}
		if !landed && g.lease.Lost() != nil {
			g.listen.PreconditionLost(g.queue.Name)
		}
		return landed, err
	case len(results) != 2 || !results[0].Applied || !results[1].Applied:
		*unclear = true
		return false, errAgain("write %s: %w", key, errShape)
	}
	g.lease.wrote(results[0].Row.Version, sent)
	g.known[key] = results[1].Row.Version
	return true, nil
}

// decide reads the rows and says what they mean for a write of value to key: landed, or nil and not landed (write again), or why not.
// The turn must be held.
func (g *Ledger) decide(ctx context.Context, key string, value []byte) (landed bool, err error) {
	r, err := readRows(ctx, g.kv, g.keys)
	if err != nil {
		return false, err
	}
	target := r.of(g.keys, key)
	landed = target.Version != g.known[key] && target.Version != 0 && sameJSON(target.Value, value)
	if landed {
		g.known[key] = target.Version
	}
	if !g.lease.found(r.lease) {
		return landed, g.lease.Lost()
	}
	if !landed && target.Version != g.known[key] {
		return false, errMoved("%s: written by another process", key)
	}
	return landed, nil
}

func (r rows) of(k Keys, key string) stages.Row {
	switch key {
	case k.Start:
		return r.start
	case k.Intent:
		return r.intent
	default:
		return r.committed
	}
}
