package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// bucketFaults are what the store can do, by name.
func bucketFaults() map[string]bucketFault {
	return map[string]bucketFault{"bucket down": bucketDown, "bucket answers 503": bucketBusy, "bucket slow": bucketSlow, "bucket cuts bodies": bucketCut,
		"bucket's answers lost": bucketLost}
}

// The kinds of the lane of clocks.
const (
	clockAhead  = "clock an hour ahead"
	clockBehind = "clock an hour behind"
)

// kinds are all that must have been played.
func kinds() []string {
	out := []string{clockAhead, clockBehind}
	for _, f := range nodeFaults() {
		out = append(out, f.kind)
	}
	for kind := range bucketFaults() {
		out = append(out, kind)
	}
	return out
}

// rounds yields the numbers below n, shuffled, again and again: each kind comes once before any comes twice.
func rounds(r *rand.Rand, n int) func() int {
	var left []int
	return func() int {
		if len(left) == 0 {
			left = r.Perm(n)
		}
		next := left[0]
		left = left[1:]
		return next
	}
}

// nodeLane plays faults of nodes one after the other until ctx ends. It ends early when the cluster does not get well.
func (c *cluster) nodeLane(ctx context.Context, r *rand.Rand) {
	faults := nodeFaults()
	for next := rounds(r, len(faults)); ctx.Err() == nil; {
		f := faults[next()]
		start := time.Now()
		err := f.play(ctx, c, r)
		if err == nil && ctx.Err() == nil {
			c.count(f.kind)
		}
		if err != nil {
			c.t.Errorf("%s: %v", f.kind, err)
		}
		well := c.settled()
		c.t.Logf("%s; well again %.1f s after it began", f.kind, time.Since(start).Seconds())
		if well != nil {
			c.t.Errorf("%s: %v", f.kind, well)
			return
		}
		for _, n := range c.nodes {
			n.doomed = ""
		}
		if err := c.pause(ctx, between(r, 500*time.Millisecond, 3*time.Second)); err != nil {
			c.t.Error(err)
			return
		}
	}
}

// bucketLane plays faults of the bucket beside those of nodes. One counts when a request has met it.
func (c *cluster) bucketLane(ctx context.Context, r *rand.Rand) {
	var names []string
	for _, kind := range kinds() { // not the map: its order is not the seed's
		if _, ok := bucketFaults()[kind]; ok {
			names = append(names, kind)
		}
	}
	slices.Sort(names)
	for next := rounds(r, len(names)); ctx.Err() == nil; {
		kind := names[next()]
		c.bucket.set(bucketFaults()[kind])
		wait(ctx, between(r, 3*time.Second, 9*time.Second))
		if c.bucket.hits() > 0 {
			c.count(kind)
		}
		c.bucket.set(bucketWell)
		wait(ctx, between(r, 2*time.Second, 12*time.Second))
	}
}

// clockLane moves the wall clocks of one to three nodes by an hour, and back. One counts when it has lasted.
func (c *cluster) clockLane(ctx context.Context, r *rand.Rand) {
	for next := rounds(r, 2); ctx.Err() == nil; {
		kind, offset := clockAhead, 3600
		if next() == 1 {
			kind, offset = clockBehind, -3600
		}
		some := r.Perm(nodes)[:1+r.IntN(nodes)]
		for _, i := range some {
			if err := c.nodes[i].setClock(offset); err != nil {
				c.t.Error(err)
			}
		}
		wait(ctx, between(r, 10*time.Second, 40*time.Second))
		for _, i := range some {
			if err := c.nodes[i].setClock(0); err != nil {
				c.t.Error(err)
			}
		}
		if ctx.Err() == nil {
			c.count(kind)
		}
		wait(ctx, between(r, 2*time.Second, 15*time.Second))
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
