package broker

import (
	"fmt"

	"queen/stages"
)

// openWindow returns the bounds [position, tEnd) of window k, read from the rows whose keys begin with base. It fails with
// ErrNoIntent unless the intent of k is the open one: intent.k = k, and the pointer is at k-1 (k = 1: there is none). The rows say here
// exactly what they say to package commit, because both read them with package stages (design invariant 2).
func openWindow(get func(key string) ([]byte, error), base string, k uint64) (start, end stages.Micros, err error) {
	row, err := get(base + "intent")
	if err != nil {
		return 0, 0, err
	}
	// An intent that cannot be read counts as absent: the sink writes over it, and this node has not applied that yet.
	intent, err := stages.ParseIntent(row)
	if err != nil || intent.K != k {
		return 0, 0, stages.ErrNoIntent
	}
	if row, err = get(base + "committed"); err != nil {
		return 0, 0, err
	}
	if start, err = position(get, base, row, k); err != nil {
		return 0, 0, err
	}
	if start > intent.End {
		return 0, 0, fmt.Errorf("the intent of window %d ends at %d, below its position %d", k, intent.End, start)
	}
	return start, intent.End, nil
}

// position returns where window k starts: at the end of the pointer, or, for the first window, where the queue starts.
func position(get func(key string) ([]byte, error), base string, committed []byte, k uint64) (at stages.Micros, err error) {
	if committed != nil {
		pointer, err := stages.ParsePointer(committed)
		switch {
		case err != nil:
			return 0, fmt.Errorf("row %scommitted: %w", base, err)
		case pointer.K+1 != k:
			return 0, stages.ErrNoIntent
		}
		return pointer.End, nil
	}
	if k != 1 {
		return 0, stages.ErrNoIntent
	}
	row, err := get(base + "start")
	switch {
	case err != nil:
		return 0, err
	case row == nil:
		return 0, fmt.Errorf("row %sstart is missing", base)
	}
	if at, err = stages.ParseStart(row); err != nil {
		return 0, fmt.Errorf("row %sstart: %w", base, err)
	}
	return at, nil
}
