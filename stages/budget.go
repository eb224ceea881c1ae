package stages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
)

// Budget is the one number of bytes that the sinks of a node may hold together (contract B3).
//
// Who needs memory takes all of it in one request and asks for no more while it holds it, so no two can wait for each other. Requests are
// granted to the owner (a sink, with its bucket) whose last grant is the oldest, and in order within one: an owner whose requests pile up,
// because its bucket does not answer, delays another by one grant at most.
//
// Invariants:
//
//  1. Used is the sum of what was granted and not given back. It is at most Limit.
//  2. A request larger than Limit is one of Limit: it is granted when nothing else is held, so whoever asks gets its turn.
//  3. The request whose turn it is waits for room and no other passes it, so that large ones do not starve.
type Budget struct {
	limit int64
	held  func(bytes int64)

	mu      sync.Mutex
	used    int64
	owners  []any // that wait, in the order in which they came
	waiting map[any][]*request
	served  map[any]uint64 // number of the owner's last grant
	grants  uint64
}

type request struct {
	bytes   int64
	granted chan struct{} // closed when it is
}

// NewBudget returns a budget of that many bytes, at least 1. held is told the sum each time it changes, in order and under the budget's lock; it
// may be nil.
func NewBudget(limit int64, held func(bytes int64)) *Budget {
	if held == nil {
		held = func(int64) {}
	}
	return &Budget{limit: max(1, limit), held: held, waiting: map[any][]*request{}, served: map[any]uint64{}}
}

// Limit is the number of bytes that may be held.
func (b *Budget) Limit() int64 { return b.limit }

// Used is the number of bytes that are held.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Waiting says that somebody waits for memory.
func (b *Budget) Waiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.owners) > 0
}

// Take waits until it is the owner's turn and there is room, and returns the bytes that it charged, which Give takes back. It fails only
// with the cause of ctx, and then holds nothing.
func (b *Budget) Take(ctx context.Context, owner any, bytes int64) (charged int64, err error) {
	if bytes < 0 {
		return 0, fmt.Errorf("budget: %d bytes are asked for", bytes)
	}
	r := &request{bytes: min(bytes, b.limit), granted: make(chan struct{})}
	b.mu.Lock()
	if _, queued := b.waiting[owner]; !queued {
		b.owners = append(b.owners, owner)
	}
	b.waiting[owner] = append(b.waiting[owner], r)
	b.grant()
	b.mu.Unlock()
	select {
	case <-r.granted:
		return r.bytes, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-r.granted:
		b.charge(-r.bytes)
	default:
		b.withdraw(owner, r)
	}
	b.grant()
	return 0, context.Cause(ctx)
}

// Give gives bytes back that Take charged.
func (b *Budget) Give(charged int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.charge(-charged)
	b.grant()
}

// charge changes what is held. The lock is held.
func (b *Budget) charge(bytes int64) {
	if b.used += bytes; b.used < 0 {
		panic(fmt.Sprintf("budget: %d bytes more were given back than taken", -b.used))
	}
	b.held(b.used)
}

// grant serves the turns for which there is room. The lock is held.
func (b *Budget) grant() {
	for len(b.owners) > 0 {
		owner := b.turn()
		r := b.waiting[owner][0]
		if b.used+r.bytes > b.limit {
			return
		}
		b.charge(r.bytes)
		b.grants++
		b.served[owner] = b.grants
		close(r.granted)
		b.withdraw(owner, r)
	}
	if b.used == 0 {
		clear(b.served) // nobody waits: there are no turns to remember, nor owners that may be gone
	}
}

// turn is the waiting owner whose last grant is the oldest. The lock is held.
func (b *Budget) turn() any {
	return slices.MinFunc(b.owners, func(x, y any) int { return cmp.Compare(b.served[x], b.served[y]) })
}

// withdraw removes a request from its owner's line, and the owner with the last of them. The lock is held.
func (b *Budget) withdraw(owner any, r *request) {
	rest := slices.DeleteFunc(b.waiting[owner], func(x *request) bool { return x == r })
	if len(rest) > 0 {
		b.waiting[owner] = rest
		return
	}
	delete(b.waiting, owner)
	b.owners = slices.DeleteFunc(b.owners, func(x any) bool { return x == owner })
}
