package source_test

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"queen/stages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memLog is a log in memory: only what source asks for.
type memLog struct {
	stages.Log // nil: anything else is a fault of the test

	mu      sync.Mutex
	safe    stages.Micros
	appends map[stages.QueueID][]stages.Header
	fault   error           // what Moved and Headers answer, when set
	since   []stages.Micros // what Moved was asked
	reads   int             // calls of Headers
}

func newLog() *memLog { return &memLog{appends: map[stages.QueueID][]stages.Header{}} }

// push adds an append and moves the safe time to its stamp.
func (l *memLog) push(q stages.QueueID, ts stages.Micros, weight int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appends[q] = append(l.appends[q], stages.Header{TS: ts, Count: 1, Weight: weight})
	l.safe = ts
}

// tick moves the safe time.
func (l *memLog) tick(ts stages.Micros) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.safe = max(l.safe, ts)
}

func (l *memLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = err
}

func (l *memLog) Safe() stages.Micros {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.safe
}

func (l *memLog) Moved(_ context.Context, since stages.Micros) ([]stages.QueueID, stages.Micros, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = append(l.since, since)
	if l.fault != nil {
		return nil, 0, l.fault
	}
	var moved []stages.QueueID
	for q, hs := range l.appends {
		if hs[len(hs)-1].TS >= since {
			moved = append(moved, q)
		}
	}
	return moved, l.safe, nil
}

func (l *memLog) Headers(_ context.Context, q stages.QueueID, from, before stages.Micros) iter.Seq2[stages.Header, error] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	hs, fault := l.appends[q], l.fault
	at := func(ts stages.Micros) int {
		i, _ := slices.BinarySearchFunc(hs, ts, func(h stages.Header, ts stages.Micros) int { return cmp.Compare(h.TS, ts) })
		return i
	}
	part := slices.Clone(hs[at(from):max(at(from), at(before))])
	return func(yield func(stages.Header, error) bool) {
		if fault != nil {
			yield(stages.Header{}, fault)
			return
		}
		for _, h := range part {
			if !yield(h, nil) {
				return
			}
		}
	}
}
