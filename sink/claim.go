package sink

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"queen/commit"
	"queen/source"
	"queen/stages"
	"queen/upload"
	"queen/window"
)

// maxKVKey is the longest key that the store takes, in bytes.
const maxKVKey = 512

// newQueue makes the row of a queue.
func (s *Sink) newQueue(name string) (*queue, error) {
	q := &queue{s: s, name: name, woken: true, status: status{state: stateClaiming, end: stages.Beginning, through: stages.Beginning,
		done: s.o.former.done[name], fault: s.o.former.faults[name]}}
	incarnation := make([]byte, 8)
	if _, err := io.ReadFull(s.o.Rand, incarnation); err != nil {
		return nil, fmt.Errorf("incarnation of queue %q: %w", name, err)
	}
	q.lease = commit.NewLease(s.store, q.keys(), hex.EncodeToString(incarnation))
	s.names.add(name)
	return q, nil
}

func (q *queue) keys() commit.Keys { return commit.NewKeys(q.s.cfg.Name, stages.Esc(q.name)) }

// client is the bucket as this queue uses it: permitted by its lease.
func (q *queue) client() *upload.Client { return q.s.client.Permitted(q.lease.Check) }

// prepare makes the queue ready for a pass: it exists, its keys fit, the lease is ours and the rows are read; fresh says that they were read
// now. It does nothing when all of that is so already.
func (q *queue) prepare(ctx context.Context) (a *adopted, fresh bool, err error) {
	q.mu.Lock()
	last := q.adopted
	if q.current() != nil && q.lease.Check() != nil {
		q.outdate() // it was lost while nobody looked
	}
	current := q.current()
	q.mu.Unlock()
	if current != nil {
		return current, false, nil
	}
	info, ok := q.s.o.Queues.Find(q.name)
	if !ok {
		return nil, false, q.vanish(ctx)
	}
	if err := q.checkKeys(); err != nil {
		return nil, false, err
	}
	if err := q.checkSeal(info); err != nil {
		return nil, false, err
	}
	if err := q.claim(ctx); err != nil {
		return nil, false, err
	}
	a, err = q.adopt(ctx, info, last)
	return a, true, err
}

// adopt reads the rows of a queue whose lease is held.
func (q *queue) adopt(ctx context.Context, info stages.QueueInfo, last *adopted) (*adopted, error) {
	q.s.raise(q, entered{stateRestoring})
	a := &adopted{q: q, info: info}
	if last != nil && last.info.ID == info.ID {
		a.ledger = last.ledger // it may be this adoption that finds what became of the last pointer
	} else {
		a.ledger = commit.NewLedger(q.lease, info, listener{q})
	}
	at, err := a.ledger.Adopt(ctx, q.s.cfg.Start == "latest")
	if err != nil {
		return nil, fmt.Errorf("adopt queue %q: %w", q.name, err)
	}
	a.moveTo(at)
	a.first = at.K == 0 && at.Redo == nil
	if a.cutter, err = window.New(q.s.rules(info.Partitions), a.at.At, a.at.K+1, a.at.Redo); err != nil {
		return nil, &commit.Error{Kind: commit.Fatal, Err: err}
	}
	q.s.raise(q, restored{at, at.K - at.K%uint64(max(1, q.s.cfg.CheckpointEvery))})
	q.noteName()
	a.feed = q.s.discovery.Watch(info.ID, a, q.wake)
	q.mu.Lock()
	q.adopted, q.partitions = a, info.Partitions
	q.mu.Unlock()
	return a, nil
}

var _ source.Filler = (*adopted)(nil)

// From, Fill and Open implement source.Filler: the row's window as discovery fills it.
func (a *adopted) From() stages.Micros { return a.cutter.From() }
func (a *adopted) Open() bool          { return a.cutter.Open() }
func (a *adopted) Fill(b stages.Batch) (due bool, err error) {
	a.reading(b)
	return a.cutter.Fill(b)
}

// reading notes the first record of a queue that starts at its beginning: up to there the lake is complete. It belongs to whoever fills the
// window, discovery or the pass.
func (a *adopted) reading(b stages.Batch) {
	if a.first && len(b.Marks) > 0 {
		a.q.s.raise(a.q, firstSeen{b.Marks[0].TS})
		a.first = false
	}
}

