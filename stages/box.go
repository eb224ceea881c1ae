package stages

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/reugn/go-streams"
)

// errGone is the error of a stage that ended its goroutine instead of returning.
var errGone = errors.New("ended its goroutine")

// box is one source, stage or sink of a pipeline, with the edge in front of it. Its constructors return it as the interface that it
// is meant to be.
type box struct {
	run             *Run
	name            string
	inType, outType reflect.Type // nil: a source has no input, a sink no output
	in              chan any     // the edge in front; nil for a source
	out             chan<- any   // the edge behind: the next box's in; nil for a sink
	outside         chan any     // out, when it was asked for from outside
	prev, next      *box         // neighbours of ours
	work            func(ctx context.Context) error
	done            chan struct{} // closed when the box has ended
	started         bool
}

var (
	_ streams.Source = (*box)(nil)
	_ streams.Flow   = (*box)(nil)
	_ streams.Sink   = (*box)(nil)
)

// In is the edge in front of the box, for an outlet that is not ours. Who sends there closes it.
func (b *box) In() chan<- any { return b.in }

// Out is the edge behind the box, for an inlet that is not ours. Asking for it starts the boxes up to here.
func (b *box) Out() <-chan any {
	if b.outside == nil {
		b.outside = make(chan any)
		b.join(b.outside, nil)
		b.start()
	}
	return b.outside
}

// Via joins the next flow. A flow that is not ours starts the boxes up to here, since it started itself.
func (b *box) Via(f streams.Flow) streams.Flow {
	next, ours := f.(*box)
	b.join(f.In(), next)
	if !ours {
		b.start()
	}
	return f
}

// To joins the sink, starts the pipeline and waits until the sink has ended.
func (b *box) To(s streams.Sink) {
	next, ours := s.(*box)
	b.join(s.In(), next)
	b.start()
	if ours {
		next.start()
	}
	s.AwaitCompletion()
}

// AwaitCompletion waits until the box has ended.
func (b *box) AwaitCompletion() { <-b.done }

// join sets the edge behind b; next is nil when the receiver is not ours. A mistake stops the run before it started.
func (b *box) join(edge chan<- any, next *box) {
	switch {
	case b.out != nil:
		b.run.Fail(fmt.Errorf("pipeline: %s is joined twice: to %s and to %s", b.name, b.next.label(), next.label()))
		if next == nil || next.prev == nil { // nobody else will ever close this edge
			close(edge)
		}
		return
	case next == nil:
	case next.prev != nil:
		b.run.Fail(fmt.Errorf("pipeline: %s is joined twice: behind %s and behind %s", next.name, next.prev.name, b.name))
		edge, next = make(chan any), nil // an edge to nowhere: the run has failed, nothing is sent
	case next.run != b.run:
		b.run.Fail(fmt.Errorf("pipeline: %s and %s belong to different runs", b.name, next.name))
		next.run.Fail(fmt.Errorf("pipeline: %s and %s belong to different runs", b.name, next.name))
	case !b.outType.AssignableTo(next.inType):
		b.run.Fail(fmt.Errorf("pipeline: %s gives %v, %s wants %v", b.name, b.outType, next.name, next.inType))
	}
	b.out, b.next = edge, next
	if next != nil {
		next.prev = b
	}
}

// label is the name of a box, or what to call a neighbour that is not ours.
func (b *box) label() string {
	if b == nil {
		return "a flow from outside"
	}
	return b.name
}

// start starts the box and all boxes of ours in front of it.
func (b *box) start() {
	for ; b != nil && !b.started; b = b.prev {
		b.started = true
		b.run.boxes.Add(1)
		go b.live()
	}
}

// live is the box's goroutine: work, then throw away what is left of the input, then close the edge behind.
func (b *box) live() {
	defer b.run.boxes.Done()
	defer close(b.done)
	defer func() {
		if b.out != nil {
			close(b.out)
		}
	}()
	defer func() {
		if b.in != nil {
			for v := range b.in { // nothing in front may block for ever
				discard(v)
			}
		}
	}()
	err := errGone
	defer func() {
		if err != nil {
			b.run.Fail(fmt.Errorf("%s: %w", b.name, err))
		}
	}()
	err = b.try()
}

// try works unless the run has stopped already.
func (b *box) try() error {
	ctx := b.run.ctx
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return Guard(func() error { return b.work(ctx) })
}

// send hands v to the edge behind, or fails with the reason why the run stopped. It takes v over either way.
func (b *box) send(ctx context.Context, v any) error {
	if ctx.Err() != nil {
		discard(v)
		return context.Cause(ctx)
	}
	select {
	case b.out <- v:
		return nil
	case <-ctx.Done():
		discard(v)
		return context.Cause(ctx)
	}
}

// discard ends an element that nobody will work on. One that holds counted memory (Chunk) gives it back.
func discard(v any) {
	if r, ok := v.(interface{ Release() }); ok {
		r.Release()
	}
}
