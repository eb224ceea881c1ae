package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"queen/stages"
)

// Lease is this process's handle on the lease row of one queue (contract S3, S4).
//
// Invariants:
//
//   - One write at a time: whoever writes the row holds the turn from building the batch to absorbing its answer, so a refresh
//     and a fenced batch never fence each other.
//   - version is the version of the row as this handle last wrote or found it; versions are opaque and never computed.
//   - deadline is the moment just before the last successful write was sent, plus the TTL, on this process's monotonic clock.
//     The row cannot run out before it, because the store starts counting later than we do.
//   - Once lost is set the handle writes nothing until Acquire succeeds again.
//
// The row itself decides who owns the queue; the handle only remembers what it was told.
type Lease struct {
	store       *Store
	keys        Keys
	incarnation string // 16 hex digits, new for each handle
	turn        chan struct{}

	mu       sync.Mutex
	version  uint64
	sinceMs  int64
	held     bool
	lost     error
	deadline time.Time
	unclear  time.Time // when the earliest write without a clear answer was sent; zero = none
	claimed  bool      // a claim was sent since the row was given back: it may be ours, whatever was answered
}

// Store is where the rows of a sink are, and who writes them: what all its leases and ledgers share.
type Store struct {
	KV       stages.KV
	Log      stages.Log // leases do without
	Now      stages.Now
	Sink     string
	Instance string        // name of this node; survives a restart
	TTL      time.Duration // of a lease; whole seconds are counted, at least one
	Backoff  Backoff       // of writes that are tried again
	Wait     stages.Micros // how long retention of every kind waits for this sink past a record's deadline (contract S10)
}

// NewLease returns a handle that holds nothing yet. incarnation is 16 hex digits, new for each handle.
func NewLease(store *Store, keys Keys, incarnation string) *Lease {
	return &Lease{store: store, keys: keys, incarnation: incarnation, turn: make(chan struct{}, 1)}
}

func (l *Lease) key() string { return l.keys.Lease() }

func (l *Lease) ttl() time.Duration { return WholeTTL(l.store.TTL) }

// WholeTTL is the time to live that the store is given for a configured one.
func WholeTTL(d time.Duration) time.Duration {
	return max(time.Second, d.Truncate(time.Second))
}

// Claim is the answer to Acquire.
type Claim struct {
	Held   bool   // the queue is ours
	Holder string // else: whose it is
	Twin   bool   // the holder carries our own name in another incarnation
}

// Acquire looks at the row and takes it when it is free or ours. With atStart, the row of an earlier incarnation of this node's name is
// taken back at once; without, it is somebody else's (two processes under one name would take it from each other for ever).
func (l *Lease) Acquire(ctx context.Context, atStart bool) (Claim, error) {
	if err := l.lock(ctx); err != nil {
		return Claim{}, err
	}
	defer l.unlock()
	// An unclear claim is settled by looking again; a lost race too. Three looks are plenty: each one says more.
	var err error
	for range 3 {
		var c Claim
		if c, err = l.look(ctx, atStart); err == nil || !errors.Is(err, stages.ErrUnclear) {
			return c, err
		}
	}
	return Claim{}, err
}