// moveTo notes where the last committed window ends. Of its manifest only that is kept which the next window has to know.
func (a *adopted) moveTo(at commit.Position) {
	cfg := a.q.s.cfg
	a.enters = at.K == 0 || at.Manifest != upload.ManifestKey(cfg.Prefix, cfg.Tenant, a.q.name, at.K)
	at.Manifest = ""
	a.at = at
}

// vanish gives back what is held of a queue that does not exist. Its rows stay: should it come back, k goes on.
func (q *queue) vanish(ctx context.Context) error {
	if q.lease.Held() {
		q.s.tryRelease(ctx, []*queue{q})
	}
	return &standstill{queueMissing{}, missingWait, errors.New("the queue does not exist")}
}

// checkKeys refuses names that no store would take (contract B9).
func (q *queue) checkKeys() error {
	if err := upload.CheckNames(q.s.cfg.Prefix, q.s.cfg.Tenant, q.name, q.s.cfg.Layout); err != nil {
		return refuse(err)
	}
	if n := q.keys().Longest(); n > maxKVKey {
		return refuse(fmt.Errorf("queue %q: its name is too long: its rows in KV would have keys of %d bytes, the store takes %d", q.name, n, maxKVKey))
	}
	return nil
}

// checkSeal refuses a queue whose payloads this node cannot open (contract B1): it would write envelopes where a node with the key writes what
// they hold. What is held of the queue is given back.
func (q *queue) checkSeal(info stages.QueueInfo) error {
	if info.Key == "" || info.Key == q.s.o.Key {
		return nil
	}
	return &commit.Error{Kind: commit.Fatal, Err: fmt.Errorf("the payloads of queue %q are sealed with the encryption key %s and %s: "+
		"start this node with that QUEEN_ENCRYPTION_KEY", q.name, info.Key, q.s.ownKey())}
}

// ownKey says in words which key this node has.
func (s *Sink) ownKey() string {
	if s.o.Key == "" {
		return "this node has none"
	}
	return "this node has another, " + s.o.Key
}

// checkFresh refuses to count where an earlier life of this queue has counted already: windows would be written over, and what they held would
// be in the lake twice or in no manifest. It asks at the start of a pass, so that a refusal shows soon, also when the window is to be redone,
// since its intent may be older than the first look that had an answer.
func (q *queue) checkFresh(ctx context.Context, a *adopted) error {
	q.mu.Lock()
	at, enters := a.at, a.enters
	q.mu.Unlock()
	if !enters {
		return nil
	}
	return q.checkPlace(ctx, at.K, at.Redo)
}

// checkBegin asks once more right before the intent is written: the pass may have waited for long, for its records or for memory. It returns
// what the queue is by now. Whatever lies in the window was applied here before its end was found, so if any of it is sealed the queue has its
// key by now.
func (q *queue) checkBegin(ctx context.Context, w stages.Window) (stages.QueueInfo, error) {
	q.mu.Lock()
	at, enters, info := q.adopted.at, q.adopted.enters, q.adopted.info
	q.mu.Unlock()
	if now, ok := q.s.o.Queues.Find(q.name); ok && now.ID == info.ID { // else the listing will say so
		info = now
	}
	if err := q.checkSeal(info); err != nil {
		return info, err
	}
	if w.K != at.K+1 || !enters {
		return info, nil
	}
	return info, q.checkPlace(ctx, at.K, nil)
}

// checkPlace looks at the place of the manifest behind window k; redo is the intent of that window when it is open.
func (q *queue) checkPlace(ctx context.Context, k uint64, redo *stages.Intent) error {
	cfg := q.s.cfg
	prefix := cfg.Prefix
	if redo != nil {
		prefix = redo.Prefix
	}
	id := upload.Identity{Sink: cfg.Name, Tenant: cfg.Tenant, Queue: q.name}
	key, other, err := q.client().OtherLife(ctx, id, prefix, k+1, redo)
	if err != nil || !other {
		return err
	}
	how := "its rows in KV are gone"
	if k > 0 {
		how = fmt.Sprintf("its last window here, %d, went to another prefix", k)
	}
	return refuse(fmt.Errorf("the bucket holds windows of an earlier life of queue %q (%s) and %s: "+
		"use another QUEEN_S3_PREFIX, or move the old objects away", q.name, key, how))
}

