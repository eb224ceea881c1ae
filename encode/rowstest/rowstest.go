// Package rowstest has windows in memory, for the tests of formats and of what reads their objects back. It is no store: package segment has the
// appends of a broker.
package rowstest

import (
	"context"
	"iter"

	"queen/stages"
)

// Append is one append in memory.
type Append struct {
	H   stages.Header
	All []stages.Record
	Err error // behind the records
}

var _ stages.Body = Append{}

// Header implements stages.Body.
func (a Append) Header() stages.Header { return a.H }

// Records implements stages.Body.
func (a Append) Records() iter.Seq2[stages.Record, error] {
	return func(yield func(stages.Record, error) bool) {
		for _, r := range a.All {
			if !yield(r, nil) {
				return
			}
		}
		if a.Err != nil {
			yield(stages.Record{}, a.Err)
		}
	}
}

// Read returns what reads these appends for encode.Rows: the Off of an append of the listing is its index here.
func Read(all []Append) func(ctx context.Context, appends []stages.Append, into func(int, stages.Body) error) error {
	return func(ctx context.Context, appends []stages.Append, into func(int, stages.Body) error) error {
		for i, a := range appends {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := into(i, all[a.Off]); err != nil {
				return err
			}
		}
		return nil
	}
}
