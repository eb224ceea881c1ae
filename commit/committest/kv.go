// Package committest is a key-value store in memory that answers batches as the broker does: one batch is atomic, versions are unique
// over the store and rise, a lost required operation rolls all back, rows run out on a clock that the test sets. Faults are scripted per
// batch. It is not a broker: it has no log and no tenants. See package commit for what is tested with it.
package committest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"queen/stages"
)

// Fault is what goes wrong with one batch.
type Fault uint8

// The faults.
const (
	None             Fault = iota
	UnclearApplied         // it happens, the answer is lost
	UnclearUnapplied       // it does not happen, the answer is lost
	NotLeader              // it does not happen and the answer says so
	Late                   // the answer is lost, and it happens only when the test calls KV.Land
)

// ErrNoLeader is the answer of NotLeader.
var ErrNoLeader = errors.New("no leader")

type row struct {
	value   []byte
	version uint64
	expires time.Time // zero = never
}

// KV implements stages.KV.
type KV struct {
	Now stages.Now // the clock of TTLs

	mu      sync.Mutex
	rows    map[string]row
	version uint64
	fault   func(ops []stages.Op) Fault
	trace   func(line string)
	late    [][]stages.Op
}

var (
	_ stages.KV      = (*KV)(nil)
	_ stages.Applied = (*KV)(nil)
)

// New returns an empty store.
func New(now stages.Now) *KV {
	return &KV{Now: now, rows: map[string]row{}, version: 100}
}

// Script sets what decides the fault of each batch, nil = none.
func (k *KV) Script(f func(ops []stages.Op) Fault) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault = f
}

// Trace sets what is shown each batch and its answer, as text.
func (k *KV) Trace(f func(line string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trace = f
}

// Batch implements stages.KV.
func (k *KV) Batch(ctx context.Context, ops []stages.Op) ([]stages.Result, *stages.Lost, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	fault := None
	if k.fault != nil {
		fault = k.fault(ops)
	}
	var results []stages.Result
	var lost *stages.Lost
	var err error
	switch fault {
	case NotLeader:
		err = ErrNoLeader
	case UnclearUnapplied:
		err = fmt.Errorf("kv: %w", stages.ErrUnclear)
	case Late:
		k.late = append(k.late, ops)
		err = fmt.Errorf("kv: %w", stages.ErrUnclear)
	default:
		results, lost = k.apply(ops)
		if fault == UnclearApplied {
			results, lost, err = nil, nil, fmt.Errorf("kv: %w", stages.ErrUnclear)
		}
	}
	if k.trace != nil {
		k.trace(render(ops, results, lost, err))
	}
	return results, lost, err
}

// Land lets the batches of fault Late happen, in their order.
func (k *KV) Land() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, ops := range k.late {
		results, lost := k.apply(ops)
		if k.trace != nil {
			k.trace("late " + render(ops, results, lost, nil))
		}
	}
	k.late = nil
}

// Get returns a live row, with version 0 when there is none.
func (k *KV) Get(key string) stages.Row {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.get(key)
}

// Put writes a row from outside, as another process would; ttl 0 = for ever.
func (k *KV) Put(key, value string, ttl time.Duration) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.put(stages.Op{Key: key, Value: []byte(value), TTL: ttl, Forever: ttl == 0}).Version
}

// Delete removes a row from outside.
func (k *KV) Delete(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.rows, key)
}

// Keys returns the keys of all live rows in byte order.
func (k *KV) Keys() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var live []string
	for _, key := range slices.Sorted(maps.Keys(k.rows)) {
		if k.get(key).Version != 0 {
			live = append(live, key)
		}
	}
	return live
}

// Rows implements stages.Applied, for a node that has applied everything.
func (k *KV) Rows(ctx context.Context, keys []string) (rows []stages.LiveRow, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range keys {
		if row := k.get(key); row.Version != 0 {
			rows = append(rows, k.live(row))
		}
	}
	return rows, ctx.Err()
}

// Prefix implements stages.Applied.
func (k *KV) Prefix(ctx context.Context, prefix string) (rows []stages.LiveRow, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.rows {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if row := k.get(key); row.Version != 0 {
			rows = append(rows, k.live(row))
		}
	}
	slices.SortFunc(rows, func(a, b stages.LiveRow) int { return strings.Compare(a.Key, b.Key) })
	return rows, ctx.Err()
}

