package source_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/source"
	"queen/stages"
)

// read runs Headers to the end and returns its batches as text.
func read(t *testing.T, h source.Headers) string {
	t.Helper()
	var out strings.Builder
	err := h.Generate(t.Context(), func(b stages.Batch) error {
		out.WriteString(text(b))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return out.String()
}

func text(b stages.Batch) string {
	var out strings.Builder
	out.WriteString("[")
	for _, m := range b.Marks {
		fmt.Fprintf(&out, "%d:%d ", m.TS, m.Weight)
	}
	fmt.Fprintf(&out, "<%d]", b.Ceiling)
	return out.String()
}

func TestHeaders(t *testing.T) {
	log := newLog()
	for i := range 5 {
		log.push(1, stages.Micros(10+i/2*10), int32(i)) // 10 10 20 20 30
	}
	h := source.Headers{Log: log, Queue: 1, From: 10, Guard: 5 * time.Microsecond, Batch: 3}
	for _, step := range []struct {
		safe stages.Micros
		want string
	}{
		{30, "[10:0 10:1 20:2 <20][20:3 <25]"},
		{35, "[10:0 10:1 20:2 <20][20:3 <30]"}, // its own stamp never lies below the ceiling
		{36, "[10:0 10:1 20:2 <20][20:3 30:4 <31]"},
		{100, "[10:0 10:1 20:2 <20][20:3 30:4 <95]"},
	} {
		log.tick(step.safe)
		if got := read(t, h); got != step.want {
			t.Errorf("safe %d: %s, want %s", step.safe, got, step.want)
		}
	}
}

func TestHeadersFrom(t *testing.T) {
	log := newLog()
	log.push(1, 10, 1)
	log.push(1, 20, 2)
	log.push(1, 30, 3)
	for _, c := range []struct {
		from  stages.Micros
		guard time.Duration
		want  string
	}{
		{stages.Beginning, 0, "[10:1 20:2 <30]"},
		{20, 0, "[20:2 <30]"},
		{21, 0, "[<30]"},
		{1000, 0, "[<30]"}, // a redo ends above what this node has applied
		{0, math.MaxInt64, fmt.Sprintf("[<%d]", 30-math.MaxInt64/1000)},
	} {
		if got := read(t, source.Headers{Log: log, Queue: 1, From: c.from, Guard: c.guard}); got != c.want {
			t.Errorf("from %d: %s, want %s", c.from, got, c.want)
		}
	}
	drained := make(chan struct{})
	close(drained)
	if got := read(t, source.Headers{Log: log, Queue: 1, Drain: drained}); got != "" {
		t.Errorf("drained from the start: %s", got)
	}
}

// A drain in the middle of a backlog ends the stream at the batch it stands at; no batch claims what was not read.
func TestHeadersDrainInBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, drain := newLog(), make(chan struct{})
		for i := range 100 {
			log.push(1, stages.Micros(i), 1)
		}
		var got []stages.Batch
		h := source.Headers{Log: log, Queue: 1, Batch: 10, Drain: drain}
		err := h.Generate(t.Context(), func(b stages.Batch) error {
			if got = append(got, b); len(got) == 3 {
				close(drain)
			}
			return nil
		})
		if err != nil || len(got) != 3 || got[2].Ceiling != 29 {
			t.Errorf("%d batches, %v", len(got), err)
		}
	})
}

func TestHeadersErrors(t *testing.T) {
	fault := errors.New("fault")
	log := newLog()
	log.push(1, 10, 1)
	log.tick(20)
	h := source.Headers{Log: log, Queue: 1}
	if err := h.Generate(t.Context(), func(stages.Batch) error { return fault }); err != fault {
		t.Errorf("emit: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := h.Generate(ctx, func(stages.Batch) error { cancel(fault); return nil })
	if err != fault {
		t.Errorf("cancel: %v", err)
	}
	log.fail(fault)
	if err := h.Generate(t.Context(), func(stages.Batch) error { return nil }); err != fault {
		t.Errorf("log: %v", err)
	}
}
