package sim

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// states is what the replicated rows of each node were, at which index of the log: the same index has the same rows, on every node and in
// every life, whether they were applied or came as a snapshot.
type states struct {
	mu  sync.Mutex
	sum map[uint64]seen
}

type seen struct {
	sum  [sha256.Size]byte
	node int
}

// watch looks at all nodes until ctx ends. They apply an entry within the same simulated moment, so most of what it sees can be compared.
func (s *states) watch(ctx context.Context, w *world) {
	for ctx.Err() == nil {
		for _, m := range w.node {
			if l := m.runs(); l != nil && !l.dark.Load() {
				s.look(w, l)
			}
		}
		time.Sleep(time.Second)
	}
}

// look compares a node with what was seen at its index before. One that is stopping shows nothing.
func (s *states) look(w *world, l *life) {
	hash := sha256.New()
	applied, err := l.broker.State().Shared(func(key, value []byte) { fmt.Fprintf(hash, "%x %x\n", key, value) })
	if err != nil {
		return
	}
	now := seen{[sha256.Size]byte(hash.Sum(nil)), l.m.id}
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.sum[applied]
	if !ok {
		s.sum[applied] = now
		return
	}
	w.count("states compared")
	if was.sum != now.sum {
		w.fail("the states of nodes %d and %d differ at entry %d", was.node, now.node, applied)
	}
}

// atRest compares all nodes row by row, when they have applied the same.
func (w *world) atRest() {
	var text [nodes][]string
	var applied [nodes]uint64
	for range 1000 {
		for i, m := range w.node {
			text[i] = nil
			var err error
			if applied[i], err = m.runs().broker.State().Shared(func(key, value []byte) {
				text[i] = append(text[i], fmt.Sprintf("%c %x = %x", key[0], key[1:], value))
			}); err != nil {
				w.fail("node %d: %v", m.id, err)
				return
			}
		}
		if slices.Max(applied[:]) == slices.Min(applied[:]) {
			break
		}
		time.Sleep(7 * time.Millisecond)
	}
	if len(text[0]) < 20 || slices.Max(applied[:]) != slices.Min(applied[:]) {
		w.fail("the nodes are at entries %v, with %d rows: nothing was compared", applied, len(text[0]))
	}
	for i := 1; i < nodes; i++ {
		if !slices.Equal(text[0], text[i]) {
			w.fail("the states of nodes 1 and %d differ at entry %d:\n%s", i+1, applied[0], firstDifference(strings.Join(text[0], "\n"), strings.Join(text[i], "\n")))
		}
	}
	w.count("states compared at rest")
}
