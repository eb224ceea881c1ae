package stages

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/reugn/go-streams"
	"github.com/reugn/go-streams/flow"
)

func TestWiringMistakes(t *testing.T) {
	text := step[string, string]{do: func(_ context.Context, in string, emit func(string) error) error { return emit(in) }}
	ran := func(context.Context, int) error { t.Error("something ran"); return nil }
	for name, c := range map[string]struct {
		wire func(run *Run)
		want string
	}{
		"type": {
			func(run *Run) {
				Source(run, "numbers", count(3)).Via(Via(run, "text", text, 1)).To(Sink(run, "end", ran))
			},
			"pipeline: numbers gives int, text wants string",
		},
		"twice behind": {
			func(run *Run) {
				src, end := Source(run, "numbers", count(3)), Sink(run, "end", ran)
				src.Via(Via(run, "a", pass(1), 1))
				src.Via(Via(run, "b", pass(1), 1)).To(end)
			},
			"pipeline: numbers is joined twice: to a and to b",
		},
		"twice in front": {
			func(run *Run) {
				end := Via(run, "a", pass(1), 1)
				Source(run, "one", count(3)).Via(end)
				Source(run, "two", count(3)).Via(end).To(Sink(run, "end", ran))
			},
			"pipeline: a is joined twice: behind one and behind two",
		},
		"two runs": {
			func(run *Run) {
				other := NewRun(t.Context())
				Source(run, "numbers", count(3)).Via(Via(other, "a", pass(1), 1)).To(Sink(other, "end", ran))
				if err := other.Wait(); err == nil {
					t.Error("no error in the other run")
				}
			},
			"pipeline: numbers and a belong to different runs",
		},
	} {
		run := NewRun(t.Context())
		c.wire(run)
		if err := run.Wait(); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An interface in front of a wider interface fits; nil is a value of it.
func TestInterfaceElements(t *testing.T) {
	run := NewRun(t.Context())
	gen := func(_ context.Context, emit func(error) error) error {
		return errors.Join(emit(nil), emit(errors.New("x")))
	}
	got := ""
	Source(run, "errors", gen).
		Via(Via(run, "print", step[any, string]{do: func(_ context.Context, in any, emit func(string) error) error {
			return emit(fmt.Sprint(in))
		}}, 0)).
		To(Sink(run, "end", func(_ context.Context, in string) error { got += in + ";"; return nil }))
	if err := run.Wait(); err != nil || got != "<nil>;x;" {
		t.Errorf("%q %v", got, err)
	}
}

// foreignSink is a sink as go-streams makes them.
type foreignSink struct {
	in   chan any
	done chan struct{}
	got  []any
}

func (s *foreignSink) In() chan<- any   { return s.in }
func (s *foreignSink) AwaitCompletion() { <-s.done }

func TestForeignFlows(t *testing.T) {
	for _, fail := range []bool{false, true} {
		run := NewRun(t.Context())
		sink := &foreignSink{in: make(chan any), done: make(chan struct{})}
		go func() {
			defer close(sink.done)
			for v := range sink.in {
				sink.got = append(sink.got, v)
			}
		}()
		fault := errors.New("fault")
		Source(run, "numbers", count(10)).
			Via(flow.NewMap(func(i int) any { return i * 2 }, 1)).
			Via(Via(run, "a", step[int, int]{do: func(_ context.Context, in int, emit func(int) error) error {
				if fail && in == 6 {
					return fault
				}
				return emit(in)
			}}, 1)).
			Via(flow.NewPassThrough()).
			To(sink)
		err := run.Wait()
		if fail != errors.Is(err, fault) || !fail && fmt.Sprint(sink.got) != "[0 2 4 6 8 10 12 14 16 18]" {
			t.Errorf("%v %v", sink.got, err)
		}
	}
	run := NewRun(t.Context())
	Source(run, "numbers", count(3)).
		Via(flow.NewMap(func(i int) any { return "x" }, 1)).
		Via(Via(run, "a", pass(1), 1)).
		To(Sink(run, "end", func(context.Context, int) error { return nil }))
	if err := run.Wait(); err == nil || err.Error() != "a: got a string, wants a int" {
		t.Error(err)
	}
}

// foreignSource is a source that knows no run: only a reader gets it to its end.
type foreignSource chan any

func (s foreignSource) Out() <-chan any { return s }
func (s foreignSource) Via(f streams.Flow) streams.Flow {
	flow.DoStream(s, f)
	return f
}

// A stage that stopped keeps taking what comes, for a sender in front of it may know nothing of the run.
func TestStoppedStageTakesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, fault := NewRun(t.Context()), errors.New("fault")
		src, sent := make(foreignSource), 0
		go func() {
			defer close(src)
			for range 1000 {
				src <- sent
				sent++
			}
		}()
		fail := func(context.Context, int) error { return fault }
		src.Via(Via(run, "a", pass(1), 1)).To(Sink(run, "end", fail))
		if err := run.Wait(); !errors.Is(err, fault) || sent != 1000 {
			t.Errorf("%d elements taken, %v", sent, err)
		}
	})
}

// A reader from outside that stopped reading cannot hold up the end of a run that was cancelled.
func TestNobodyReads(t *testing.T) {
	run, fault := NewRun(t.Context()), errors.New("fault")
	out := Source(run, "numbers", count(0)).Out()
	<-out
	run.Fail(fault)
	if err := run.Wait(); err != fault {
		t.Error(err)
	}
}

// After a cancel a stage is not called again, not even to drain.
func TestNoDrainAfterCancel(t *testing.T) {
	fault := errors.New("fault")
	run := NewRun(t.Context())
	drained := func(context.Context, func(int) error) error { t.Error("drained"); return nil }
	do := func(_ context.Context, in int, emit func(int) error) error {
		run.Fail(fault)
		return nil
	}
	Source(run, "numbers", count(10)).
		Via(Via(run, "a", step[int, int]{do: do, drain: drained}, 0)).
		Via(Via(run, "b", step[int, int]{do: do, drain: drained}, 0)).
		To(Sink(run, "end", func(context.Context, int) error { return nil }))
	if err := run.Wait(); err != fault {
		t.Error(err)
	}
}

// What asks for Out itself gets the elements too.
func TestFanOut(t *testing.T) {
	run := NewRun(t.Context())
	var sums [2]int
	parts := flow.FanOut(Source(run, "numbers", count(10)), 2)
	ended := make(chan struct{})
	for i, part := range parts {
		go func() {
			part.Via(Via(run, "a", pass(0), 1)).
				To(Sink(run, "end", func(_ context.Context, in int) error { sums[i] += in; return nil }))
			ended <- struct{}{}
		}()
	}
	<-ended
	<-ended
	if err := run.Wait(); err != nil || sums != [2]int{45, 45} {
		t.Errorf("%v %v", sums, err)
	}
}

var (
	_ streams.Sink   = (*foreignSink)(nil)
	_ streams.Source = (foreignSource)(nil)
)
