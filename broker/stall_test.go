package broker

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a connection that carries 30 kB/s while it is on.
type slow struct {
	net.Conn
	on *atomic.Bool
}

func (s slow) Write(b []byte) (done int, err error) {
	for len(b) > 0 && err == nil {
		k := len(b)
		if s.on.Load() {
			k = min(k, 3000)
			time.Sleep(time.Duration(k) * time.Second / 30_000)
		}
		var n int
		n, err = s.Conn.Write(b[:k])
		done, b = done+n, b[n:]
	}
	return done, err
}

// streams makes a trio in which a snapshot is on its slow way to node 3, and returns who sends it.
func streams(t *testing.T) (c *trio, from int, on *atomic.Bool) {
	t.Helper()
	on = &atomic.Bool{}
	c = coldTrio(t, 3)
	c.change = func(_ int, o *Options) {
		dial := o.Cluster.Dial
		o.Cluster.Dial = func(ctx context.Context, to string) (net.Conn, error) {
			conn, err := dial(ctx, to)
			if err != nil {
				return nil, err
			}
			return slow{conn, on}, nil
		}
	}
	for id := 1; id <= 3; id++ {
		c.start(id, false)
	}
	c.settled(1, 2, 3)
	c.push(1, "p", 0, 4, 100)
	time.Sleep(time.Second)
	c.stop(3)
	for n := range 100 {
		c.push(1, "p", uint64(4+n*4), 4, 12_000)
	}
	time.Sleep(20 * time.Second)
	c.snapshots()
	on.Store(true)
	c.start(3, false)
	for range 300 {
		time.Sleep(100 * time.Millisecond)
		for _, id := range []int{1, 2} {
			if c.sends(id) {
				time.Sleep(2 * time.Second)
				return c, id, on
			}
		}
	}
	t.Fatal("no snapshot is sent")
	return nil, 0, nil
}

// sends says whether a snapshot of a node is on its way.
func (c *trio) sends(id int) bool {
	s := &c.nodes[id].snaps
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sending > 0
}

// closeLimit is how long the stop of a node of a cluster may take: a hand-over that nobody takes, and what is in flight.
const closeLimit = 20 * time.Second

// TestStopWhileASnapshotStreams: a snapshot on its way, which takes minutes, holds up the stop of neither end.
func TestStopWhileASnapshotStreams(t *testing.T) {
	for _, end := range []string{"sender", "receiver"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, from, _ := streams(t)
				defer c.stopAll()
				id := from
				if end == "receiver" {
					id = 3
				}
				began := time.Now()
				c.stop(id)
				if took := time.Since(began); took > closeLimit {
					t.Errorf("node %d stopped after %s", id, took)
				}
			})
		})
	}
}

// TestALeaderVanishesWhileItSendsASnapshot: the node that takes the snapshot in waits for its sender no longer than 10 s, and votes then. The other one leads, sends it a
// snapshot of its own, and the two go on.
func TestALeaderVanishesWhileItSendsASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, from, on := streams(t)
		defer c.stopAll()
		next := 3 - from
		c.cut(from, true)
		for began := time.Now(); c.nodes[next].Status().Role != "leader"; time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > 16*time.Second {
				t.Fatalf("nobody is elected within 16 s: %+v %+v", c.nodes[next].Status(), c.nodes[3].Status())
			}
		}
		on.Store(false)
		select {
		case id := <-c.restarts:
			c.stop(id)
			c.start(id, false)
		case <-time.After(time.Minute):
			t.Fatal("node 3 gets no snapshot from the new leader")
		}
		c.push(next, "p", 10_000, 1, 10)
		c.cut(from, false)
		c.settled(1, 2, 3)
		c.same(102, 1, 2, 3)
	})
}

// TestAReceiverVanishesWhileItGetsASnapshot: the sender lets go of the stream, for which it keeps its snapshot and its log, and the receiver gets a whole one when it is back.
func TestAReceiverVanishesWhileItGetsASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, from, on := streams(t)
		defer c.stopAll()
		c.cut(3, true)
		for began := time.Now(); c.sends(from); time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > 16*time.Second {
				t.Fatal("the snapshot is still on its way to a node that vanished 16 s ago")
			}
		}
		c.push(from, "p", 10_000, 1, 10)
		on.Store(false)
		c.cut(3, false)
		c.comeBack("after the cut")
	})
}
