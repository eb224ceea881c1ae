package kv

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"queen/stages"
)

// MaxRead is how many bytes of keys and values the multi-key reads of one batch return together; what is above is left out
// and Truncated says so. The first row always comes.
const MaxRead = 4 << 20

// Tx is what Apply needs of the state: ordered rows of bytes, in which reads see earlier writes, and the version counter.
type Tx interface {
	// Get returns a row, nil when there is none. The caller may keep it and does not change it.
	Get(key []byte) ([]byte, error)
	Set(key, value []byte) error
	Delete(key []byte) error
	// Scan calls fn for each row with lower <= key < upper, in byte order, until fn returns false. fn copies what it keeps, and
	// changes nothing while it is called.
	Scan(lower, upper []byte, fn func(key, value []byte) bool) error
	// NextVersion is the version that the next write gets. Versions are never reused.
	NextVersion() uint64
	SetNextVersion(version uint64)
}

// batch is one run of Apply.
//
// Invariants: nothing is written before every single-key operation was decided, so a lost required operation leaves no trace,
// not even a used version; staged holds at most one write per key; versions are given in the order of evaluation.
//
// Outline:
//  1. single-key operations by (namespace, key, place in the batch): read the document, through what is staged, decide,
//     stage the write; a required operation that loses ends the run;
//  2. staged writes go to the Tx, the version counter moves;
//  3. getMany and getPrefix in batch order, so they see all writes.
type batch struct {
	tx       Tx
	tenant   [16]byte
	now, led stages.Micros
	results  []Result
	next     uint64             // version of the next write
	order    []string           // keys of staged, in order of evaluation
	staged   map[string]*change // decided writes by document key
	budget   int                // bytes that multi-key reads may still return
}

// change is a decided write: the document that is in the rows, live or expired, and the one that takes its place; nil = none.
type change struct{ old, next *document }

// Apply runs a batch of operations of one tenant at the given times of the log clock and the led clock. An error is a fault
// of the store or of a stored row, never of an operation.
func Apply(tx Tx, tenant [16]byte, now, led stages.Micros, ops []Op) (Outcome, error) {
	b := &batch{
		tx: tx, tenant: tenant, now: now, led: led, budget: MaxRead,
		results: make([]Result, len(ops)), next: tx.NextVersion(), staged: make(map[string]*change),
	}
	for _, i := range evaluationOrder(ops) {
		lost, err := b.single(i, &ops[i])
		if err != nil {
			return Outcome{}, fmt.Errorf("operation %d: %w", i, err)
		}
		if lost {
			r := b.results[i]
			return Outcome{Lost: &Lost{FailedIndex: i, Reason: r.Reason, Version: r.Version, Value: r.Value}}, nil
		}
	}
	if err := b.write(); err != nil {
		return Outcome{}, err
	}
	for i := range ops {
		if !ops[i].Kind.Multi() {
			continue
		}
		if err := b.multi(i, &ops[i]); err != nil {
			return Outcome{}, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return Outcome{Results: b.results}, nil
}

// evaluationOrder returns the places of the single-key operations by (namespace, key, place).
func evaluationOrder(ops []Op) []int {
	var order []int
	for i := range ops {
		if !ops[i].Kind.Multi() {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(ops[i].NS, ops[j].NS), cmp.Compare(ops[i].Key, ops[j].Key))
	})
	return order
}

// single decides one single-key operation. lost is true when it is required and was not applied.
func (b *batch) single(i int, op *Op) (lost bool, err error) {
	key := string(documentKey(b.tenant, op.NS, op.Key))
	stored, err := b.stored(key)
	if err != nil {
		return false, err
	}
	live := stored
	if live != nil && !live.live(b.led) {
		live = nil
	}
	r := &b.results[i]
	r.Kind, r.Key = op.Kind, op.Key
	if op.Kind == Get {
		if live != nil {
			r.Found, r.Row = true, live.shown(op.Key, b.now, b.led)
		}
		return false, nil
	}
	if live != nil {
		r.Value, r.Version = live.text, live.version
	}
	next, reason := b.decide(op, live)
	if reason != "" {
		r.Reason = reason
		return op.Required, nil
	}
	r.Applied = true
	switch {
	case op.Kind == Check:
	case op.Kind == Delete:
		if live != nil {
			b.stage(key, stored, nil)
		}
	default:
		next.version, next.updated = b.next, b.now
		b.next++
		b.stage(key, stored, &next)
		r.Value, r.Version = next.text, next.version
	}
	return false, nil
}

// decide returns the document that the operation leaves behind (its version and time are set later), or why it loses.
func (b *batch) decide(op *Op, live *document) (next document, reason string) {
	if reason := precondition(op, live); reason != "" {
		return document{}, reason
	}
	switch op.Kind {
	case Put, PutIfAbsent:
		return document{expires: b.expiry(op), text: op.Value}, ""
	case Incr:
		return b.incr(op, live)
	}
	return document{}, ""
}

// precondition returns why an operation may not act on what is live, "" when it may.
func precondition(op *Op, live *document) string {
	expect := op.Expect
	if op.Kind == PutIfAbsent {
		expect = new(uint64)
	}
	switch {
	case expect == nil && op.Kind == Delete && live == nil:
		return ReasonAbsent
	case expect == nil:
		return ""
	case *expect == 0 && live != nil:
		return ReasonExists
	case *expect == 0:
		return ""
	case live == nil:
		return ReasonAbsent
	case live.version != *expect:
		return ReasonVersion
	}
	return ""
}

// incr adds to an integer, or creates it; only creating sets the expiry.
func (b *batch) incr(op *Op, live *document) (next document, reason string) {
	old, expires := int64(0), b.expiry(op)
	if live != nil {
		var err error
		if old, err = strconv.ParseInt(string(live.text), 10, 64); err != nil {
			return document{}, ReasonType
		}
		expires = live.expires
	}
	sum := old + op.Delta
	overflow := (op.Delta > 0) != (sum > old) && op.Delta != 0
	if overflow || op.Min != nil && sum < *op.Min || op.Max != nil && sum > *op.Max {
		return document{}, ReasonLimit
	}
	return document{expires: expires, text: strconv.AppendInt(nil, sum, 10)}, ""
}

// expiry returns when a document that the operation writes is gone, on the led clock.
func (b *batch) expiry(op *Op) stages.Micros {
	if op.Forever {
		return Never
	}
	return saturate(b.led, op.TTL)
}

// stored returns the document under a key as the batch has left it so far, live or expired; nil = none.
func (b *batch) stored(key string) (*document, error) {
	if c := b.staged[key]; c != nil {
		return c.next, nil
	}
	return load(b.tx, []byte(key))
}

// stage notes a write in the place of what stored has returned; nil deletes.
func (b *batch) stage(key string, stored, next *document) {
	if c := b.staged[key]; c != nil {
		c.next = next
		return
	}
	b.order = append(b.order, key)
	b.staged[key] = &change{stored, next}
}

// write makes the staged writes, each with its expiry row.
func (b *batch) write() error {
	for _, key := range b.order {
		if err := replace(b.tx, []byte(key), *b.staged[key]); err != nil {
			return fmt.Errorf("write %q: %w", key, err)
		}
	}
	if b.next != b.tx.NextVersion() {
		b.tx.SetNextVersion(b.next)
	}
	return nil
}
