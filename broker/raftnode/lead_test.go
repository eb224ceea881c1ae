package raftnode

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// give has one node ask another to take the leadership, as raft does when it hands it over, and waits until what follows at once has happened.
func (c *cluster) give(from, to string) {
	c.t.Helper()
	ask := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3}}
	if err := c.nodes[from].carrier.TimeoutNow(raft.ServerID(to), raft.ServerAddress(member(to).Address()), ask, &raft.TimeoutNowResponse{}); err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
}

// TestALeaderWhileItsOldTransferEnds: a node hands the leadership to one that it cannot reach, loses it to a third one and gets it back, all before the call to the first one has ended. raft refuses
// commands until then, also the barrier of the new term. Afterwards the node leads: nobody else would, because the others hear that there is a leader.
func TestALeaderWhileItsOldTransferEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.stopAll()
		leader := c.leader(c.ids()...)
		if err := c.push(leader, "before"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // all have it, and the leader's clock does not tick yet: the transfer has nothing to wait for but its call
		away, third := c.others(leader)[0], c.others(leader)[1]
		c.net.Cut(member(leader).Raft, member(away).Raft, true)
		n := c.nodes[leader]
		n.raft.LeadershipTransferToServer(raft.ServerID(away), raft.ServerAddress(member(away).Address())) // ends when the call does
		synctest.Wait()
		c.give(leader, third)
		c.give(c.leader(third), leader)
		if n.raft.State() != raft.Leader || n.Leads() {
			t.Fatalf("node %s is %s and leads: %v; the test does not test", leader, n.raft.State(), n.Leads())
		}
		began := time.Now()
		if c.leader(leader); time.Since(began) > callTimeout+time.Second {
			t.Errorf("node %s leads after %s, the call ended after %s", leader, time.Since(began), callTimeout)
		}
		for _, id := range []string{leader, third} {
			if err := c.push(id, "after, from "+id); err != nil {
				t.Errorf("node %s: %v", id, err)
			}
		}
		c.net.Cut(member(leader).Raft, member(away).Raft, false)
		time.Sleep(2 * callTimeout) // whatever hung has ended
		if err := c.push(away, "after, from "+away); err != nil {
			t.Errorf("node %s: %v", away, err)
		}
		time.Sleep(time.Second)
		c.sameEverywhere(map[string]bool{"before": true, "after, from " + leader: true, "after, from " + third: true, "after, from " + away: true})
	})
}
