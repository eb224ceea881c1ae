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
	// Appends are sorted by (partition name bytes, stamp, offset); an encoder refuses anything else.
	Appends []stages.Header
	Names   map[stages.PartitionID]string
	// Read calls into once for each header in the order given, as stages.Log.Bodies does. It is called by several goroutines.
	Read func(ctx context.Context, headers []stages.Header, into func(i int, body stages.Body) error) error
	// Readers is how many reads of bodies are in flight, at least 1. It never shapes bytes.
	Readers int
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

// ErrOrder is wrapped by what Check returns for appends out of order: a bug of whoever sorted, not of the data.
var ErrOrder = errors.New("appends out of order")

// Check verifies that the appends are named, not empty and strictly in the order of an object, and counts what a manifest
// says of them. It touches no body.
func (r Rows) Check() (stages.Stats, error) {
	var (
		s    stages.Stats
		prev stages.Header
		name string
	)
	for i, h := range r.Appends {
		if h.Count < 1 {
			return stages.Stats{}, fmt.Errorf("append %d of partition %d at %d: %d records", i, h.Partition, h.TS, h.Count)
		}
		if i == 0 || h.Partition != prev.Partition {
			next, ok := r.Names[h.Partition]
			if !ok {
				return stages.Stats{}, fmt.Errorf("append %d: partition %d has no name", i, h.Partition)
			}
			if i > 0 && next < name {
				return stages.Stats{}, fmt.Errorf("append %d: partition %q behind %q: %w", i, next, name, ErrOrder)
			}
			if i == 0 || next != name {
				s.Partitions++
			} else if h.TS < prev.TS || h.TS == prev.TS && h.Base <= prev.Base {
				return stages.Stats{}, outOfOrder(i, next, prev, h)
			}
			name = next
		} else if h.TS < prev.TS || h.Base < prev.Base+int64(prev.Count) {
			return stages.Stats{}, outOfOrder(i, name, prev, h)
		}
		s = add(s, h)
		prev = h
	}
	return s, nil
}

func outOfOrder(i int, name string, prev, h stages.Header) error {
	return fmt.Errorf("append %d of partition %q: (%d, %d) behind (%d, %d): %w", i, name, h.TS, h.Base, prev.TS, prev.Base, ErrOrder)
}

func add(s stages.Stats, h stages.Header) stages.Stats {
	if s.Records == 0 || h.TS < s.MinTS {
		s.MinTS = h.TS
	}
	if s.Records == 0 || h.TS > s.MaxTS {
		s.MaxTS = h.TS
	}
	s.Records += int64(h.Count)
	return s
}
