package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"queen/broker/command"
	"queen/broker/peer"
	"queen/internal/pipenet"
	"queen/stages"
)

// cluster is some nodes on one network in memory, inside a bubble: its clock is the bubble's.
type cluster struct {
	t      *testing.T
	net    pipenet.Net
	stores map[string]*memStore
	tapes  map[string]*tape
	nodes  map[string]*Node
	first  []peer.Member
	change func(id string, p *peer.Options, o *Options) // of each node at each start; nil: nothing
}

// noSnapshots is an owner without any.
type noSnapshots struct{}

func (noSnapshots) Newest() (uint64, Point, int64, bool)   { return 0, Point{}, 0, false }
func (noSnapshots) Send(uint64) (io.ReadCloser, error)     { return nil, errNoStream }
func (noSnapshots) Receive(uint64, Point) (Arrival, error) { return nil, errNoStream }

func member(id string) peer.Member {
	return peer.Member{ID: id, Raft: "raft-" + id, HTTP: "http-" + id}
}

func newCluster(t *testing.T, n int) *cluster { return newClusterOf(t, n, nil) }

func newClusterOf(t *testing.T, n int, change func(string, *peer.Options, *Options)) *cluster {
	c := &cluster{t: t, stores: map[string]*memStore{}, tapes: map[string]*tape{}, nodes: map[string]*Node{}, change: change}
	for i := range n {
		c.first = append(c.first, member(fmt.Sprint(i+1)))
	}
	for _, m := range c.first {
		c.start(m.ID, false)
	}
	return c
}

// start opens a node with the log and the machine that it had, if it had any.
func (c *cluster) start(id string, join bool) {
	c.t.Helper()
	if c.stores[id] == nil {
		c.stores[id], c.tapes[id] = newMemStore(), &tape{}
	}
	l, err := c.net.Listen(member(id).Raft)
	if err != nil {
		c.t.Fatal(err)
	}
	p := peer.Options{Self: member(id), Token: "secret", Listener: l, Dial: c.net.Dialer(member(id).Raft),
		Seed: func() [16]byte { return [16]byte{} }, Now: time.Now, Log: zerolog.Nop()}
	o := Options{Dir: "node-" + id, NodeID: id, Now: time.Now, OpenStore: func(string) (Store, error) { return c.stores[id], nil }, Log: zerolog.Nop(), Fatal: func(err error) { c.t.Errorf("node %s: fatal: %v", id, err) },
		Cluster: &Cluster{Self: member(id), First: c.first, Join: join}, Snapshots: noSnapshots{}, Restart: func() { c.t.Error("a snapshot came in") }}
	if join {
		o.Cluster.First = nil
	}
	if c.change != nil {
		c.change(id, &p, &o)
	}
	if o.Cluster.Port, err = peer.New(p); err != nil {
		c.t.Fatal(err)
	}
	n, err := Open(c.t.Context(), o, c.tapes[id])
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[id] = n
}

func (c *cluster) stop(id string) {
	c.t.Helper()
	if err := c.nodes[id].Close(); err != nil {
		c.t.Errorf("close node %s: %v", id, err)
	}
	delete(c.nodes, id)
}

func (c *cluster) stopAll() {
	for _, id := range c.ids() {
		c.stop(id)
	}
}

func (c *cluster) ids() []string {
	var ids []string
	for id := range c.nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// leader waits until one of the nodes leads, in the bubble's time.
func (c *cluster) leader(among ...string) string {
	c.t.Helper()
	for range 2000 {
		for _, id := range among {
			if c.nodes[id].Leads() {
				return id
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("nobody leads within 20 s")
	return ""
}

// others are the running nodes without one.
func (c *cluster) others(id string) []string {
	return slices.DeleteFunc(c.ids(), func(other string) bool { return other == id })
}

// cut cuts a node off from some others, or heals that.
func (c *cluster) cut(id string, from []string, on bool) {
	for _, other := range from {
		c.net.Cut(member(id).Raft, member(other).Raft, on)
		c.net.Cut(member(other).Raft, member(id).Raft, on)
	}
}

// push waits for at most 5 s.
func (c *cluster) push(id, text string) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	_, err := c.nodes[id].Propose(ctx, command.KindPush, []byte(text))
	return err
}

func (c *cluster) caughtUp(id string) {
	c.t.Helper()
	select {
	case <-c.nodes[id].CaughtUp():
	case <-time.After(20 * time.Second):
		c.t.Fatalf("node %s is not up to date within 20 s", id)
	}
}

// TestThreeNodes: a command that any node takes is applied on all, in one order and with one stamp, and answered by the node that took it.
func TestThreeNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.stopAll()
		c.leader(c.ids()...)
		var wg sync.WaitGroup
		for _, id := range c.ids() {
			c.caughtUp(id)
			for i := range 20 {
				wg.Go(func() {
					text := fmt.Sprintf("%s-%d", id, i)
					stamp, err := c.nodes[id].Propose(t.Context(), command.KindPush, []byte(text))
					if err != nil {
						t.Errorf("%s: %v", text, err)
						return
					}
					own := c.tapes[id]
					own.mu.Lock()
					defer own.mu.Unlock()
					if at := slices.Index(own.bodies, text); at < 0 || own.stamps[at] != stamp.(stages.Micros) {
						t.Errorf("%s was answered %v, and is not applied so on node %s", text, stamp, id)
					}
				})
			}
		}
		wg.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		for _, id := range c.ids()[1:] {
			if a, b := c.tapes["1"], c.tapes[id]; !slices.Equal(a.bodies, b.bodies) || !slices.Equal(a.stamps, b.stamps) || len(a.bodies) != 60 {
				t.Errorf("node %s applied %d commands, node 1 %d, not the same", id, len(b.bodies), len(a.bodies))
			}
		}
	})
}

// TestLeaderStops: whoever is left goes on with all that was answered; the one that returns gets what it missed.
func TestLeaderStops(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut %v", cut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				defer c.stopAll()
				old := c.leader(c.ids()...)
				if err := c.push(old, "before"); err != nil {
					t.Fatal(err)
				}
				others := c.others(old)
				began := time.Now()
				if cut {
					c.cut(old, others, true)
				} else {
					c.stop(old)
				}
				next := c.leader(others...)
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("another node leads after %s", took)
				}
				for _, id := range others {
					if err := c.push(id, "meanwhile "+id); err != nil {
						t.Errorf("node %s: %v", id, err)
					}
				}
				if cut {
					if err := c.push(old, "nowhere"); !errors.Is(err, ErrNoLeader) && !errors.Is(err, ErrUnclear) {
						t.Errorf("a node without a majority answers %v", err)
					}
					c.cut(old, others, false)
				} else {
					c.start(old, false)
				}
				time.Sleep(30 * time.Second)
				synctest.Wait()
				want := c.tapes[next].seen()
				if got := c.tapes[old].seen(); !slices.Equal(got, want) || !slices.Contains(want, "before") || !slices.Contains(want, "meanwhile "+others[0]) {
					t.Errorf("the node that was away applied %q, the others %q", got, want)
				}
			})
		})
	}
}
