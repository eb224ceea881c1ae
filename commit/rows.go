package commit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"queen/stages"
)

// Keys are the keys of one queue of one sink (docs/formats.md section 8).
type Keys struct {
	Lease, Start, Intent, Committed string
}

// NewKeys returns the keys of a queue whose name is given in its escaped form.
func NewKeys(sink, escapedQueue string) Keys {
	base := "s3:" + sink + ":" + escapedQueue + ":"
	return Keys{Lease: base + "lease", Start: base + "start", Intent: base + "intent", Committed: base + "committed"}
}

// Longest returns the length in bytes of the longest key; a KV store takes 512 (contract B9).
func (k Keys) Longest() int { return len(k.Committed) }

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
	lease, start, intent, committed stages.Row
}

// readRows reads the four rows in one getMany, which goes through the log.
func readRows(ctx context.Context, kv stages.KV, k Keys) (rows, error) {
	results, lost, err := kv.Batch(ctx, []stages.Op{{Kind: stages.OpGetMany, Keys: []string{k.Committed, k.Intent, k.Lease, k.Start}}})
	if err != nil || lost != nil || len(results) != 1 {
		return rows{}, errAgain("read rows of %s: %w", k.Lease, cause(err))
	}
	var r rows
	for _, row := range results[0].Rows {
		switch row.Key {
		case k.Lease:
			r.lease = row
		case k.Start:
			r.start = row
		case k.Intent:
			r.intent = row
		case k.Committed:
			r.committed = row
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
