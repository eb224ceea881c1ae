package raftnode

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestChangeInItsTime: whoever asks for a change of the members, of whichever node, waits as long as was said, and not for a change before it.
func TestChangeInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.stopAll()
		leader := c.leader(c.ids()...)
		c.caughtUp(c.others(leader)[0])
		c.nodes[leader].changing <- struct{}{} // another one is under way
		ask := Change{Op: OpAdd, IDs: []int{4}, Raft: "raft-4:1", HTTP: "http-4:1"}
		for _, id := range []string{leader, c.others(leader)[0]} {
			for _, limit := range []time.Duration{time.Second, 100 * time.Second} {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				began := time.Now()
				_, err := c.nodes[id].Change(ctx, ask)
				cancel()
				var refusal *ChangeError
				if took := time.Since(began); took < limit || took > limit+time.Millisecond || !errors.As(err, &refusal) {
					t.Errorf("node %s, %s: %v after %s", id, limit, err, took)
					continue
				}
				if id == leader && refusal.Code != "in_flight" {
					t.Errorf("node %s, %s: %v", id, limit, refusal)
				}
			}
		}
		time.Sleep(time.Second) // of the leader's own clock for them, nothing is left
		<-c.nodes[leader].changing
		for _, id := range []string{c.others(leader)[0], leader} {
			if m, err := c.nodes[id].Change(t.Context(), ask); err != nil || len(m.Learners) != 1 {
				t.Errorf("node %s: %+v, %v", id, m, err)
			}
		}
	})
}
