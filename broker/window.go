package broker

import (
	"encoding/json"
	"fmt"
	"time"

	"queen/stages"
)

// The parts of the sink's rows that say which window is open (docs/formats.md section 8). Reading a row leaves unknown fields
// alone: a newer sink may have more.
type (
	intentRow struct {
		K    *uint64        `json:"k"`
		TEnd *stages.Micros `json:"tEnd"`
	}
	committedRow struct {
		K    *uint64         `json:"k"`
		TEnd json.RawMessage `json:"tEnd"`
	}
	startRow struct {
		Start string         `json:"start"`
		T     *stages.Micros `json:"t"`
	}
)

// openWindow returns the bounds [position, tEnd) of window k, read from the rows whose keys begin with base. It fails with
// ErrNoIntent unless the intent of k is the open one: intent.k = k, and the pointer is at k-1 (k = 1: there is none).
func openWindow(get func(key string) ([]byte, error), base string, k uint64) (start, end stages.Micros, err error) {
	var intent intentRow
	if found, err := read(get, base+"intent", &intent); err != nil || !found {
		return 0, 0, noIntent(err)
	}
	if intent.K == nil || intent.TEnd == nil || *intent.K != k {
		return 0, 0, noIntent(nil)
	}
	var committed committedRow
	found, err := read(get, base+"committed", &committed)
	switch {
	case err != nil:
		return 0, 0, err
	case found && (committed.K == nil || *committed.K+1 != k), !found && k != 1:
		return 0, 0, noIntent(nil)
	case found:
		start, err = stampOf(committed.TEnd)
	default:
		start, err = startOf(get, base+"start")
	}
	if err != nil {
		return 0, 0, err
	}
	if start > *intent.TEnd {
		return 0, 0, fmt.Errorf("the intent of window %d ends at %d, below its position %d", k, *intent.TEnd, start)
	}
	return start, *intent.TEnd, nil
}

func noIntent(err error) error {
	if err != nil {
		return err
	}
	return stages.ErrNoIntent
}

func read(get func(key string) ([]byte, error), key string, into any) (found bool, err error) {
	value, err := get(key)
	if err != nil || value == nil {
		return false, err
	}
	if err := json.Unmarshal(value, into); err != nil {
		return false, fmt.Errorf("row %s: %w", key, err)
	}
	return true, nil
}

// startOf returns where a queue without a pointer starts.
func startOf(get func(key string) ([]byte, error), key string) (stages.Micros, error) {
	var start startRow
	found, err := read(get, key, &start)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, fmt.Errorf("row %s is missing", key)
	case start.T != nil:
		return *start.T, nil
	case start.Start == "earliest":
		return stages.Beginning, nil
	}
	return 0, fmt.Errorf("row %s has neither a time nor earliest", key)
}

// stampOf reads a stamp: ISO, or an integer of microseconds as the product that we match wrote it once.
func stampOf(text json.RawMessage) (stages.Micros, error) {
	var iso string
	if json.Unmarshal(text, &iso) == nil {
		t, err := time.Parse(time.RFC3339Nano, iso)
		return stages.Micros(t.UnixMicro()), err
	}
	var at stages.Micros
	err := json.Unmarshal(text, &at)
	return at, err
}
