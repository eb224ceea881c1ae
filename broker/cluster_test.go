package broker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"queen/broker/peer"
	"queen/broker/state"
	"queen/internal/crashwal"
	"queen/internal/pipenet"
	"queen/stages"
)

// trio is some brokers on one network in memory, inside a bubble.
type trio struct {
	t     *testing.T
	net   pipenet.Net
	disks map[int]*vfs.MemFS
	wals  map[int]*crashwal.FS
	nodes map[int]*Broker
	first []peer.Member
}

func peerOf(id int) peer.Member {
	return peer.Member{ID: fmt.Sprint(id), Raft: fmt.Sprintf("raft-%d", id), HTTP: fmt.Sprintf("http-%d", id)}
}

func newTrio(t *testing.T, n int) *trio {
	c := &trio{t: t, disks: map[int]*vfs.MemFS{}, wals: map[int]*crashwal.FS{}, nodes: map[int]*Broker{}}
	for i := range n {
		c.first = append(c.first, peerOf(i+1))
	}
	for i := range n {
		c.start(i+1, false)
	}
	return c
}

func (c *trio) options(id int, join bool) Options {
	l, err := c.net.Listen(peerOf(id).Raft)
	if err != nil {
		c.t.Fatal(err)
	}
	o := onMemory(c.disks[id], c.wals[id], func(err error) { c.t.Errorf("node %d: fatal: %v", id, err) })
	o.NodeID, o.Now, o.Log = id, time.Now, zerolog.Nop()
	o.Cluster = &Cluster{Self: peerOf(id), First: c.first, Join: join, Token: "secret", Listener: l, Dial: c.net.Dialer(peerOf(id).Raft)}
	if join {
		o.Cluster.First = nil
	}
	return o
}

func (c *trio) start(id int, join bool) {
	c.t.Helper()
	if c.disks[id] == nil {
		c.disks[id], c.wals[id] = vfs.NewMem(), crashwal.New(nil)
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
	for h, err := range b.Log(stages.DefaultTenant).Headers(c.t.Context(), qid, 0, 1<<62) {
		if err != nil {
			c.t.Fatalf("node %d: %v", id, err)
		}
		out = append(out, fmt.Sprintf("%d/%d+%d@%d", h.Partition, h.Base, h.Count, h.TS))
	}
	return out
}

// TestClusterOfBrokers: three empty folders become one cluster with one seed; what any of them takes is on all, and is still there after each has started again.
func TestClusterOfBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		defer c.stopAll()
		c.settled(1, 2, 3)
		push := func(id int, n uint64) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for {
				if _, err := push(ctx, c.nodes[id], "orders", "p", n, 3, 10); err == nil {
					return
				} else if !nextRound(err) || ctx.Err() != nil {
					t.Fatalf("node %d: %v", id, err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
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

