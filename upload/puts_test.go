package upload

import (
	"context"
	"errors"
	"testing"
)

// between is a context that something happens to right behind the first look at it.
type between struct {
	context.Context
	happen func()
}

func (b *between) Err() error {
	err := b.Context.Err()
	if f := b.happen; f != nil {
		b.happen = nil
		f()
	}
	return err
}

// An object fails while the window looks whether it waits for anything: it must not pass for sent, or a manifest would name it.
func TestFailureBetweenTwoLooks(t *testing.T) {
	for name, wait := range map[string]func(p *puts) error{
		"idle": (*puts).idle,
		"room": func(p *puts) error { return p.room(1) },
	} {
		p := newPuts(t.Context(), 1, func(string) {})
		refused := errors.New("refused")
		p.add(1)
		fail := func() { // as start's goroutine does
			p.cancel(refused)
			p.add(-1)
			p.ended <- struct{}{}
		}
		looked := &between{p.ctx, fail}
		p.ctx = looked
		if err := wait(p); !errors.Is(err, refused) {
			t.Errorf("%s: %v", name, err)
		}
		p.stop()
	}
}
