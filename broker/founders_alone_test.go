package broker

import (
	"context"
	"errors"
	"net"
	"slices"
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

// TestAFounderWithoutItsDiskInTheFirstMoment: a node that votes stopped when it had a leader's first entry and not the seed yet, and was away while the others acknowledged pushes. It
// knows by its log that there is a cluster, and one that has lost its disk meanwhile does not begin another one with it.
func TestAFounderWithoutItsDiskInTheFirstMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, away := firstMoment(t)
		defer c.stopAll()
		left := slices.DeleteFunc([]int{1, 2, 3}, func(id int) bool { return id == away })
		kept, wiped := left[0], left[1]
		c.settled(left...)
		for n := range 10 {
			c.push(kept, "p", uint64(n), 1, 10)
		}
		c.same(10, left...)
		c.stop(kept)
		c.stop(wiped)
		delete(c.disks, wiped)
		delete(c.wals, wiped)
		c.start(away, false)
		if _, known := c.nodes[away].State().Seed(); known {
			t.Fatal("it knows the seed: the test does not test")
		}
		c.start(wiped, false)
		c.nobodyLeads(away, wiped)
		c.start(kept, false)
		c.settled(1, 2, 3)
		c.same(10, 1, 2, 3)
	})
}

// firstMoment is a new cluster of which one node was stopped that has an entry of a leader's, votes, and does not know the seed. Which moments there are is chance.
func firstMoment(t *testing.T) (c *trio, stopped int) {
	t.Helper()
	for range 200 {
		c := coldTrio(t, 3)
		for id := 1; id <= 3; id++ {
			c.start(id, false)
		}
		if id := c.unaware(); id > 0 {
			c.cut(id, true)
			c.stop(id)
			c.cut(id, false)
			if c.votes(id) {
				return c, id
			}
		}
		c.stopAll()
	}
	t.Fatal("no node knew of a leader and not of the seed: the test does not test")
	return nil, 0
}

// unaware waits for a follower that has a leader's entry and does not know the seed; 0: there was none.
func (c *trio) unaware() int {
	c.t.Helper()
	for range 5000 {
		all := true
		for id, n := range c.nodes {
			_, known := n.State().Seed()
			if at := n.Status(); at.LastLog > raftnode.FreshEntries && !known && at.Role == "follower" {
				return id
			}
			all = all && known
		}
		if all {
			return 0
		}
		time.Sleep(time.Millisecond)
	}
	return 0
}

// votes says whether a node that is stopped may vote when it starts again.
func (c *trio) votes(id int) bool {
	c.t.Helper()
	store, err := onMemory(c.disks[id], c.wals[id], nil).OpenStore("/data/raft")
	if err != nil {
		c.t.Fatal(err)
	}
	fresh, err := store.GetUint64([]byte("Fresh"))
	if err := errors.Join(err, store.Close()); err != nil {
		c.t.Fatal(err)
	}
	return fresh == 0
}

// TestTheOnlyFounderHearsOfAClusterWithoutALeader: the same when one of the others is away, so that the last one leads nobody: it looks for votes, and so node 1 hears of the cluster.
func TestTheOnlyFounderHearsOfAClusterWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := grown(t)
		defer c.stopAll()
		c.push(1, "p", 0, 1, 10)
		c.same(1, 1, 2, 3)
		c.stop(1)
		c.stop(3)
		delete(c.disks, 1)
		delete(c.wals, 1)
		time.Sleep(10 * time.Second)
		c.start(1, false)
		c.nobodyLeads(1, 2)
		c.start(3, true)
		c.settled(1, 2, 3)
		c.push(1, "p", 1, 1, 10)
		c.same(2, 1, 2, 3)
	})
}
