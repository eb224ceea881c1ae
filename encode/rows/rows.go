// Package rows holds what every file format is given and gives back, and the loop that reads appends ahead of one encoder.
//
// It is not a format and knows no bytes of one: encode/jsonl is the line format, encode/codec the compressors, and
// encode/registry.go the list of what exists. It is a package of its own because the formats and their registry both need it.
package rows

import (
	"context"
	"errors"
	"fmt"

	"queen/stages"
)

// Rows is the content of one object: its appends, in the order of the object, and how to get their bodies.
type Rows struct {
	// Appends are the listing's, sorted by (partition name bytes, stamp, offset); an encoder refuses anything else.
	Appends []stages.Append
	List    *stages.Listing // its Parts are sorted by name
	// Read calls into once for each append in the order given, as stages.Log.Bodies does. It is called by several goroutines.
	Read func(ctx context.Context, appends []stages.Append, into func(i int, body stages.Body) error) error
	// Readers is how many reads of bodies are in flight, at least 1. It never shapes bytes.
	Readers int
	// Queue and Tenant are their names, for a format that has a place for them.
	Queue, Tenant string
}

// Row is one record read back from an object. Its Payload is the raw text as it stands there (null for "no payload"),
// valid until the next row is asked for.
type Row struct {
	Partition string
	Offset    int64
	TxID      string
	TS        stages.Micros
	Payload   []byte
}

// ErrOrder is wrapped by what is returned for appends out of order: a bug of whoever sorted, not of the data.
var ErrOrder = errors.New("appends out of order")

// Check verifies that the appends are strictly in the order of an object, as far as can be seen without their headers, and returns what a
// manifest says of them. It touches no body. Stamps and offsets are compared as the frames are read (see sequence).
func (r Rows) Check() (stages.Stats, error) {
	s := stages.Stats{Records: r.List.Records, MinTS: r.List.MinTS, MaxTS: r.List.MaxTS}
	var prev stages.Append
	for i, a := range r.Appends {
		if int64(a.Part) >= int64(len(r.List.Parts)) {
			return stages.Stats{}, fmt.Errorf("append %d is of partition %d of a listing of %d", i, a.Part, len(r.List.Parts))
		}
		same := i > 0 && a.Part == prev.Part
		if i > 0 && !same {
			was, name := r.List.Parts[prev.Part].Name, r.List.Parts[a.Part].Name
			if name < was {
				return stages.Stats{}, fmt.Errorf("append %d: partition %q behind %q: %w", i, name, was, ErrOrder)
			}
			same = name == was
		}
		switch {
		case !same:
			s.Partitions++
		case a.Seg < prev.Seg || a.Seg == prev.Seg && a.Off <= prev.Off:
			return stages.Stats{}, fmt.Errorf("append %d of partition %q: (%d, %d) behind (%d, %d): %w",
				i, r.List.Parts[a.Part].Name, a.Seg, a.Off, prev.Seg, prev.Off, ErrOrder)
		}
		prev = a
	}
	return s, nil
}

// sequence is where in an object the headers of its appends have come to. It finds those that are out of order, which no place can show.
type sequence struct {
	any       bool
	name      string
	partition stages.PartitionID
	ts        stages.Micros
	base, end int64
}

// next takes the header of the next append, which is of the partition called name.
func (s *sequence) next(name string, h *stages.Header) error {
	here := sequence{true, name, h.Partition, h.TS, h.Base, h.Base + int64(h.Count)}
	return s.follow(here, here)
}

// follow goes on to last by way of first, the append that stands next.
func (s *sequence) follow(first, last sequence) error {
	if s.any && (first.partition == s.partition || first.name == s.name) {
		fits := first.ts >= s.ts && first.base >= s.end
		if first.partition != s.partition {
			fits = first.ts > s.ts || first.ts == s.ts && first.base > s.base
		}
		if !fits {
			return fmt.Errorf("partition %q: the append of stamp %d and offset %d stands behind that of %d and %d: %w: %w",
				first.name, first.ts, first.base, s.ts, s.base, ErrOrder, stages.ErrDamaged)
		}
	}
	*s = last
	return nil
}
