package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"queen/broker/peer"
	"queen/broker/raftnode"
	"queen/broker/state"
	"queen/internal/certtest"
	"queen/internal/crashdisk"
	"queen/internal/crashwal"
	"queen/internal/pipenet"
	"queen/stages"
)

// trio is some brokers on one network in memory, inside a bubble.
type trio struct {
	t     *testing.T
	net   pipenet.Net
	disks map[int]*crashdisk.FS
	wals  map[int]*crashwal.FS
	nodes map[int]*Broker
	first []peer.Member

	restarts chan int                 // nodes that ask for one
	change   func(id int, o *Options) // of each node at each start; nil: nothing
}

func peerOf(id int) peer.Member {
	return peer.Member{ID: fmt.Sprint(id), Raft: fmt.Sprintf("raft-%d:1", id), HTTP: fmt.Sprintf("http-%d:2", id)}
}

func newTrio(t *testing.T, n int) *trio {
	c := coldTrio(t, n)
	for i := range n {
		c.start(i+1, false)
	}
	return c
}

// coldTrio is a trio of which no node has been started.
func coldTrio(t *testing.T, n int) *trio {
	c := &trio{t: t, disks: map[int]*crashdisk.FS{}, wals: map[int]*crashwal.FS{}, nodes: map[int]*Broker{}, restarts: make(chan int, 10)}
	for i := range n {
		c.first = append(c.first, peerOf(i+1))
	}
	return c
}

func (c *trio) options(id int, join bool) Options {
	l, err := c.net.Listen(peerOf(id).Raft)
	if err != nil {
		c.t.Fatal(err)
	}
	o := onMemory(c.disks[id], c.wals[id], func(err error) { c.t.Errorf("node %d: fatal: %v", id, err) })
	o.Restart = func() { c.restarts <- id }
	o.NodeID, o.Now, o.Log = id, time.Now, zerolog.Nop()
	o.Cluster = &Cluster{Self: peerOf(id), First: c.first, Join: join, Token: "secret", Listener: l, Dial: c.net.Dialer(peerOf(id).Raft)}
	if join {
		o.Cluster.First = nil
	}
	if c.change != nil {
		c.change(id, &o)
	}
	return o
}

func (c *trio) start(id int, join bool) {
	c.t.Helper()
	if c.disks[id] == nil {
		c.disks[id], c.wals[id] = crashdisk.New(), crashwal.New(nil)
	}
	b, err := New(c.options(id, join))
	if err == nil {
		err = b.Open(c.t.Context())
	}
	if err != nil {
		c.t.Fatalf("node %d: %v", id, err)
	}
	c.nodes[id] = b
}

func (c *trio) stop(id int) {
	c.t.Helper()
	if err := c.nodes[id].Close(); err != nil {
		c.t.Errorf("close node %d: %v", id, err)
	}
	delete(c.nodes, id)
}

func (c *trio) stopAll() {
	for id := range 10 {
		if c.nodes[id] != nil {
			c.stop(id)
		}
	}
}

func (c *trio) settled(ids ...int) {
	c.t.Helper()
	for _, id := range ids {
		select {
		case <-c.nodes[id].Settled():
		case <-time.After(30 * time.Second):
			c.t.Fatalf("node %d has not settled in 30 s: %+v", id, c.nodes[id].Status())
		}
	}
}

