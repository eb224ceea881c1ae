package raftnode

import (
	"context"
	"fmt"
	"sync"
)

// handed are the commands that this node has handed to a leader and that are not answered. A leader that stands still answers none, and others elect another one meanwhile: whoever
// waits for the old one would wait for all of answerLimit. Whether such a command is in the log nobody can say yet, so its outcome is unknown.
type handed struct {
	mu    sync.Mutex
	calls map[*handedCall]struct{}
}

type handedCall struct {
	leader string
	end    context.CancelCauseFunc
}

// to notes a call to a leader: end is called when another node leads, unless done came before.
func (h *handed) to(leader string, end context.CancelCauseFunc) (done func()) {
	c := &handedCall{leader, end}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = map[*handedCall]struct{}{}
	}
	h.calls[c] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.calls, c)
	}
}

// leads ends the calls to every other node.
func (h *handed) leads(leader string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.calls {
		if c.leader != leader {
			c.end(fmt.Errorf("node %s leads now", leader))
		}
	}
}
