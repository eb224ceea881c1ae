package upload

import (
	"context"
	"sync"
)

// putsInFlight is how many objects of a window travel at once, each in one request: as many as the client keeps connections for.
const putsInFlight = 16

// puts sends whole objects of one window side by side, each in one request.
//
// Invariants:
//   - What they hold and the chunks that room was asked for are at most `most` together.
//   - The first that fails ends the others, and its error is what each later call returns.
//   - After idle without an error the store has answered for all of them. After stop no goroutine runs and no chunk is held.
//
// start, room, idle and stop are called by one goroutine.
type puts struct {
	ctx    context.Context // of the window: it spans several calls and ends with the first object that fails
	cancel context.CancelCauseFunc
	most   int64 // chunks
	hook   func(point string)
	slots  chan struct{}
	ended  chan struct{} // one has ended since somebody looked
	group  sync.WaitGroup

	mu   sync.Mutex
	held int64 // chunks
}

func newPuts(ctx context.Context, most int64, hook func(string)) *puts {
	p := &puts{most: most, hook: hook, slots: make(chan struct{}, putsInFlight), ended: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

// start sends an object and waits only for its turn. It takes the object over, whether it fails or not.
func (p *puts) start(o *object) error {
	select {
	case p.slots <- struct{}{}:
	case <-p.ctx.Done():
	}
	if p.ctx.Err() != nil {
		o.drop()
		return context.Cause(p.ctx)
	}
	n := o.chunks()
	p.add(n)
	p.group.Go(func() {
		if _, err := o.finish(p.ctx); err != nil {
			p.cancel(err)
		} else {
			p.hook(PointMidUpload)
		}
		p.add(-n)
		<-p.slots
		select {
		case p.ended <- struct{}{}:
		default:
		}
	})
	return nil
}

func (p *puts) add(chunks int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held += chunks
}

// room waits until so many chunks can be held beside what is on its way.
func (p *puts) room(chunks int64) error {
	return p.until(func(held int64) bool { return held+chunks <= p.most })
}

// idle waits until nothing is on its way.
func (p *puts) idle() error {
	return p.until(func(held int64) bool { return held == 0 })
}

// until looks at what is held before it looks for a failure: an object that fails says so before it gives its chunks back, so nothing that is found
// free here was left behind by one. The other way round one could fail in between, and the window would count as sent without it.
func (p *puts) until(free func(held int64) bool) error {
	for {
		p.mu.Lock()
		ok := p.held == 0 || free(p.held)
		p.mu.Unlock()
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		if ok {
			return nil
		}
		select {
		case <-p.ended:
		case <-p.ctx.Done():
		}
	}
}

// stop ends what is on its way and waits for it. It is safe to call twice.
func (p *puts) stop() {
	p.cancel(errAborted)
	p.group.Wait()
}
