package stages

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// step is a stage made of functions; a nil drain does nothing.
type step[I, O any] struct {
	do    func(ctx context.Context, in I, emit func(O) error) error
	drain func(ctx context.Context, emit func(O) error) error
}

func (s step[I, O]) Do(ctx context.Context, in I, emit func(O) error) error {
	return s.do(ctx, in, emit)
}

func (s step[I, O]) Drain(ctx context.Context, emit func(O) error) error {
	if s.drain == nil {
		return nil
	}
	return s.drain(ctx, emit)
}

// count gives 0 .. n-1, or numbers for ever when n is 0.
func count(n int) func(context.Context, func(int) error) error {
	return func(_ context.Context, emit func(int) error) error {
		for i := 0; n == 0 || i < n; i++ {
			if err := emit(i); err != nil {
				return err
			}
		}
		return nil
	}
}

// pass is a stage that hands on what it gets and, at the drain, its mark.
func pass(mark int) Stage[int, int] {
	return step[int, int]{
		do:    func(_ context.Context, in int, emit func(int) error) error { return emit(in) },
		drain: func(_ context.Context, emit func(int) error) error { return emit(mark) },
	}
}

func TestDrainKeepsAllInOrder(t *testing.T) {
	for _, buffer := range []int{0, 1, 7} {
		run := NewRun(t.Context())
		var got []int
		Source(run, "numbers", count(1000)).
			Via(Via(run, "a", pass(-1), buffer)).
			Via(Via(run, "b", pass(-2), buffer)).
			To(Sink(run, "end", func(_ context.Context, in int) error { got = append(got, in); return nil }))
		if err := run.Wait(); err != nil {
			t.Fatal(err)
		}
		var want []int
		for i := range 1000 {
			want = append(want, i)
		}
		if want = append(want, -1, -2); !slices.Equal(got, want) {
			t.Errorf("buffer %d: got %d elements, the last %v", buffer, len(got), got[len(got)-3:])
		}
		if err := run.Wait(); err != nil {
			t.Errorf("Wait again: %v", err)
		}
	}
}

// faulty runs an endless source through two stages into a sink; the box called at does bad to its 100th element, or at its drain.
func faulty(t *testing.T, parent context.Context, at string, drains bool, bad func() error) error {
	run := NewRun(parent)
	maybe := func(name string, n int) error {
		if name == at && n == 100 {
			return bad()
		}
		return nil
	}
	limit := 0
	if drains {
		limit = 100
	}
	gen := func(ctx context.Context, emit func(int) error) error {
		return count(limit)(ctx, func(i int) error { return errors.Join(maybe("source", i), emit(i)) })
	}
	stage := func(name string) Stage[int, int] {
		return step[int, int]{
			do: func(_ context.Context, in int, emit func(int) error) error {
				return errors.Join(maybe(name, in), emit(in))
			},
			drain: func(context.Context, func(int) error) error { return maybe(name, 100) },
		}
	}
	Source(run, "source", gen).
		Via(Via(run, "a", stage("a"), 3)).
		Via(Via(run, "b", stage("b"), 3)).
		To(Sink(run, "sink", func(_ context.Context, in int) error { return maybe("sink", in) }))
	return run.Wait()
}

func TestErrorInEachBox(t *testing.T) {
	fault := errors.New("fault")
	for _, name := range []string{"source", "a", "b", "sink"} {
		err := faulty(t, t.Context(), name, false, func() error { return fault })
		if !errors.Is(err, fault) || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"a", "b"} {
		if err := faulty(t, t.Context(), name, true, func() error { return fault }); !errors.Is(err, fault) {
			t.Errorf("drain of %s: %v", name, err)
		}
	}
}

func TestPanicInEachBox(t *testing.T) {
	for _, name := range []string{"source", "a", "b", "sink"} {
		err := faulty(t, t.Context(), name, false, func() error { panic("boom") })
		var p *PanicError
		if !errors.As(err, &p) || err.Error() != name+": panic: boom" || !strings.Contains(string(p.Stack), "pipe_test.go") {
			t.Errorf("%s: %v", name, err)
		}
		fault := errors.New("fault")
		if err := faulty(t, t.Context(), name, false, func() error { panic(fault) }); !errors.Is(err, fault) {
			t.Errorf("%s: %v", name, err)
		}
		err = faulty(t, t.Context(), name, false, func() error { runtime.Goexit(); return nil })
		if !errors.Is(err, errGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCancelFromOutside(t *testing.T) {
	reason := errors.New("lease lost")
	for _, name := range []string{"source", "a", "b", "sink"} {
		parent, cancel := context.WithCancelCause(t.Context())
		err := faulty(t, parent, name, false, func() error { cancel(reason); return nil })
		if err != reason {
			t.Errorf("cancel in %s: %v", name, err)
		}
	}
	parent, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if err := faulty(t, parent, "source", true, func() error { return nil }); err != reason {
		t.Errorf("cancelled before the start: %v", err)
	}
}

func TestFirstErrorWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := NewRun(t.Context())
		first, second := errors.New("first"), errors.New("second")
		gen := func(ctx context.Context, emit func(int) error) error {
			if err := emit(1); err != nil {
				return err
			}
			<-ctx.Done()
			<-time.After(time.Second)
			return second
		}
		Source(run, "source", gen).
			Via(Via(run, "a", pass(0), 0)).
			To(Sink(run, "sink", func(context.Context, int) error { return first }))
		if err := run.Wait(); !errors.Is(err, first) || errors.Is(err, second) {
			t.Error(err)
		}
	})
}

// A slow sink holds the source back: never more elements are between them than edges and boxes can hold.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bufferA, bufferB, boxes = 5, 3, 4
		run := NewRun(t.Context())
		var given, taken, most int
		gen := func(ctx context.Context, emit func(int) error) error {
			for i := range 200 {
				given++
				most = max(most, given-taken)
				if err := emit(i); err != nil {
					return err
				}
			}
			return nil
		}
		sink := func(_ context.Context, in int) error {
			if in < 200 {
				<-time.After(time.Second) // everything in front comes to rest before it goes on
				synctest.Wait()
				taken++
			}
			return nil
		}
		Source(run, "source", gen).
			Via(Via(run, "a", pass(1000), bufferA)).
			Via(Via(run, "b", pass(1000), bufferB)).
			To(Sink(run, "sink", sink))
		if err := run.Wait(); err != nil {
			t.Fatal(err)
		}
		if most != bufferA+bufferB+boxes {
			t.Errorf("%d elements in flight, want %d", most, bufferA+bufferB+boxes)
		}
	})
}

func TestConcurrentRuns(t *testing.T) {
	var wrong atomic.Int64
	done := make(chan struct{})
	for r := range 50 {
		go func() {
			defer func() { done <- struct{}{} }()
			run, sum := NewRun(t.Context()), 0
			Source(run, "numbers", count(100)).
				Via(Via(run, "a", pass(r), 2)).
				To(Sink(run, "end", func(_ context.Context, in int) error { sum += in; return nil }))
			if err := run.Wait(); err != nil || sum != 4950+r {
				wrong.Add(1)
			}
		}()
	}
	for range 50 {
		<-done
	}
	if wrong.Load() != 0 {
		t.Errorf("%d runs went wrong", wrong.Load())
	}
}

func BenchmarkEdge(b *testing.B) {
	run := NewRun(b.Context())
	Source(run, "numbers", count(max(b.N, 1))).
		Via(Via(run, "a", pass(0), 4)).
		To(Sink(run, "end", func(context.Context, int) error { return nil }))
	if err := run.Wait(); err != nil {
		b.Fatal(err)
	}
}
