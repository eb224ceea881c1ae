package broker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/broker/command"
	"queen/broker/raftnode"
	"queen/internal/crashdisk"
	"queen/internal/crashwal"
)

// same waits until some nodes have the same appends, this many.
func (c *trio) same(n int, ids ...int) {
	c.t.Helper()
	want := c.records(ids[0], "orders")
	for range 100 {
		same := len(want) == n
		for _, id := range ids {
			same = same && slices.Equal(c.records(id, "orders"), want)
		}
		if same {
			return
		}
		time.Sleep(100 * time.Millisecond)
		want = c.records(ids[0], "orders")
	}
	for _, id := range ids {
		c.t.Errorf("node %d has %d appends, want %d", id, len(c.records(id, "orders")), n)
	}
}

// TestAFounderWithoutItsDisk: node 3 is away while nodes 1 and 2 acknowledge pushes. Node 2 loses its disk and starts with the settings of a founder while node 1 is away. Its
// vote would make node 3 a leader without what was acknowledged: it gives none until it has that.
func TestAFounderWithoutItsDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		defer c.stopAll()
		c.settled(1, 2, 3)
		c.push(1, "p", 0, 1, 10)
		c.same(1, 1, 2, 3)
		allVote()
		c.stop(3)
		for n := range 10 {
			c.push(1, "p", uint64(n+1), 1, 10)
		}
		c.same(11, 1, 2)
		c.stop(1)
		c.stop(2)
		delete(c.disks, 2)
		delete(c.wals, 2)
		c.start(2, false)
		c.start(3, false)
		c.nobodyLeads(2, 3)
		c.start(1, false)
		c.settled(1, 2, 3)
		c.same(11, 1, 2, 3)
		c.stop(1) // and from now on node 2 is as good as it was
		c.push(2, "p", 100, 1, 10)
		c.same(12, 2, 3)
	})
}

// allVote waits until a founder that came a moment after the others has seen that it has what they have: until then it does not vote, and with one good disk of three nobody would lead.
func allVote() { time.Sleep(time.Second) }

// nobodyLeads sees that none of these nodes leads within half a minute.
func (c *trio) nobodyLeads(ids ...int) {
	c.t.Helper()
	for range 600 {
		time.Sleep(50 * time.Millisecond)
		for _, id := range ids {
			if c.nodes[id].Node().Leads() {
				c.t.Fatalf("node %d leads without what nodes 1 and 2 acknowledged", id)
			}
		}
	}
}

// TestAFounderWithoutItsDiskSoonAfterTheBeginning: the same when the power of node 3 went before its state was flushed once. Until there is a leader it only knows from its folder
// that there is a cluster, and node 2 does not begin another one with it.
func TestAFounderWithoutItsDiskSoonAfterTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coldTrio(t, 3)
		defer c.stopAll()
		c.disks[3], c.wals[3] = crashdisk.New(), crashwal.New(nil)
		for id := 1; id <= 3; id++ {
			c.start(id, false)
		}
		c.settled(1, 2, 3)
		allVote()
		disk, wal := c.disks[3].CrashClone(vfs.CrashCloneCfg{}), c.wals[3].CrashClone(0, nil, nil)
		c.stop(3)
		c.disks[3], c.wals[3] = disk, wal
		for n := range 10 {
			c.push(1, "p", uint64(n), 1, 10)
		}
		c.same(10, 1, 2)
		c.stop(1)
		c.stop(2)
		delete(c.disks, 2)
		delete(c.wals, 2)
		c.start(3, false)
		if _, known := c.nodes[3].State().Seed(); known {
			t.Fatal("the state was flushed: the test does not test")
		}
		c.start(2, false)
		c.nobodyLeads(2, 3)
		c.start(1, false)
		c.settled(1, 2, 3)
		c.same(10, 1, 2, 3)
	})
}

// TestAFirstMemberComesLate: one of three first members begins nothing alone; two are a cluster; the third one, started for the first time when they have acknowledged pushes,
// joins and votes.
func TestAFirstMemberComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coldTrio(t, 3)
		defer c.stopAll()
		c.start(1, false)
		time.Sleep(30 * time.Second)
		if at := c.nodes[1].Status(); at.LastLog > 0 || at.Ready {
			t.Errorf("one of three begins alone: %+v", at)
		}
		c.start(2, false)
		c.settled(1, 2)
		for n := range 10 {
			c.push(1+n%2, "p", uint64(n), 1, 10)
		}
		c.start(3, false)
		c.settled(3)
		c.same(10, 1, 2, 3)
		time.Sleep(2 * time.Second)
		c.stop(1)
		c.push(3, "p", 100, 1, 10)
		c.same(11, 2, 3)
	})
}

// TestAForwardedCommandThatNobodyKnows: a node, of a newer version say, forwards a command that the leader cannot decode. It is refused, and no node ends at its entry.
func TestAForwardedCommandThatNobodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3) // a fatal error of a node fails the test
		defer c.stopAll()
		c.settled(1, 2, 3)
		whole := pushBody("orders", "p", 0, 1, 10)
		for id := 1; id <= 3; id++ {
			if c.nodes[id].Node().Leads() {
				continue
			}
			for what, send := range map[string]func() (any, error){
				"an unknown kind": func() (any, error) { return c.nodes[id].Node().Propose(t.Context(), command.Kind(99), []byte("x")) },
				"half a push": func() (any, error) {
					return c.nodes[id].Node().Propose(t.Context(), command.KindPush, whole[:len(whole)/2])
				},
			} {
				if _, err := send(); !errors.Is(err, raftnode.ErrUnknown) {
					t.Errorf("node %d forwards %s: %v", id, what, err)
				}
			}
		}
		time.Sleep(time.Second)
		c.push(1, "p", 1, 1, 10)
		c.same(1, 1, 2, 3)
	})
}
