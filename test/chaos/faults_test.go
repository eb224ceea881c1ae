package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// fault is a kind of fault. play plays it once and heals it, and leaves a node doomed that may still end of it; ctx ends with the run, and then it is healed at once. An error says that what
// happened is not what a cluster may do, or that the fault could not be played.
type fault struct {
	kind string
	play func(ctx context.Context, c *cluster, r *rand.Rand) error
}

// nodeFaults are what can happen to nodes, their disks and their network: one at a time, since two of three nodes must be well for writes.
func nodeFaults() []fault {
	return []fault{
		{"kill -9 of the leader", killed(func(c *cluster, _ *rand.Rand) (*node, error) { return c.leader() })},
		{"kill -9 of a follower", killed((*cluster).follower)},
		{"kill -9 of an owner", killed((*cluster).owner)},
		{"SIGTERM and start", terminated},
		{"SIGSTOP of the leader past the lease", stopped(func(c *cluster, _ *rand.Rand) (*node, error) { return c.leader() })},
		{"SIGSTOP of an owner past the lease", stopped((*cluster).owner)},
		{"partition of a node, both ways", isolatedNode((*cluster).follower)},
		{"partition of the leader while it serves", isolatedNode(func(c *cluster, _ *rand.Rand) (*node, error) { return c.leader() })},
		{"partition one way", oneWay},
		{"partition between leader and follower", linkCut},
		{"slow fsync", slowSync},
		{"failing fsync", failingSync},
		{"full disk", fullDisk},
	}
}

type chooser func(*cluster, *rand.Rand) (*node, error)

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

func killed(of chooser) func(context.Context, *cluster, *rand.Rand) error {
	return func(ctx context.Context, c *cluster, r *rand.Rand) error {
		n, err := of(c, r)
		if err != nil {
			return err
		}
		n.doomed = "kill -9"
		n.kill()
		down := time.Duration(0)
		if r.IntN(2) == 0 { // half of them are away long enough for a lease to run out
			down = between(r, time.Second, leaseTTL+2*time.Second)
		}
		select {
		case <-time.After(down):
		case <-ctx.Done():
		}
		n.start()
		return nil
	}
}

func terminated(ctx context.Context, c *cluster, r *rand.Rand) error {
	n := c.nodes[r.IntN(nodes)]
	n.doomed = "SIGTERM"
	err := n.stop()
	if err != nil {
		n.kill()
	}
	select {
	case <-time.After(between(r, 0, 2*time.Second)):
	case <-ctx.Done():
	}
	n.start()
	return err
}

func stopped(of chooser) func(context.Context, *cluster, *rand.Rand) error {
	return func(ctx context.Context, c *cluster, r *rand.Rand) error {
		n, err := of(c, r)
		if err != nil {
			return err
		}
		n.process().Signal(syscall.SIGSTOP)
		err = c.pause(ctx, between(r, leaseTTL+500*time.Millisecond, 2*leaseTTL+time.Second))
		n.process().Signal(syscall.SIGCONT)
		return err
	}
}

// cutFor cuts pairs of nodes for a while.
func cutFor(ctx context.Context, c *cluster, r *rand.Rand, pairs [][2]*node) error {
	var errs []error
	for _, p := range pairs {
		errs = append(errs, c.net.cut(p[0].id, p[1].id))
	}
	errs = append(errs, c.pause(ctx, between(r, 3*time.Second, 8*time.Second)), c.net.heal())
	return errors.Join(errs...)
}

func isolatedNode(of chooser) func(context.Context, *cluster, *rand.Rand) error {
	return func(ctx context.Context, c *cluster, r *rand.Rand) error {
		n, err := of(c, r)
		if err != nil {
			return err
		}
		var pairs [][2]*node
		for _, o := range c.others(n) {
			pairs = append(pairs, [2]*node{n, o}, [2]*node{o, n})
		}
		return cutFor(ctx, c, r, pairs)
	}
}

// oneWay: a node is heard and hears nothing, or hears and is not heard.
func oneWay(ctx context.Context, c *cluster, r *rand.Rand) error {
	n, err := c.leader()
	if err == nil && r.IntN(2) == 0 {
		n, err = c.follower(r)
	}
	if err != nil {
		return err
	}
	heard := r.IntN(2) == 0
	var pairs [][2]*node
	for _, o := range c.others(n) {
		if heard {
			pairs = append(pairs, [2]*node{o, n})
		} else {
			pairs = append(pairs, [2]*node{n, o})
		}
	}
	return cutFor(ctx, c, r, pairs)
}

// linkCut: the leader and one follower do not reach each other, and the third reaches both.
func linkCut(ctx context.Context, c *cluster, r *rand.Rand) error {
	l, err := c.leader()
	if err != nil {
		return err
	}
	f := c.others(l)[r.IntN(nodes-1)]
	return cutFor(ctx, c, r, [][2]*node{{l, f}, {f, l}})
}

func slowSync(ctx context.Context, c *cluster, r *rand.Rand) error {
	n := c.nodes[r.IntN(nodes)]
	t := c.trace(n, fmt.Sprintf("delay_enter=%d", between(r, 50*time.Millisecond, 400*time.Millisecond).Microseconds()))
	err := c.pause(ctx, between(r, 4*time.Second, 8*time.Second))
	return errors.Join(err, t.detach())
}

// failingSync: a disk that does not write ends the process (a second try would say yes and lie), and it is started again.
func failingSync(_ context.Context, c *cluster, r *rand.Rand) error {
	n := c.nodes[r.IntN(nodes)]
	n.doomed = "fsync fails"
	t := c.trace(n, "error=EIO")
	code, err := n.process().Wait(30 * time.Second)
	switch {
	case err != nil:
		err = fmt.Errorf("node %d goes on while every fsync fails: %w", n.id, err)
		n.kill()
	case code != 1:
		err = fmt.Errorf("node %d ended with exit code %d after a failed fsync, want 1\n%s", n.id, code, n.lastLines(15))
	}
	t.p.Kill()
	n.start()
	return err
}

// fullDisk: the small disk takes nothing more, and the node ends and does not come up until there is room; or it has less than its reserve
// left, and the node refuses pushes and goes on.
func fullDisk(ctx context.Context, c *cluster, r *rand.Rand) error {
	n := c.nodes[small-1]
	left := r.Int64N(256 << 10)
	if r.IntN(2) == 0 {
		left = 64<<20 + r.Int64N(128<<20)
	} else {
		n.doomed = "disk full"
	}
	if err := n.disk.fill(left); err != nil {
		return err
	}
	felt, least := false, time.Now().Add(between(r, 4*time.Second, 8*time.Second))
	var err error
	for limit := time.Now().Add(30 * time.Second); err == nil && ctx.Err() == nil && time.Now().Before(limit) && (!felt || time.Now().Before(least)); {
		h, asked := n.health(c.ask.quick)
		felt = felt || n.ended() || asked == nil && !h.Raft.StorageReady
		err = c.pause(ctx, 100*time.Millisecond)
	}
	if err = errors.Join(err, n.disk.free()); err == nil && !felt && ctx.Err() == nil {
		err = fmt.Errorf("node %d did not notice for 30 s that its disk has %d bytes left", n.id, left)
	}
	return err
}
