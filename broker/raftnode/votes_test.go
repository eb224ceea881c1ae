package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"queen/broker/command"
	"queen/broker/peer"
)

// nameless makes nodes that were not told an address of their own, as those that wait to be added may be.
func nameless(id string, p *peer.Options, o *Options) {
	p.Self = peer.Member{ID: id}
	o.Cluster.Self = p.Self
}

// TestOneVoteATerm: a node that has given its vote of a term to one node gives it to no other, also when none of them has an address of its own.
func TestOneVoteATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterOf(t, 3, nameless)
		defer c.stopAll()
		leader := c.leader(c.ids()...)
		voter := c.others(leader)[0]
		time.Sleep(time.Second) // nobody is fresh any more
		var granted []string
		for _, id := range c.others(voter) {
			by := c.nodes[id].carrier
			ask := &raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(id), Addr: by.EncodePeer(raft.ServerID(id), by.LocalAddr())},
				Term: 1000, LastLogIndex: 1 << 30, LastLogTerm: 999, LeadershipTransfer: true}
			var said raft.RequestVoteResponse
			if err := by.RequestVote(raft.ServerID(voter), raft.ServerAddress(member(voter).Address()), ask, &said); err != nil {
				t.Fatal(err)
			}
			if said.Term == 1000 && said.Granted {
				granted = append(granted, id)
			}
		}
		if len(granted) != 1 {
			t.Errorf("node %s gave its vote of one term to the nodes %q", voter, granted)
		}
	})
}

// lag is a connection on which each write takes a while.
type lag struct{ net.Conn }

func (l lag) Write(b []byte) (int, error) {
	time.Sleep(30 * time.Millisecond)
	return l.Conn.Write(b)
}

func lagging(p *peer.Options) {
	dial := p.Dial
	p.Dial = func(ctx context.Context, to string) (net.Conn, error) {
		c, err := dial(ctx, to)
		if err != nil {
			return nil, err
		}
		return lag{c}, nil
	}
}

// reign notes who leads in which term.
type reign struct {
	mu sync.Mutex
	of map[uint64]map[string]bool
}

// watch is told by raft of each node that becomes the leader, in the moment it does.
func (r *reign) watch(c *cluster) {
	for id, n := range c.nodes {
		n.raft.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
			if state, ok := o.Data.(raft.RaftState); ok && state == raft.Leader {
				r.leads(c.t, o.Raft.CurrentTerm(), id)
			}
			return false
		}))
	}
}

func (r *reign) leads(t *testing.T, term uint64, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[term] == nil {
		r.of[term] = map[string]bool{}
	}
	if r.of[term][id] = true; len(r.of[term]) > 1 { // at once: what follows from it may end the test first
		t.Errorf("term %d has the leaders %v", term, r.of[term])
	}
}

// pushAll pushes from every node while ctx lives, and returns what was acknowledged.
func (c *cluster) pushAll(ctx context.Context) map[string]bool {
	var mu sync.Mutex
	acked := map[string]bool{}
	var work sync.WaitGroup
	for _, id := range c.ids() {
		work.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				text := fmt.Sprintf("%s-%d", id, k)
				one, cancel := context.WithTimeout(ctx, 2*time.Second)
				if _, err := c.nodes[id].Propose(one, command.KindPush, []byte(text)); err == nil {
					mu.Lock()
					acked[text] = true
					mu.Unlock()
				} else {
					time.Sleep(5 * time.Millisecond)
				}
				cancel()
			}
		})
	}
	work.Wait()
	return acked
}

// TestOneLeaderATerm: two nodes without an address of their own stand for election at the same moment, again and again, under load and on a slow network. A term
// has one leader at most, what was acknowledged is applied everywhere, and in one order.
func TestOneLeaderATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterOf(t, 3, func(id string, p *peer.Options, o *Options) { nameless(id, p, o); lagging(p) })
		defer c.stopAll()
		c.leader(c.ids()...)
		time.Sleep(2 * time.Second)
		r := &reign{of: map[uint64]map[string]bool{}}
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		defer func() { stop(); work.Wait() }() // before the nodes go, also when the test ends early
		var acked map[string]bool
		r.watch(c)
		work.Go(func() { acked = c.pushAll(ctx) })
		const elections = 10
		for range elections {
			leader := c.leader(c.ids()...)
			for _, id := range c.others(leader) {
				work.Go(func() {
					if err := c.nodes[leader].carrier.TimeoutNow(raft.ServerID(id), raft.ServerAddress(member(id).Address()), &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3}}, &raft.TimeoutNowResponse{}); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(3 * time.Second)
		}
		stop()
		work.Wait()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(r.of) <= elections/2 || len(acked) < 100 {
			t.Errorf("%d terms with a leader, %d pushes acknowledged: the test does not test", len(r.of), len(acked))
		}
		c.sameEverywhere(acked)
	})
}

