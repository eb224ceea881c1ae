package raftnode

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"queen/stages"
)

// TestALeaderThatStandsStill: a command that was handed to a leader which does not answer any more is answered when the others have another one, and not when its time is over. Nobody knows
// whether it is in the log; the next one is.
func TestALeaderThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.stopAll()
		leader := c.leader(c.ids()...)
		others := c.others(leader)
		for _, id := range c.ids() { // streams are open
			if err := c.push(id, "before, from "+id); err != nil {
				t.Fatal(err)
			}
		}
		c.cut(leader, others, true)
		answers := make(chan error, len(others))
		began := time.Now()
		for _, id := range others {
			go func() { answers <- c.push(id, "at a node that stands still, from "+id) }()
		}
		for range others {
			if err := <-answers; !errors.Is(err, stages.ErrUnclear) || time.Since(began) > 4*time.Second {
				t.Errorf("answered after %s: %v", time.Since(began), err)
			}
		}
		now := c.leader(others...)
		if err := c.push(now, "after"); err != nil {
			t.Error(err)
		}
		c.cut(leader, others, false)
		time.Sleep(2 * callTimeout)
		for _, id := range c.ids() {
			if err := c.push(id, "well again, from "+id); err != nil {
				t.Errorf("node %s: %v", id, err)
			}
		}
	})
}
