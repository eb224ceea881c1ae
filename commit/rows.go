package commit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"queen/stages"
)

// Keys are the keys of one queue of one sink (docs/formats.md section 8). They are made when they are asked for: a sink may have ten thousand
// queues that do nothing.
type Keys struct {
	base string // what all of them begin with
}

// NewKeys returns the keys of a queue whose name is given in its escaped form.
func NewKeys(sink, escapedQueue string) Keys {
	return Keys{"s3:" + sink + ":" + escapedQueue + ":"}
}

// Lease is the key of the lease row.
func (k Keys) Lease() string { return k.base + "lease" }

// Start is the key of the row that says where the queue starts.
func (k Keys) Start() string { return k.of(start) }

// Intent is the key of the row that fixes the next window.
func (k Keys) Intent() string { return k.of(intent) }

// Committed is the key of the pointer.
func (k Keys) Committed() string { return k.of(committed) }

func (k Keys) of(t target) string { return k.base + t.name() }

// Longest returns the length in bytes of the longest key; a KV store takes 512 (contract B9).
func (k Keys) Longest() int { return len(k.Committed()) }

// target is a row of a queue that is written behind the fence.
type target int

const (
	start target = iota
	intent
	committed
	targets int = iota // how many there are
)

func (t target) name() string { return [targets]string{"start", "intent", "committed"}[t] }

// leaseDoc is the lease row.
type leaseDoc struct {
	Instance    string `json:"instance"`
	Incarnation string `json:"incarnation"`
	SinceMs     int64  `json:"sinceMs"`
}

// parseLease reads a lease row; one that cannot be read is held by "unknown".
func parseLease(value []byte) leaseDoc {
	var d leaseDoc
	if err := json.Unmarshal(value, &d); err != nil || d.Instance == "" {
		return leaseDoc{Instance: "unknown"}
	}
	return d
}

// HolderOf is whose a lease row or presence row is: the name of a node. A row that cannot be read is held by "unknown".
func HolderOf(row stages.Row) string { return parseLease(row.Value).Instance }

// sameJSON reports whether a store that compacts what it is given shows b where a was written.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// rows is all that the store knows of a queue, read at one moment. A row that does not exist has version 0.
type rows struct {
	lease   stages.Row
	targets [targets]stages.Row
}

// readRows reads the four rows in one getMany, which goes through the log.
func readRows(ctx context.Context, kv stages.KV, k Keys) (rows, error) {
	results, lost, err := kv.Batch(ctx, []stages.Op{{Kind: stages.OpGetMany, Keys: []string{k.Committed(), k.Intent(), k.Lease(), k.Start()}}})
	if err != nil || lost != nil || len(results) != 1 {
		return rows{}, errAgain("read rows of %s: %w", k.Lease(), cause(err))
	}
	var r rows
	for _, row := range results[0].Rows {
		switch row.Key {
		case k.Lease():
			r.lease = row
		case k.Start():
			r.targets[start] = row
		case k.Intent():
			r.targets[intent] = row
		case k.Committed():
			r.targets[committed] = row
		}
	}
	return r, nil
}

// errShape is the cause where a store answered a batch with something that is no answer to it.
var errShape = errors.New("the answer does not fit the batch")

func cause(err error) error {
	if err == nil {
		return errShape
	}
	return err
}