// sameEverywhere finds that every node applied the same commands in the same order, and all of these among them.
func (c *cluster) sameEverywhere(acked map[string]bool) {
	c.t.Helper()
	want := c.tapes[c.ids()[0]].seen()
	for _, id := range c.ids() {
		got := c.tapes[id].seen()
		if !slices.Equal(got, want) {
			c.t.Errorf("node %s applied %d commands, node %s %d, not the same", id, len(got), c.ids()[0], len(want))
		}
		have := map[string]bool{}
		for _, text := range got {
			have[text] = true
		}
		for text := range acked {
			if !have[text] {
				c.t.Errorf("%s was acknowledged and is not applied on node %s", text, id)
			}
		}
	}
}

// TestAReplacedNodeDoesNotLead: a node that waits for its restart, after which its state is another one, hands the leadership on when it is given to it.
func TestAReplacedNodeDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		restarts := make(chan string, 1)
		c := newClusterOf(t, 3, func(id string, _ *peer.Options, o *Options) { o.Restart = func() { restarts <- id } })
		defer c.stopAll()
		leader := c.leader(c.ids()...)
		if err := c.push(leader, "before"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		id := c.others(leader)[0]
		n := c.nodes[id]
		n.arrived(Base{Index: n.machine.to.Applied() + 100, Term: 1})
		had := c.tapes[id].seen()
		if err := c.nodes[leader].raft.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(member(id).Address())).Error(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if n.raft.State() == raft.Leader || n.Leads() {
			t.Errorf("node %s leads the cluster and its state is being replaced", id)
		} else if next := c.leader(c.others(id)...); c.push(next, "after") != nil {
			t.Errorf("node %s does not take a push", next)
		}
		if got := c.tapes[id].seen(); !slices.Equal(got, had) {
			t.Errorf("a state that is being replaced went on: %q", got)
		}
		if got := <-restarts; got != id {
			t.Errorf("node %s asks for a restart", got)
		}
	})
}

// TestPowerLossAtTheBeginning: the power of some or all founders goes when they have written the term of the beginning and not yet its entry. They begin again.
func TestPowerLossAtTheBeginning(t *testing.T) {
	for half := 1; half <= 3; half++ {
		t.Run(fmt.Sprint(half), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{t: t, stores: map[string]*memStore{}, tapes: map[string]*tape{}, nodes: map[string]*Node{}, first: []peer.Member{member("1"), member("2"), member("3")}}
				defer c.stopAll()
				for i, m := range c.first {
					c.stores[m.ID], c.tapes[m.ID] = newMemStore(), &tape{}
					if i < half {
						if err := errors.Join(c.stores[m.ID].SetUint64([]byte(freshKey), 1), c.stores[m.ID].SetUint64([]byte(currentTerm), 1)); err != nil {
							t.Fatal(err)
						}
					}
					c.start(m.ID, false)
				}
				c.leader(c.ids()...)
				if err := c.push("1", "first"); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				c.sameEverywhere(map[string]bool{"first": true})
			})
		})
	}
}

// TestAnotherNodesFolder: a node of a cluster does not start on the log of another one, whose votes it would give again.
func TestAnotherNodesFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.stopAll()
		c.leader(c.ids()...)
		c.stop("2")
		for _, join := range []bool{false, true} {
			var port *peer.Port
			l, err := c.net.Listen(member("3").Raft + "'")
			if err == nil {
				port, err = peer.New(peer.Options{Self: member("3"), Token: "secret", Listener: l, Seed: func() [16]byte { return [16]byte{} }, Now: time.Now, Log: zerolog.Nop()})
			}
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Dir: "node-2", NodeID: "3", Now: time.Now, Log: zerolog.Nop(), Fatal: func(err error) { t.Error("fatal:", err) }, Snapshots: noSnapshots{}, Restart: func() {},
				Cluster: &Cluster{Port: port, Self: member("3"), First: c.first, Join: join}}
			on(c.stores["2"])(&o)
			n, err := Open(t.Context(), o, c.tapes["2"])
			if err == nil {
				t.Errorf("node 3 runs on the log of node 2: %v", n.Close())
			} else if !strings.Contains(err.Error(), "is that of node 2, and this is node 3") {
				t.Errorf("join %v: %v", join, err)
			}
			if err := port.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
