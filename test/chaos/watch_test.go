package chaos

import (
	"context"
	"sync"
	"time"
)

// watch looks at all nodes all the time: who leads, who owns which queue.
type watch struct {
	c *cluster

	mu        sync.Mutex
	led       time.Time     // when a leader was last seen
	longest   time.Duration // without one
	leaders   int           // how often another node led than before
	leader    int
	owners    map[string]int // queue -> node
	takeovers int
}

func newWatch(c *cluster) *watch { return &watch{c: c, led: time.Now(), owners: map[string]int{}} }

// run looks until ctx ends.
func (w *watch) run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for _, n := range w.c.nodes {
		group.Go(func() { w.follow(ctx, n) })
	}
	for ctx.Err() == nil {
		w.mu.Lock()
		w.longest = max(w.longest, time.Since(w.led))
		w.mu.Unlock()
		wait(ctx, 50*time.Millisecond)
	}
}

// follow asks one node.
func (w *watch) follow(ctx context.Context, n *node) {
	ask := client(400 * time.Millisecond)
	for i := 0; ctx.Err() == nil; i++ {
		if h, err := n.health(ask); err == nil && h.leads() {
			w.leads(n.id)
		}
		if i%3 == 0 {
			if rows, err := n.rows(ask); err == nil {
				w.holds(n.id, rows)
			}
		}
		wait(ctx, 100*time.Millisecond)
	}
}

func (w *watch) leads(id int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest, w.led = max(w.longest, time.Since(w.led)), time.Now()
	if w.leader != id {
		w.leader = id
		w.leaders++
	}
}

func (w *watch) holds(id int, rows []row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rows {
		if r.OwnedHere {
			w.owners[r.Name] = id
		}
	}
}

// takeovers counts how often a node took a queue that another one, or an earlier process, had owned.
func (c *cluster) takeovers() int {
	count := -len(queues())
	for _, n := range c.nodes {
		for _, p := range n.processes() {
			count += p.Count(" this node owns the queue ")
		}
	}
	return count
}

// owns returns how many queues the node was last seen to own.
func (w *watch) owns(id int) (count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, owner := range w.owners {
		if owner == id {
			count++
		}
	}
	return count
}