func (l *Lease) look(ctx context.Context, atStart bool) (Claim, error) {
	results, lost, err := l.store.KV.Batch(ctx, []stages.Op{{Kind: stages.OpGet, Key: l.key()}})
	if err != nil || lost != nil || len(results) != 1 {
		return Claim{}, errAgain("look at lease %s: %w", l.key(), cause(err))
	}
	op := stages.Op{Kind: stages.OpPutIfAbsent, Key: l.key(), TTL: l.ttl()}
	since := l.store.Now().UnixMilli()
	if results[0].Found {
		row := results[0].Row
		doc := parseLease(row.Value)
		twin := doc.Instance == l.store.Instance && doc.Incarnation != l.incarnation
		if doc.Instance != l.store.Instance || twin && !atStart {
			l.found(row) // whatever the handle believed: it is not ours
			return Claim{Holder: doc.Instance, Twin: twin}, nil
		}
		if !twin {
			since = doc.SinceMs
		}
		op.Kind, op.Expect = stages.OpPut, &row.Version
	}
	if op.Value, err = l.document(since); err != nil {
		return Claim{}, err
	}
	l.mu.Lock()
	l.claimed = true
	l.mu.Unlock()
	sent := l.store.Now()
	results, lost, err = l.store.KV.Batch(ctx, []stages.Op{op})
	switch {
	case errors.Is(err, stages.ErrUnclear):
		return Claim{}, fmt.Errorf("claim lease %s: %w", l.key(), err)
	case err != nil || lost != nil || len(results) != 1:
		return Claim{}, errAgain("claim lease %s: %w", l.key(), cause(err))
	case !results[0].Applied:
		doc := parseLease(results[0].Row.Value)
		if results[0].Row.Version == 0 || doc.Incarnation == l.incarnation {
			return Claim{}, fmt.Errorf("claim lease %s: %w", l.key(), stages.ErrUnclear) // it ran out, or our own late write won: look again
		}
		return Claim{Holder: doc.Instance, Twin: doc.Instance == l.store.Instance}, nil // losing the race is an answer, not an error
	}
	l.mu.Lock()
	l.sinceMs, l.held, l.lost = since, true, nil
	l.mu.Unlock()
	l.wrote(results[0].Row.Version, sent)
	return Claim{Held: true}, nil
}

// Check returns nil while this process may send requests for the queue: it holds the lease and its own deadline has not passed. The client of
// the bucket asks it before each attempt of a request; batches of KV have the fence.
func (l *Lease) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost != nil:
		return l.lost
	case !l.held:
		return errMoved("lease %s: not held", l.key())
	case !l.store.Now().Before(l.deadline):
		return errMoved("lease %s: not refreshed for its time to live", l.key())
	}
	return nil
}

// Held reports whether the handle believes that it holds the row, whatever the deadline says.
func (l *Lease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held && l.lost == nil
}

// Deadline is when Check begins to fail unless the row is written again before.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Lost returns why the lease was lost, nil while it was not.
func (l *Lease) Lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// fence is operation 0 of every batch: the lease row, rewritten at the version this handle knows. The turn must be held.
func (l *Lease) fence() (stages.Op, error) {
	l.mu.Lock()
	version, since := l.version, l.sinceMs
	l.mu.Unlock()
	value, err := l.document(since)
	return stages.Op{Kind: stages.OpPut, Key: l.key(), Value: value, TTL: l.ttl(), Expect: &version, Required: true}, err
}

func (l *Lease) document(since int64) ([]byte, error) {
	return stages.MarshalRow(leaseDoc{Instance: l.store.Instance, Incarnation: l.incarnation, SinceMs: since})
}

func (l *Lease) lock(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lease) tryLock() bool {
	select {
	case l.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l *Lease) unlock() { <-l.turn }

// wrote absorbs a write that succeeded.
func (l *Lease) wrote(version uint64, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version, l.unclear = version, time.Time{}
	if d := sent.Add(l.ttl()); d.After(l.deadline) {
		l.deadline = d
	}
}

// sentUnclear remembers a write whose outcome is unknown.
func (l *Lease) sentUnclear(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unclear.IsZero() {
		l.unclear = sent
	}
}

// found absorbs the row as a read, or a lost write, shows it: ours (true), or not ours any more (the handle is lost).
func (l *Lease) found(row stages.Row) bool {
	doc := parseLease(row.Value)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case row.Version == 0:
		// Ran out and nobody took it. Another owner may have come, committed and gone in between.
		l.lost = errMoved("lease %s: ran out", l.key())
	case doc.Instance != l.store.Instance || doc.Incarnation != l.incarnation:
		l.lost = errFenced(l.key(), doc, doc.Instance == l.store.Instance)
	default:
		if l.version != row.Version && !l.unclear.IsZero() {
			// One of our unclear writes had landed. Whichever it was, it was not sent before the earliest of them.
			if d := l.unclear.Add(l.ttl()); d.After(l.deadline) {
				l.deadline = d
			}
			l.unclear = time.Time{}
		}
		l.version = row.Version
		return true
	}
	l.held = false
	return false
}
