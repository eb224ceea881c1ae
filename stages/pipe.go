package stages

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/reugn/go-streams"
)

// Stage is one step of a pipeline. It starts no goroutine and owns no channel: the pipeline does. Do is called once for each
// input, in order, and Drain once after the last of them, from one goroutine; after an error, a panic or a cancel neither is
// called again. emit hands a value on and blocks while the edge behind it is full; its error is the reason why the pipeline
// stops, and the stage returns it. What was emitted belongs to the receiver, and what Do was called with to the stage, whether the
// call fails or not: who throws away an element with a method Release calls it.
type Stage[I, O any] interface {
	Do(ctx context.Context, in I, emit func(O) error) error
	Drain(ctx context.Context, emit func(O) error) error
}

// Run is the life of one pipeline: its context, its goroutines and its first error.
//
//	run := NewRun(ctx)
//	Source(run, "headers", gen).
//		Via(Via(run, "window", cutter, 1)).
//		Via(Via(run, "upload", up, 4)).
//		To(Sink(run, "finish", fin))
//	err := run.Wait()
//
//	           edge of 1             edge of 4              edge of 0
//	+--------+  +-+   +-----------+  +-+-+-+-+  +-----------+       +------+
//	| gen    |->| |-->| Do, Drain |->| | | | |->| Do, Drain |------>| fn   |     one goroutine a box
//	+--------+  +-+   +-----------+  +-+-+-+-+  +-----------+       +------+
//	     |                  |                         |                |
//	     +------------------+-----------+-------------+----------------+
//	                                    v
//	          first error or panic -> cancel with cause -> Wait returns it
//
// Invariants:
//
//  1. Order is kept. At most one element is in each box and as many on each edge as its buffer says.
//  2. Drain: when gen returns nil, its edge closes; each stage takes what is left, runs its Drain, and closes the next edge. Nothing
//     is lost on that way.
//  3. Stop: the first error, the first panic, or the end of the parent context cancels all boxes. From then on nothing is worked on;
//     each box throws away its input until that is closed, so that no sender blocks for ever, whoever the sender is. What is thrown
//     away, or could not be handed on, is released if it has memory to give back.
//  4. Wait returns nil only if every stage saw all of its input and ended its Drain.
//  5. Nothing runs before To: the types of all edges are compared first, and a mistake is the run's error, naming both stages.
//
// The joints are the interfaces of go-streams, so flows and sinks made for that library fit between ours. It has neither errors nor a
// context, and its own flows panic on a wrong type; what stands here is what it lacks. An element costs about a microsecond an edge:
// move batches and chunks, never single records.
type Run struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	boxes  sync.WaitGroup
	failed atomic.Bool
}

// NewRun returns the run of a pipeline that is cancelled when parent is. Wait frees what it holds.
func NewRun(parent context.Context) *Run {
	r := &Run{}
	r.ctx, r.cancel = context.WithCancelCause(parent)
	return r
}

// Context is the context that the stages of this run are called with. Its cause is the run's first error.
func (r *Run) Context() context.Context { return r.ctx }

// Fail stops the pipeline with err unless something else has stopped it before: the first one wins. A nil err does nothing.
func (r *Run) Fail(err error) {
	if err != nil {
		r.failed.Store(true)
		r.cancel(err)
	}
}

// Wait waits until no goroutine of the pipeline is left and returns its first error, or nil if all of it was done. Call it after
// To has returned; calling it again gives the same answer.
func (r *Run) Wait() error {
	r.boxes.Wait()
	var err error
	if r.failed.Load() {
		err = context.Cause(r.ctx)
	}
	r.cancel(nil)
	return err
}

// PanicError is a panic of a stage, as the error of its run.
type PanicError struct {
	Value any
	Stack []byte
}

// Error says what the stage panicked with; Stack says where.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic when it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Source starts a pipeline. gen is called once and ends the stream by returning; a nil error drains the pipeline. gen must return soon
// after emit fails or ctx ends.
func Source[O any](run *Run, name string, gen func(ctx context.Context, emit func(O) error) error) streams.Source {
	b := &box{run: run, name: name, outType: reflect.TypeFor[O](), done: make(chan struct{})}
	b.work = func(ctx context.Context) error {
		if err := gen(ctx, emitter[O](b, ctx)); err != nil {
			return err
		}
		return context.Cause(ctx)
	}
	return b
}

// Via makes a flow of a stage. buffer is how many elements may wait in front of it, 0 or more.
func Via[I, O any](run *Run, name string, stage Stage[I, O], buffer int) streams.Flow {
	b := &box{
		run: run, name: name, inType: reflect.TypeFor[I](), outType: reflect.TypeFor[O](),
		in: make(chan any, buffer), done: make(chan struct{}),
	}
	b.work = func(ctx context.Context) error {
		emit := emitter[O](b, ctx)
		err := each(ctx, b, func(in I) error { return stage.Do(ctx, in, emit) })
		if err != nil {
			return err
		}
		return stage.Drain(ctx, emit)
	}
	return b
}

// Sink ends a pipeline: fn is called for each element, in order. Its edge holds no element beside the one fn works on.
func Sink[I any](run *Run, name string, fn func(ctx context.Context, in I) error) streams.Sink {
	b := &box{run: run, name: name, inType: reflect.TypeFor[I](), in: make(chan any), done: make(chan struct{})}
	b.work = func(ctx context.Context) error {
		return each(ctx, b, func(in I) error { return fn(ctx, in) })
	}
	return b
}

// emitter returns the emit function of a box.
func emitter[O any](b *box, ctx context.Context) func(O) error {
	return func(v O) error { return b.send(ctx, v) }
}

// each calls fn for every element of the box's input, and fails once the run has stopped.
func each[I any](ctx context.Context, b *box, fn func(I) error) error {
	for element := range b.in {
		if ctx.Err() != nil {
			discard(element)
			break
		}
		in, ok := element.(I)
		if !ok && (element != nil || b.inType.Kind() != reflect.Interface) {
			return fmt.Errorf("got a %T, wants a %v", element, b.inType)
		}
		if err := fn(in); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// Guard calls fn and turns a panic into a *PanicError, on the goroutine that has the stack: a stage that starts goroutines of its own calls it
// in each. One that ends its goroutine (runtime.Goexit) is reported by the caller.
func Guard(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return fn()
}
