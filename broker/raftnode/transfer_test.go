package raftnode

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"queen/broker/command"
)

// TestLeadershipMovesWithWritesOnTheirWay: the leadership goes round while every node takes commands. Whatever was answered is applied once, on all nodes;
// what was refused is applied nowhere, so that whoever is told so may send it again; and what is unclear is applied once or not at all.
func TestLeadershipMovesWithWritesOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.stopAll()
		leader := c.leader(c.ids()...)
		for _, id := range c.ids() {
			c.caughtUp(id)
		}
		deafen := func(id string, others []string, on bool) {
			for _, other := range others {
				c.net.Cut(member(other).Raft, member(id).Raft, on)
			}
		}
		var mu sync.Mutex
		answers := map[string]error{}
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for _, id := range c.ids() {
			node := c.nodes[id]
			for w := range 4 {
				wg.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						case <-time.After(5 * time.Millisecond):
						}
						text := fmt.Sprintf("%s-%d-%d", id, w, i)
						_, err := node.Propose(t.Context(), command.KindPush, []byte(text))
						mu.Lock()
						answers[text] = err
						mu.Unlock()
					}
				})
			}
		}
		for i := range 6 {
			time.Sleep(50 * time.Millisecond)
			if others := c.others(leader); i%3 == 2 { // the others get what they do not answer for, and go on with it
				deafen(leader, others, true)
				next := c.leader(others...)
				deafen(leader, others, false)
				leader = next
			} else {
				c.give(leader, others[i%2])
				leader = c.leader(c.ids()...)
			}
		}
		close(stop)
		wg.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		c.judge(answers)
	})
}

// judge compares what each command was answered with what every node applied.
func (c *cluster) judge(answers map[string]error) {
	c.t.Helper()
	done, unclear := 0, 0
	for _, id := range c.ids() {
		times := map[string]int{}
		for _, text := range c.tapes[id].seen() {
			times[text]++
		}
		for text, err := range answers {
			switch n := times[text]; {
			case err == nil && n == 1:
				done++
			case errors.Is(err, ErrUnclear) && n <= 1:
				unclear++
			case errors.Is(err, ErrNoLeader) && n == 0:
			default:
				c.t.Errorf("node %s applied %s %d times, its answer was %v", id, text, n, err)
			}
		}
	}
	if c.t.Logf("%d commands: %d done, %d unclear, on each node", len(answers), done/3, unclear/3); done == 0 || unclear == 0 {
		c.t.Error("the test does not test")
	}
}
