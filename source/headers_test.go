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

// reader runs Headers in the background of a bubble and collects its batches as text.
type reader struct {
	h     source.Headers
	next  chan struct{}
	drain chan struct{}
	out   strings.Builder
	err   error
	ended bool
}

func (r *reader) start(ctx context.Context) {
	r.next, r.drain = make(chan struct{}, 1), make(chan struct{})
	r.h.Next, r.h.Drain = r.next, r.drain
	go func() {
		r.err = r.h.Generate(ctx, func(b stages.Batch) error {
			r.out.WriteString(text(b))
			return nil
		})
		r.ended = true
	}()
	synctest.Wait()
}

// look has the reader look again and returns the batches since the last time.
func (r *reader) look() string {
	r.next <- struct{}{}
	synctest.Wait()
	return r.take()
}

func (r *reader) take() string {
	defer r.out.Reset()
	return r.out.String()
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
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		for i := range 5 {
			log.push(1, stages.Micros(10+i/2*10), int32(i)) // 10 10 20 20 30
		}
		idle := false
		r := &reader{h: source.Headers{
			Log: log, Queue: 1, From: 10, Guard: 5 * time.Microsecond, Batch: 3,
			Idle: func(stages.Micros) bool { return idle },
		}}
		r.start(t.Context())
		steps := []struct {
			safe stages.Micros
			want string
		}{
			{0, ""},                   // nothing moved
			{32, "[<27]"},             // only the ceiling
			{36, "[30:4 <31]"},        // the record comes below it
			{100, "[<95]"},            //
			{105, "[96:7 99:8 <100]"}, // its own stamp never lies below the ceiling
			{106, "[100:9 <101]"},     //
		}
		if got := r.take(); got != "[10:0 10:1 20:2 <20][20:3 <25]" {
			t.Errorf("first look: %s", got)
		}
		for i, s := range steps {
			if i == 4 {
				log.push(1, 96, 7)
				log.push(1, 99, 8)
				log.push(1, 100, 9)
			}
			log.tick(s.safe)
			if got := r.look(); got != s.want {
				t.Errorf("safe %d: %s, want %s", s.safe, got, s.want)
			}
		}
		idle = true
		if got := r.look(); got != "" || !r.ended || r.err != nil {
			t.Errorf("idle: %s, ended %v %v", got, r.ended, r.err)
		}
	})
}

func TestHeadersFrom(t *testing.T) {
	for _, c := range []struct {
		from  stages.Micros
		guard time.Duration
		want  string
	}{
		{stages.Beginning, 0, "[10:1 20:2 <30]"},
		{20, 0, "[20:2 <30]"},
		{21, 0, "[<30]"},
		{1000, 0, "[<30]"}, // a redo ends above what this node has applied
		{0, math.MaxInt64, "[<-9223372036854745]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := newLog()
			log.push(1, 10, 1)
			log.push(1, 20, 2)
			log.push(1, 30, 3)
			r := &reader{h: source.Headers{Log: log, Queue: 1, From: c.from, Guard: c.guard}}
			r.start(t.Context())
			if got := r.take(); got != strings.ReplaceAll(c.want, "-9223372036854745", fmt.Sprint(30-math.MaxInt64/1000)) {
				t.Errorf("from %d: %s, want %s", c.from, got, c.want)
			}
			close(r.drain)
			synctest.Wait()
			if !r.ended || r.err != nil {
				t.Errorf("drain: ended %v %v", r.ended, r.err)
			}
		})
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
