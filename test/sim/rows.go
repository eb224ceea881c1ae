package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"queen/stages"
)

// rows is the KV of one node's sink. Now and then a batch is held up before it is sent, for longer than a lease lives, as if its process stood
// still; or the batch is lost, or its answer is. What was made goes on record.
type rows struct {
	stages.KV
	l *life
}

func (r rows) Batch(ctx context.Context, ops []stages.Op) ([]stages.Result, *stages.Lost, error) {
	w := r.l.m.w
	odds := w.pick(120)
	if odds < 3 {
		w.count("KV batch lost")
		return nil, nil, fmt.Errorf("the batch was lost: %w", stages.ErrUnclear)
	}
	if odds < 5 {
		w.count("KV batch held up")
		if err := wait(ctx, time.After(w.between(0, 9*time.Second))); err != nil {
			return nil, nil, err
		}
	}
	if err := wait(ctx, r.l.stalled()); err != nil {
		return nil, nil, err
	}
	results, lost, err := r.KV.Batch(ctx, ops)
	if err == nil && lost == nil {
		w.owners.note(w, r.l.m.id, ops, results)
	}
	if err == nil && odds < 8 && odds >= 5 {
		w.count("KV answer lost")
		return nil, nil, fmt.Errorf("the answer was lost: %w", stages.ErrUnclear)
	}
	return results, lost, err
}

func wait[T any](ctx context.Context, over <-chan T) error {
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stall keeps the sink's batches from being sent for a while; they are sent then, whatever has become of their leases.
func (l *life) stall(during time.Duration) {
	over := make(chan struct{})
	l.mu.Lock()
	l.still = over
	l.mu.Unlock()
	time.Sleep(during)
	close(over)
	l.m.w.count("sink stood still")
}

// stalled is closed while the sink goes on.
func (l *life) stalled() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.still == nil {
		l.still = make(chan struct{})
		close(l.still)
	}
	return l.still
}

// owners is who wrote the lease row of each queue, and what was moved with it. Versions are given by the log, so they say what came after what,
// whoever heard of it when.
//
// A batch that moves a row of a queue rewrites the lease row too, and a refresh rewrites nothing else. If the lease row was not this owner's own right before, the queue was another's by then: nothing
// may move it but the other (contract S4). Writes whose answers never came are missing here. They are no excuse: who owns a queue had an answer to its
// claim.
type owners struct {
	mu     sync.Mutex
	writes map[string][]leaseWrite // by lease key
}

// leaseWrite is one write of a lease row.
type leaseWrite struct {
	version uint64
	owner   string // node and incarnation
	moved   string // key of the row that the same batch wrote, or of the lease that it refreshed; "" = it may be a claim
}

// note puts what a batch wrote on record.
func (o *owners) note(w *world, id int, ops []stages.Op, results []stages.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, op := range ops {
		if op.Kind != stages.OpPut && op.Kind != stages.OpPutIfAbsent || !results[i].Applied {
			continue
		}
		base, name := op.Key[:strings.LastIndex(op.Key, ":")+1], op.Key[strings.LastIndex(op.Key, ":")+1:]
		switch name {
		case "lease":
			var doc struct{ Instance, Incarnation string }
			if err := json.Unmarshal(op.Value, &doc); err != nil {
				w.fail("node %d wrote %s: %v", id, op.Key, err)
			}
			one := leaseWrite{version: results[i].Row.Version, owner: doc.Instance + "/" + doc.Incarnation}
			if len(ops) > 1 { // a claim is alone; this is a refresh, or moves a row of the queue
				one.moved = op.Key
			}
			if len(ops) == 2 && i == 0 && strings.HasPrefix(ops[1].Key, base) {
				one.moved = ops[1].Key
			}
			o.writes[op.Key] = append(o.writes[op.Key], one)
		case "start", "intent", "committed":
			if i != 1 || ops[0].Key != base+"lease" || !results[0].Applied {
				w.fail("node %d moved %s in a batch that does not write the lease", id, op.Key)
			}
		}
	}
}

// check says which rows were moved by somebody who did not own their queue.
func (o *owners) check(w *world) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, writes := range o.writes {
		slices.SortFunc(writes, func(a, b leaseWrite) int { return cmp.Compare(a.version, b.version) })
		for i, one := range writes {
			switch {
			case one.moved == "":
			case i == 0:
				w.fail("%s was moved by %s, who never claimed it", one.moved, one.owner)
			case writes[i-1].owner != one.owner:
				w.fail("%s was moved by %s, and the queue was %s's", one.moved, one.owner, writes[i-1].owner)
			}
		}
	}
}