// push pushes through one node, again while nothing of it can have happened, for at most 20 s.
func (c *trio) push(id int, partition string, first uint64, count, size int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, err := push(ctx, c.nodes[id], "orders", partition, first, count, size)
		if err == nil {
			return
		}
		if !nextRound(err) || ctx.Err() != nil {
			c.t.Fatalf("node %d: %v", id, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// cut cuts a node off from the others, or heals that.
func (c *trio) cut(id int, on bool) {
	for other := range c.disks {
		if other != id {
			c.net.Cut(peerOf(id).Raft, peerOf(other).Raft, on)
			c.net.Cut(peerOf(other).Raft, peerOf(id).Raft, on)
		}
	}
}

// records reads all payloads of a queue on one node.
func (c *trio) records(id int, queue string) (out []string) {
	c.t.Helper()
	b := c.nodes[id]
	var qid stages.QueueID
	tenant, err := tenantID(stages.DefaultTenant)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := b.State().Read(func(r *state.Reader) error {
		if row, ok := r.Queue(tenant, queue); ok {
			qid = row.ID
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	if qid == 0 { // nothing of it is here yet
		return nil
	}
	for h, err := range b.Log(stages.DefaultTenant).Headers(c.t.Context(), qid, 0, 1<<62) {
		if err != nil {
			c.t.Fatalf("node %d: %v", id, err)
		}
		out = append(out, fmt.Sprintf("%d/%d+%d@%d", h.Partition, h.Base, h.Count, h.TS))
	}
	return out
}

// TestClusterOfBrokers: three empty folders become one cluster with one seed; what any of them takes is on all, and is still there after each has started again.
func TestClusterOfBrokers(t *testing.T) { clusterOfBrokers(t, nil) }

// TestClusterOverTLS: so it is when they speak TLS with each other.
func TestClusterOverTLS(t *testing.T) {
	ca := certtest.New(t)
	clusterOfBrokers(t, func(id int, o *Options) {
		cert, key := ca.Node(t, fmt.Sprintf("raft-%d", id))
		var err error
		if o.Cluster.TLS, err = (peer.Files{Cert: cert, Key: key, CA: ca.CA}).Load(); err != nil {
			t.Error(err)
		}
	})
}

func clusterOfBrokers(t *testing.T, change func(id int, o *Options)) {
	synctest.Test(t, func(t *testing.T) {
		c := coldTrio(t, 3)
		c.change = change
		for id := 1; id <= 3; id++ {
			c.start(id, false)
		}
		defer c.stopAll()
		c.settled(1, 2, 3)
		push := func(id int, n uint64) { t.Helper(); c.push(id, "p", n, 3, 10) }
		for i := range 30 {
			push(1+i%3, uint64(i))
		}
		same := func() {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			want := c.records(1, "orders")
			for id := 2; id <= 3; id++ {
				if got := c.records(id, "orders"); !slices.Equal(got, want) {
					t.Errorf("node %d has %q, node 1 %q", id, got, want)
				}
			}
			seed, known := c.nodes[1].State().Seed()
			for id := 1; id <= 3; id++ {
				text, err := readFile(c.disks[id], "/data/"+formatFile)
				other, _ := c.nodes[id].State().Seed()
				if got, err2 := parseFormat("/data", text); err != nil || err2 != nil || !known || got != seed || other != seed {
					t.Errorf("node %d: %v %v, seed %x of the folder, %x of the state, %x of node 1", id, err, err2, got, other, seed)
				}
			}
		}
		same()
		for id := 1; id <= 3; id++ {
			c.stop(id)
			push(1+id%3, uint64(100+id))
			c.start(id, false)
			c.settled(id)
			same()
		}
		c.stopAll()
		for id := 1; id <= 3; id++ {
			c.start(id, false)
		}
		c.settled(1, 2, 3)
		same()
		if n := len(c.records(2, "orders")); n != 33 {
			t.Errorf("%d appends, 33 were answered", n)
		}
	})
}

// TestFollowerGetsSnapshot: a node that was away until the log it needs was cut gets a snapshot, starts again from it, has what the others have, and goes on. A node
// that joins a cluster whose log was cut does so too.
func TestFollowerGetsSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		defer c.stopAll()
		c.settled(1, 2, 3)
		n := uint64(0)
		push := func(many int) {
			t.Helper()
			for range many {
				c.push(1, fmt.Sprint("p", n%5), n, 4, 300)
				n += 4
			}
		}
		push(40)
		c.stop(3)
		push(60)
		time.Sleep(20 * time.Second) // node 3 is not waited for any more
		for _, id := range []int{1, 2} {
			if err := c.nodes[id].snapshot(); err != nil {
				t.Fatal(err)
			}
			if first := c.nodes[id].Status().FirstLog; first < 40 {
				t.Fatalf("the log of node %d begins at entry %d", id, first)
			}
		}
		push(10)
		c.start(3, false)
		again := func(id int, join bool) {
			t.Helper()
			select {
			case got := <-c.restarts:
				if got != id {
					t.Fatalf("node %d asks for a restart", got)
				}
			case <-time.After(time.Minute):
				t.Fatalf("node %d does not ask for a restart: %+v", id, c.nodes[id].Status())
			}
			c.stop(id)
			c.start(id, join)
			c.settled(id)
		}
		again(3, false)
		push(5)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want := c.records(1, "orders")
		if got := c.records(3, "orders"); !slices.Equal(got, want) || len(want) != 115 {
			t.Errorf("node 3 has %d appends, node 1 %d, 115 were pushed", len(got), len(want))
		}
		c.stop(3) // and it starts once more by itself
		c.start(3, false)
		c.settled(3)
		push(1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got, want := c.records(3, "orders"), c.records(1, "orders"); !slices.Equal(got, want) || len(want) != 116 {
			t.Errorf("after another start node 3 has %d appends, node 1 %d", len(got), len(want))
		}
		c.alike("after another start", 1, 2, 3)
		if len(c.restarts) > 0 {
			t.Errorf("node %d asks for another restart", <-c.restarts)
		}
	})
}

// TestGrow: a node that was founded alone becomes three: it is started with an address, two empty ones wait to be added, get a snapshot since the log was cut,
// and are promoted; then the first one is removed, and what is left has everything and goes on.
func TestGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &trio{t: t, disks: map[int]*crashdisk.FS{1: crashdisk.New()}, wals: map[int]*crashwal.FS{1: crashwal.New(nil)}, nodes: map[int]*Broker{}, restarts: make(chan int, 10)}
		defer c.stopAll()
		alone := onMemory(c.disks[1], c.wals[1], func(err error) { t.Error("fatal:", err) })
		b, err := New(alone)
		if err == nil {
			err = b.Open(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			mustPush(t, b, "orders", "p", uint64(i), 1)
		}
		if err := b.snapshot(); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		c.first = []peer.Member{peerOf(1)}
		c.start(1, false)
		c.settled(1)
		change := func(by int, want string, ch raftnode.Change) {
			t.Helper()
			m, err := c.nodes[by].Node().Change(t.Context(), ch)
			var refusal *raftnode.ChangeError
			for range 100 { // the leadership may move, after a change of the voters too
				if !errors.As(err, &refusal) || refusal.Code != "leader_changed" && refusal.Code != "leader_unreachable" {
					break
				}
				time.Sleep(100 * time.Millisecond)
				m, err = c.nodes[by].Node().Change(t.Context(), ch)
			}
			switch {
			case err == nil && want == "":
			case errors.As(err, &refusal) && refusal.Code == want:
			default:
				t.Fatalf("%+v: %+v, %v, want %q", ch, m, err, want)
			}
		}
		time.Sleep(time.Second) // it puts its own address among the members
		for _, id := range []int{2, 3} {
			c.start(id, true)
			add := raftnode.Change{Op: raftnode.OpAdd, IDs: []int{id}, Raft: peerOf(id).Raft, HTTP: peerOf(id).HTTP}
			bad := add
			bad.Raft = "nowhere"
			change(1, "bad_request", bad)
			change(1, "not_a_learner", raftnode.Change{Op: raftnode.OpPromote, IDs: []int{id}})
			change(1, "", add)
			change(1, "", add)
			select {
			case got := <-c.restarts:
				c.stop(got)
				c.start(got, true)
			case <-time.After(30 * time.Second):
				t.Fatalf("node %d gets no snapshot: %+v", id, c.nodes[id].Status())
			}
			c.settled(id)
			time.Sleep(2 * time.Second)
			change(id, "", raftnode.Change{Op: raftnode.OpPromote, IDs: []int{id}}) // asked of the learner itself
			change(1, "already_voter", add)
		}
		mustPush(t, c.nodes[3], "orders", "p", 100, 1)
		time.Sleep(time.Second)
		change(2, "", raftnode.Change{Op: raftnode.OpRemove, IDs: []int{1}})
		time.Sleep(5 * time.Second)
		c.stop(1)
		mustPush(t, c.nodes[2], "orders", "p", 101, 1)
		time.Sleep(time.Second)
		synctest.Wait()
		if got, want := c.records(2, "orders"), c.records(3, "orders"); !slices.Equal(got, want) || len(got) != 52 {
			t.Errorf("node 2 has %d appends, node 3 %d, 52 were pushed", len(got), len(want))
		}
		change(3, "", raftnode.Change{Op: raftnode.OpVoters, IDs: []int{2}})
		change(2, "last_voter", raftnode.Change{Op: raftnode.OpRemove, IDs: []int{2}})
		change(2, "not_a_member", raftnode.Change{Op: raftnode.OpVoters, IDs: []int{2, 9}})
		c.stop(3)
		time.Sleep(5 * time.Second)
		change(2, "learner_behind", raftnode.Change{Op: raftnode.OpPromote, IDs: []int{3}})
		change(2, "no_quorum", raftnode.Change{Op: raftnode.OpPromote, IDs: []int{3}, Force: true})
		mustPush(t, c.nodes[2], "orders", "p", 102, 1)
	})
}
