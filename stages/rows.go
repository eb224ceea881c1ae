package stages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// The sink's rows, as everyone who decides by them reads them (docs/formats.md section 8). Package commit goes on from what they say, and the
// broker lists a window by them: a row that one of the two could read in another way would break design invariant 2, so there is this one
// reader. It takes what is written there and nothing else.

// Pointer is the row that makes a window real.
type Pointer struct {
	K             uint64 // at least 1
	End           Micros
	Manifest      string // object key
	Records       int64
	Bytes         int64 // stored, after compression
	CommittedAtMs int64 // wall clock, milliseconds since the epoch
}

type pointerRow struct {
	K             uint64          `json:"k"`
	TEnd          json.RawMessage `json:"tEnd"`
	Manifest      string          `json:"manifest"`
	Records       int64           `json:"records"`
	Bytes         int64           `json:"bytes"`
	CommittedAtMs int64           `json:"committedAtMs"`
}

// Encode writes the row.
func (p Pointer) Encode() ([]byte, error) {
	tEnd, err := json.Marshal(p.End.ISO())
	if err != nil {
		return nil, err
	}
	return MarshalRow(pointerRow{K: p.K, TEnd: tEnd, Manifest: p.Manifest, Records: p.Records, Bytes: p.Bytes, CommittedAtMs: p.CommittedAtMs})
}

// ParsePointer reads a committed row. tEnd is what ISO writes, or an integer of microseconds as an earlier product wrote it. Members that it
// does not know are left alone: bounds and manifest are all that a pointer decides.
func ParsePointer(value []byte) (Pointer, error) {
	members, err := object(value)
	if err != nil {
		return Pointer{}, err
	}
	p := Pointer{}
	if err := need(members, "k", &p.K); err != nil {
		return Pointer{}, err
	}
	if p.K == 0 {
		return Pointer{}, errors.New("k is 0: windows are counted from 1")
	}
	var iso string
	if need(members, "tEnd", &iso) == nil {
		p.End, err = ParseISO(iso)
	} else {
		err = need(members, "tEnd", &p.End)
	}
	if err != nil {
		return Pointer{}, err
	}
	for _, f := range []struct {
		name string
		into any
	}{{"manifest", &p.Manifest}, {"records", &p.Records}, {"bytes", &p.Bytes}, {"committedAtMs", &p.CommittedAtMs}} {
		if text, there := members[f.name]; there {
			if err := json.Unmarshal(text, f.into); err != nil {
				return Pointer{}, fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	return p, nil
}

// ParseIntent reads an intent row. An error says that it is no object with k, tStart and tEnd: nothing can have been uploaded under such a
// row, so it counts as absent. A row of a newer binary, with members or types that are not known here, is none of those: its bounds are
// read, and Unknown says what is not (contract B1).
func ParseIntent(value []byte) (Intent, error) {
	members, err := object(value)
	if err != nil {
		return Intent{}, err
	}
	var in Intent
	if err := errors.Join(need(members, "k", &in.K), need(members, "tStart", &in.Start), need(members, "tEnd", &in.End)); err != nil {
		return Intent{}, err
	}
	fields := map[string]any{"k": &in.K, "tStart": &in.Start, "tEnd": &in.End, "from": &in.From, "at": &in.At, "format": &in.Format,
		"compression": &in.Compression, "level": &in.Level, "layout": &in.Layout, "align": &in.Align, "prefix": &in.Prefix, "bucket": &in.Bucket,
		"endpoint": &in.Endpoint, "writer": &in.Writer, "encoder": &in.Encoder, "key": &in.Key, "notBefore": &in.NotBefore}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		into, known := fields[name]
		switch {
		case !known:
			in.Unknown = fmt.Sprintf("its member %q", name)
		case json.Unmarshal(members[name], into) != nil:
			in.Unknown = fmt.Sprintf("what its member %q holds", name)
		}
	}
	return in, nil
}

// Start is the row that says where a queue is read from, decided once (contract S11).
type Start struct {
	Start string  `json:"start"` // earliest or latest
	T     *Micros `json:"t,omitempty"`
	// Wait is how long retention of every kind waits for this sink past a record's deadline (contract S10), microseconds. It follows the
	// settings of who owns the queue.
	Wait Micros `json:"wait"`
}

// DefaultWait counts for a row without a wait, as an earlier build wrote it: two windows, the guard and a minute under default settings.
const DefaultWait = Micros((2*300 + 5 + 60) * 1_000_000)

// StartAt is the row of a queue that is read from t on, Beginning for all that there is.
func StartAt(t, wait Micros) Start {
	if t == Beginning {
		return Start{Start: "earliest", Wait: wait}
	}
	return Start{Start: "latest", T: &t, Wait: wait}
}

// ParseWait reads how long retention waits from a start row.
func ParseWait(value []byte) Micros {
	members, err := object(value)
	wait := DefaultWait
	if err != nil || need(members, "wait", &wait) != nil || wait < 0 {
		return DefaultWait
	}
	return wait
}

// ParseStart reads a start row and returns where the queue starts: Beginning under earliest, the row's stamp under latest.
func ParseStart(value []byte) (Micros, error) {
	members, err := object(value)
	if err != nil {
		return 0, err
	}
	var row Start
	if err := need(members, "start", &row.Start); err != nil {
		return 0, err
	}
	_, stamped := members["t"]
	switch {
	case row.Start == "earliest" && !stamped:
		return Beginning, nil
	case row.Start == "latest":
		var t Micros
		err := need(members, "t", &t)
		return t, err
	}
	return 0, errors.New("neither earliest nor latest with a stamp")
}

// MarshalRow is compact JSON without the escapes that are meant for HTML pages.
func MarshalRow(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// object reads the members of a JSON object by their exact names, which encoding/json does not compare exactly in a struct.
func object(value []byte) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil {
		return nil, fmt.Errorf("no JSON object: %w", err)
	}
	if members == nil {
		return nil, errors.New("no JSON object: null")
	}
	return members, nil
}

// need reads a member that must be there; null is not.
func need(members map[string]json.RawMessage, name string, into any) error {
	text, there := members[name]
	if !there || string(text) == "null" {
		return fmt.Errorf("%s is missing", name)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
