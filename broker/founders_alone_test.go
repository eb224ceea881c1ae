package broker

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"queen/broker/raftnode"
)

// grown is a cluster that began with one member, whose list of first members it is, and has three.
func grown(t *testing.T) *trio {
	c := newTrio(t, 1)
	c.settled(1)
	c.join(2)
	c.join(3)
	return c
}

// join adds a node that has never been started as a voter.
func (c *trio) join(id int) {
	c.t.Helper()
	c.start(id, true)
	c.members(1, raftnode.Change{Op: raftnode.OpAdd, IDs: []int{id}, Raft: peerOf(id).Raft, HTTP: peerOf(id).HTTP})
	c.settled(id)
	time.Sleep(2 * time.Second)
	c.members(1, raftnode.Change{Op: raftnode.OpPromote, IDs: []int{id}})
}

// members changes the members, again while the leadership moves.
func (c *trio) members(by int, ch raftnode.Change) {
	c.t.Helper()
	for range 100 {
		_, err := c.nodes[by].Node().Change(c.t.Context(), ch)
		var refusal *raftnode.ChangeError
		if err == nil {
			return
		}
		if !errors.As(err, &refusal) || refusal.Code != "leader_changed" && refusal.Code != "leader_unreachable" {
			c.t.Fatalf("%+v: %v", ch, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatalf("%+v: nobody leads", ch)
}

// TestTheOnlyFounderWithoutItsDisk: the list of first members of node 1 has nobody else, since the cluster grew afterwards. It loses its disk and starts with the same settings: it
// does not begin a cluster of its own, which would take pushes that nobody has, but gets what the others have. So it is when it reaches nobody and they reach it.
func TestTheOnlyFounderWithoutItsDisk(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := grown(t)
			defer c.stopAll()
			for n := range 10 {
				c.push(1+n%3, "p", uint64(n), 1, 10)
			}
			c.same(10, 1, 2, 3)
			seed, _ := c.nodes[2].State().Seed()
			c.stop(1)
			delete(c.disks, 1)
			delete(c.wals, 1)
			time.Sleep(10 * time.Second)
			if deaf {
				c.change = func(_ int, o *Options) {
					o.Cluster.Dial = func(context.Context, string) (net.Conn, error) { return nil, errors.New("connection refused") }
				}
			}
			c.start(1, false)
			c.settled(1)
			if got, _ := c.nodes[1].State().Seed(); got != seed {
				t.Fatalf("node 1 has begun the cluster %x, the others are %x", got, seed)
			}
			c.push(2, "p", 100, 1, 10)
			c.same(11, 1, 2, 3)
		})
	}
}
