package commit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

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

// startDoc is the start row, decided once for a queue (contract S11).
type startDoc struct {
	Start string         `json:"start"`
	T     *stages.Micros `json:"t,omitempty"`
}

// Pointer is the row that makes a window real.
type Pointer struct {
	K             uint64
	End           stages.Micros
	Manifest      string
	Records       int64
	Bytes         int64
	CommittedAtMs int64
}

type pointerDoc struct {
	K             *uint64         `json:"k"`
	TEnd          json.RawMessage `json:"tEnd"`
	Manifest      string          `json:"manifest"`
	Records       int64           `json:"records"`
	Bytes         int64           `json:"bytes"`
	CommittedAtMs int64           `json:"committedAtMs"`
}

func (p Pointer) encode() ([]byte, error) {
	tEnd, err := marshal(p.End.ISO())
	if err != nil {
		return nil, err
	}
	return marshal(pointerDoc{K: &p.K, TEnd: tEnd, Manifest: p.Manifest, Records: p.Records, Bytes: p.Bytes,
		CommittedAtMs: p.CommittedAtMs})
}

// ParsePointer reads a committed row. tEnd is an ISO stamp, or an integer as an earlier product wrote it.
func ParsePointer(value []byte) (Pointer, error) {
	var d pointerDoc
	if err := json.Unmarshal(value, &d); err != nil {
		return Pointer{}, err
	}
	if d.K == nil || len(d.TEnd) == 0 {
		return Pointer{}, fmt.Errorf("k or tEnd is missing")
	}
	p := Pointer{K: *d.K, Manifest: d.Manifest, Records: d.Records, Bytes: d.Bytes, CommittedAtMs: d.CommittedAtMs}
	if d.TEnd[0] != '"' {
		return p, json.Unmarshal(d.TEnd, &p.End)
	}
	var text string
	if err := json.Unmarshal(d.TEnd, &text); err != nil {
		return Pointer{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return Pointer{}, fmt.Errorf("tEnd: %w", err)
	}
	p.End = stages.Micros(t.UnixMicro())
	return p, nil
}

// parseIntent reads an intent row. ok is false for a row that is not JSON with k, tStart and tEnd: nothing can have been uploaded
// under it, so it is ignored; its version is not.
func parseIntent(value []byte) (in stages.Intent, ok bool) {
	var need struct {
		K      *uint64        `json:"k"`
		TStart *stages.Micros `json:"tStart"`
		TEnd   *stages.Micros `json:"tEnd"`
	}
	if json.Unmarshal(value, &need) != nil || need.K == nil || need.TStart == nil || need.TEnd == nil {
		return stages.Intent{}, false
	}
	if json.Unmarshal(value, &in) != nil {
		// k and bounds are there and another field has a type we do not know: a newer binary's intent, not a broken one.
		return stages.Intent{K: *need.K, Start: *need.TStart, End: *need.TEnd}, true
	}
	return in, true
}

// marshal is compact JSON without the escapes that are meant for HTML pages.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
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
var errShape = fmt.Errorf("the answer does not fit the batch")

func cause(err error) error {
	if err == nil {
		return errShape
	}
	return err
}

// parseStart returns where a queue starts by its start row.
func parseStart(value []byte) (stages.Micros, error) {
	var d startDoc
	if err := json.Unmarshal(value, &d); err != nil {
		return 0, err
	}
	switch {
	case d.Start == "earliest":
		return stages.Beginning, nil
	case d.Start == "latest" && d.T != nil:
		return *d.T, nil
	}
	return 0, fmt.Errorf("neither earliest nor latest with a stamp")
}
