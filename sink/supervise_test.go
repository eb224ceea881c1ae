package sink

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/commit"
	"queen/config"
	"queen/internal/fakes3"
	"queen/stages"
)

// supervised is a supervisor of sinks.
type supervised struct {
	*life
	v *Supervisor
}

func (w *world) supervise(change func(*config.Sink)) supervised {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	l := &life{w: w, cancel: cancel, ended: make(chan struct{})}
	cfg := settings(w.s3.Endpoint())
	if change != nil {
		change(cfg)
	}
	v, err := NewSupervisor(w.options(l, cfg))
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(l.ended)
		l.err = v.Run(ctx)
	}()
	return supervised{l, v}
}

// unit is the sink's entry of status.
func (s supervised) unit() map[string]any {
	return s.v.Status().(map[string]any)["sinks"].([]any)[0].(map[string]any)
}

func (s supervised) committed() uint64 {
	s.s = s.v.current()
	return s.k("orders")
}

// faults are functions that are called at places of what a sink stands on.
type faults struct {
	mu sync.Mutex
	by map[string]func()
}

// set has a function called at a place; nil mends it.
func (f *faults) set(place string, fault func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil {
		f.by = map[string]func(){}
	}
	f.by[place] = fault
}

func (f *faults) at(place string) {
	f.mu.Lock()
	fault := f.by[place]
	f.mu.Unlock()
	if fault != nil {
		fault()
	}
}

func lookPanics() { panic("in a look") }

// A fault in what serves all queues ends the sink and not the process. Status says so; a second later another one goes on from the rows, with the counters of the
// first one; and what is read is in the lake once.
func TestFallenSinkBeginsAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.supervise(nil)
		w.until(time.Minute, "window 1", func() bool { return l.committed() == 1 })
		puts := requestsCounted(t, l)
		w.mem.faults.set("moved", lookPanics)
		w.mem.push("orders", "p", 5)
		w.until(time.Minute, "backoff", func() bool { return l.unit()["phase"] == "backoff" })
		w.mem.faults.set("moved", nil)
		u := l.unit()
		if u["lastExit"] != "discovery: panic: in a look" || u["backoffMs"] != int64(1000) || u["restarts"] != 0 || u["uptimeMs"] != int64(0) || u["running"] != false || u["error"] != nil {
			t.Errorf("status shows %v", u)
		}
		if block := l.v.Status().(map[string]any); block["phase"] != "running" {
			t.Errorf("the block's phase is %v", block["phase"])
		}
		w.until(2*time.Second, "running again", func() bool { return l.unit()["phase"] == "running" })
		if u := l.unit(); u["restarts"] != 1 || u["backoffMs"] != int64(0) || u["lastExit"] != "discovery: panic: in a look" {
			t.Errorf("after it began anew: %v", u)
		}
		w.until(time.Minute, "window 2", func() bool { return l.committed() == 2 })
		l.s = l.v.current()
		if row := l.row("orders"); row["records"] != int64(10) || row["windowsCommitted"] != int64(2) {
			t.Errorf("row %v", row)
		}
		if now := requestsCounted(t, l); now <= puts {
			t.Errorf("%d PUTs are counted, and there were %d before", now, puts)
		}
		w.exactly("orders")
		if w.logged("the S3 sink fell") != 1 || w.logged("supervise_test.lookPanics")+w.logged("sink.lookPanics") == 0 {
			t.Errorf("the log does not say it with its stack:\n%s", w.logs.String())
		}
		l.drained()
	})
}

// requestsCounted is what the metrics say of PUTs.
func requestsCounted(t *testing.T, l supervised) (n int) {
	t.Helper()
	for line := range strings.Lines(gathered(t, l.v.Registry())) {
		if rest, ok := strings.CutPrefix(line, `queen_s3_s3_requests_total{op="put",code="200"} `); ok {
			fmt.Sscan(rest, &n)
		}
	}
	return n
}

// drained drains it and wants no error.
func (s supervised) drained() {
	s.w.t.Helper()
	if err := s.v.Drain(s.w.t.Context()); err != nil {
		s.w.t.Errorf("drain: %v", err)
	}
	<-s.ended
	if s.err != nil {
		s.w.t.Errorf("run: %v", s.err)
	}
	s.cancel()
}