// claim acquires the lease unless it is held. What was held here and nobody is known to have taken is claimed at once; anything else when
// placement says so. An own row of an earlier incarnation is taken back at the first look of a process only.
func (q *queue) claim(ctx context.Context) error {
	if q.lease.Held() && q.lease.Check() == nil {
		return nil
	}
	if err := q.turn(); err != nil {
		return err
	}
	q.s.raise(q, entered{stateClaiming})
	if err := q.s.claims.take(ctx); err != nil {
		return err
	}
	defer q.s.claims.give()
	q.mu.Lock()
	owned, atStart := q.owned, !q.looked && q.s.age() <= commit.WholeTTL(q.s.cfg.LeaseTTL)
	q.mu.Unlock()
	c, err := q.lease.Acquire(ctx, atStart)
	if err != nil {
		return fmt.Errorf("claim queue %q: %w", q.name, err)
	}
	q.mu.Lock()
	q.looked, q.owned, q.called = true, c.Held, false
	q.mu.Unlock()
	switch {
	case !c.Held && c.Twin:
		return &commit.Error{Kind: commit.Fenced, Holder: c.Holder, Twin: true, Err: fmt.Errorf("lease of queue %q: held by %s", q.name, c.Holder)}
	case !c.Held && owned:
		return &commit.Error{Kind: commit.Fenced, Holder: c.Holder, Err: fmt.Errorf("lease of queue %q: held by %s", q.name, c.Holder)}
	case !c.Held:
		q.s.outrun(q.name, c.Holder)
		return &standstill{heldElsewhere{c.Holder}, never, fmt.Errorf("held by %s", c.Holder)}
	}
	q.s.unwant(q.name)
	q.s.raise(q, claimed{})
	return nil
}

// turn is nil when the queue may be claimed now. Else it says why not: another node has taken it from this one, and people have not been told; or
// placement has not called it, which it does later.
func (q *queue) turn() error {
	q.mu.Lock()
	owned, called := q.owned, q.called
	q.mu.Unlock()
	if owned {
		if err := q.lease.Lost(); commit.KindOf(err) == commit.Fenced {
			return err
		}
		return nil
	}
	if called {
		return nil
	}
	q.s.want(q.name)
	return &standstill{parked{}, never, errors.New("not claimed here yet")}
}

// call starts the claim of a queue: placement says that it is this node's turn.
func (q *queue) call() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.called = true
	q.start()
}

// show tells people who holds a queue that waits to be claimed here; "" is nobody. It is false when the row does something else at the moment.
func (q *queue) show(holder string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.activity != sleeping || q.timer != nil || q.owned {
		return false
	}
	if holder != "" {
		q.s.raise(q, heldElsewhere{holder})
	} else if q.status.now() != stateReleased { // until another node has it, or this one claims it
		q.s.raise(q, entered{stateClaiming})
	}
	return true
}

// list keeps the rows in step with the queues that there are: under `*`, new ones get a row and deleted ones lose theirs; a named one that
// was deleted, or made anew under its name, ends its pass.
func (s *Sink) list(ctx context.Context) {
	period := max(time.Second, 10*s.cfg.DiscoveryInterval)
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		s.listOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Sink) listOnce(ctx context.Context) {
	if s.cfg.All {
		var fresh []*queue // rows that stay are made together, and not among what a claim leaves to the collector
		for _, info := range s.o.Queues.List() {
			q, err := s.add(info.Name)
			if err != nil {
				s.raise(nil, waiting{"list", err})
			}
			if q != nil {
				fresh = append(fresh, q)
			}
		}
		for _, q := range fresh {
			s.begin(ctx, q)
		}
	}
	for _, q := range s.all() {
		info, ok := s.o.Queues.Find(q.name)
		q.compare(info, ok)
		if !ok && s.cfg.All && q.forget() {
			s.remove(q)
		}
	}
}

// compare ends what runs for a queue that is gone, or is another one now.
func (q *queue) compare(info stages.QueueInfo, exists bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.current()
	if exists {
		q.partitions = info.Partitions
	}
	if a == nil || exists && info.ID == a.info.ID {
		return
	}
	q.outdate()
	if q.pass != nil {
		q.pass.drain()
		return
	}
	q.start()
}

// forget ends the row of a queue of which nothing is held or runs here. It is false when something is.
func (q *queue) forget() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.activity == live || q.activity == inLine || q.current() != nil || q.lease.Held() {
		return false
	}
	q.activity = forgotten
	q.stopTimer()
	q.s.unwant(q.name)
	return true
}