func (k *KV) live(row stages.Row) stages.LiveRow {
	expires := k.rows[row.Key].expires
	if expires.IsZero() {
		return stages.LiveRow{Row: row, Left: -1}
	}
	return stages.LiveRow{Row: row, Left: expires.Sub(k.Now())}
}

func (k *KV) get(key string) stages.Row {
	r, ok := k.rows[key]
	if !ok || !r.expires.IsZero() && !r.expires.After(k.Now()) {
		return stages.Row{Key: key}
	}
	return stages.Row{Key: key, Value: bytes.Clone(r.value), Version: r.version}
}

func (k *KV) put(op stages.Op) stages.Row {
	k.version += 7 // opaque: nobody may count on +1
	r := row{value: bytes.Clone(op.Value), version: k.version}
	if !op.Forever {
		r.expires = k.Now().Add(op.TTL)
	}
	k.rows[op.Key] = r
	return k.get(op.Key)
}

// apply runs a batch: single-key operations in the order of their keys, then the multi-key reads, which see the writes.
func (k *KV) apply(ops []stages.Op) ([]stages.Result, *stages.Lost) {
	check(ops)
	order := make([]int, len(ops))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(ops[a].Key, ops[b].Key) })
	undo, beforeVersion := map[string]row{}, k.version
	for _, op := range ops {
		undo[op.Key] = k.rows[op.Key]
	}
	results := make([]stages.Result, len(ops))
	for _, i := range order {
		results[i] = k.single(ops[i])
		if ops[i].Required && !results[i].Applied {
			k.restore(undo)
			k.version = beforeVersion
			r := results[i]
			return nil, &stages.Lost{Index: i, Reason: r.Reason, Version: r.Row.Version, Value: r.Row.Value}
		}
	}
	for i, op := range ops {
		k.multi(op, &results[i])
	}
	return results, nil
}

// restore puts rows back; a row of version 0 was not there.
func (k *KV) restore(undo map[string]row) {
	for key, r := range undo {
		if r.version == 0 {
			delete(k.rows, key)
		} else {
			k.rows[key] = r
		}
	}
}

func (k *KV) single(op stages.Op) (r stages.Result) {
	now := k.get(op.Key)
	expect := op.Expect
	switch op.Kind {
	case stages.OpGet:
		return stages.Result{Row: now, Found: now.Version != 0}
	case stages.OpPutIfAbsent:
		expect = new(uint64)
	case stages.OpPut, stages.OpDelete:
	default:
		return r
	}
	if expect != nil && *expect != now.Version {
		reason := "version"
		if *expect == 0 {
			reason = "exists"
		} else if now.Version == 0 {
			reason = "absent"
		}
		return stages.Result{Reason: reason, Row: now}
	}
	if op.Kind == stages.OpDelete {
		delete(k.rows, op.Key)
		return stages.Result{Applied: true, Row: now}
	}
	return stages.Result{Applied: true, Row: k.put(op)}
}

func (k *KV) multi(op stages.Op, r *stages.Result) {
	switch op.Kind {
	case stages.OpGetMany:
		keys := slices.Clone(op.Keys)
		slices.Sort(keys)
		for _, key := range keys {
			if row := k.get(key); row.Version != 0 {
				r.Rows = append(r.Rows, row)
			}
		}
	case stages.OpGetPrefix:
		for _, key := range slices.Sorted(maps.Keys(k.rows)) {
			if row := k.get(key); strings.HasPrefix(key, op.Key) && key > op.After && row.Version != 0 {
				if r.More = len(r.Rows) == op.Limit; r.More {
					return
				}
				r.Rows = append(r.Rows, row)
			}
		}
	}
}

// check panics on what the broker would refuse as a bad request: such a batch is a fault of the code under test.
func check(ops []stages.Op) {
	written := map[string]bool{}
	for _, op := range ops {
		put := op.Kind == stages.OpPut || op.Kind == stages.OpPutIfAbsent
		if put || op.Kind == stages.OpDelete {
			if written[op.Key] {
				panic("two writes of " + op.Key + " in one batch")
			}
			written[op.Key] = true
		}
		if put && op.Forever == (op.TTL != 0) || put && op.TTL%time.Second != 0 {
			panic(fmt.Sprintf("put %s: exactly one of whole seconds and for ever, have %v and %v", op.Key, op.TTL, op.Forever))
		}
	}
	if len(ops) > 256 {
		panic("more than 256 operations")
	}
}