// A sink that falls again and again waits 1 s, doubling to 30 s; after an hour without a fault it waits 1 s again. A drain does not wait for it.
func TestFallenSinkWaitsLonger(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.supervise(nil)
		w.mem.push("orders", "p", 5)
		w.until(time.Minute, "window 1", func() bool { return l.committed() == 1 })
		fall := func() int64 {
			w.until(10*time.Second, "backoff", func() bool { return l.unit()["phase"] == "backoff" })
			u := l.unit()
			w.until(31*time.Second, "the end of the wait", func() bool { return l.unit()["restarts"] != u["restarts"] })
			return u["backoffMs"].(int64)
		}
		w.mem.faults.set("moved", lookPanics)
		var waits []int64
		for range 7 {
			waits = append(waits, fall())
		}
		if got := fmt.Sprint(waits); got != "[1000 2000 4000 8000 16000 30000 30000]" {
			t.Errorf("it waited %s ms", got)
		}
		w.mem.faults.set("moved", nil)
		elapse(59 * time.Minute)
		w.mem.faults.set("moved", lookPanics)
		if wait := fall(); wait != 30000 {
			t.Errorf("after 59 minutes it waited %d ms", wait)
		}
		w.mem.faults.set("moved", nil)
		elapse(61 * time.Minute)
		w.mem.faults.set("moved", lookPanics)
		if wait := fall(); wait != 1000 {
			t.Errorf("after an hour without a fault it waited %d ms", wait)
		}
		w.until(10*time.Second, "backoff", func() bool { return l.unit()["phase"] == "backoff" })
		before := time.Now()
		l.drained()
		if took := time.Since(before); took > 0 {
			t.Errorf("the drain took %v", took)
		}
		if l.unit()["phase"] != "stopped" {
			t.Errorf("phase %v", l.unit()["phase"])
		}
	})
}

// Each part that serves all queues is guarded: a panic in it is an end of the sink, which names it.
func TestEachPartIsGuarded(t *testing.T) {
	for part, place := range map[string]string{"discovery": "moved", "list": "list", "placement": "applied", "bucket": "the bucket cannot be reached", "refresh": leaseKey,
		"presence": commit.PresencePrefix("default") + stages.Esc("node-1@h")} {
		t.Run(part, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.mem.push("orders", "p", 5)
				l := w.supervise(func(c *config.Sink) { c.Queues, c.All = nil, true })
				w.until(time.Minute, "window 1", func() bool { return l.committed() == 1 })
				fault := func() { panic("in a part") }
				l.faults.set(place, fault)
				w.mem.faults.set(place, fault)
				w.logs.faults.set(place, fault)
				if part == "bucket" {
					w.s3.Script(fakes3.Rule{Op: "head", Status: 500})
				}
				w.until(5*time.Minute, "backoff", func() bool { return l.unit()["phase"] == "backoff" })
				if exit := l.unit()["lastExit"]; exit != part+": panic: in a part" {
					t.Errorf("it fell by %v", exit)
				}
				l.faults.set(place, nil)
				w.mem.faults.set(place, nil)
				w.logs.faults.set(place, nil)
				w.s3.Unscript()
				w.mem.push("orders", "p", 5)
				w.until(2*time.Minute, "window 2", func() bool { return l.committed() == 2 })
				w.exactly("orders")
				l.drained()
			})
		})
	}
}

// A sink that cannot end after its fall is the end of the process: nobody else gets its locks back.
func TestFallThatDoesNotEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.supervise(nil)
		w.until(time.Minute, "window 1", func() bool { return l.committed() == 1 })
		held := make(chan struct{})
		l.faults.set(leaseKey, func() { <-held })
		elapse(20 * time.Second) // a refresh has come
		w.mem.faults.set("moved", lookPanics)
		before := time.Now()
		<-l.ended
		if l.err == nil || !strings.Contains(l.err.Error(), "and has not ended 30s later") {
			t.Errorf("run: %v", l.err)
		}
		if took := time.Since(before); took < fallLimit || took > fallLimit+5*time.Second {
			t.Errorf("it took %v", took)
		}
		close(held)
		<-l.v.current().ended
		l.cancel()
	})
}
