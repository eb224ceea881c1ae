package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"queen/test/harness"
)

const (
	nodes       = 3
	small       = 3 // the node whose disk is small
	leaseTTL    = 3 * time.Second
	settleLimit = 60 * time.Second // for all nodes to answer again after a fault
)

// cluster is everything that runs: nodes, their network, the store behind its proxy.
type cluster struct {
	t      testing.TB
	nodes  []*node
	net    *network
	bucket *bucket
	lake   string // the bucket's folder
	ask    *askers
	watch  *watch

	mu     sync.Mutex
	played map[string]int // kind of fault -> how often it was played to its end
}

// askers are HTTP clients by how long they wait.
type askers struct{ quick, slow *http.Client }

func newCluster(t testing.TB, work string) *cluster {
	t.Helper()
	c := &cluster{t: t, net: newNetwork(t, nodes), played: map[string]int{}, ask: &askers{client(500 * time.Millisecond), client(20 * time.Second)}}
	gate := harness.StartGateway(t, filepath.Join(work, "s3"), "lake")
	c.lake = gate.Lake("lake")
	c.bucket = newBucket(t, gate.URL)
	l, err := net.Listen("tcp", hub+":0")
	if err != nil {
		t.Fatal(err)
	}
	go c.bucket.server.Serve(l)
	t.Cleanup(func() { c.bucket.server.Close() })
	env := harness.SinkEnv("http://"+l.Addr().String(), "lake").With("QUEEN_S3_QUEUES", strings.Join(queues(), ","), "QUEEN_S3_MAX_WINDOW_MS", "1000",
		"QUEEN_S3_SAFE_GUARD_MS", "200", "QUEEN_S3_DISCOVERY_INTERVAL_MS", "200", "QUEEN_S3_LEASE_TTL_MS", fmt.Sprint(leaseTTL.Milliseconds()),
		"QUEEN_S3_TARGET_MB", "1", "QUEEN_S3_MEMORY_MB", "64", "QUEEN_S3_SHUTDOWN_GRACE_MS", "5000")
	for id := 1; id <= nodes; id++ {
		n := newNode(t, id, nodes, work, env)
		if id == small {
			n.disk = newDisk(t, n.dir)
		}
		c.nodes = append(c.nodes, n)
		n.start()
	}
	if err := c.settled(); err != nil {
		t.Fatal(err)
	}
	c.watch = newWatch(c)
	return c
}

// configure makes the queues. Duplicates are known for a week: a clock that leaps by an hour must not end what a client may repeat.
func (c *cluster) configure() error {
	for _, q := range queues() {
		body := fmt.Sprintf(`{"queue":%q,"options":{"dedupWindowSeconds":604800}}`, q)
		status, out, err := post(c.ask.slow, c.nodes[0].url+"/api/v1/configure", []byte(body))
		if err != nil || status/100 != 2 {
			return fmt.Errorf("configure %s: %d %s %v", q, status, out, err)
		}
	}
	return nil
}

// count notes a fault that was played to its end.
func (c *cluster) count(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.played[kind]++
}

// pause waits, and starts again what may end by itself while it waits. What ends and may not is an error.
func (c *cluster) pause(ctx context.Context, d time.Duration) error {
	until := time.NewTimer(d)
	defer until.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // the run is over: the fault is healed and counts
		case <-until.C:
			return nil
		case <-look.C:
			if err := c.revive(); err != nil {
				return err
			}
		}
	}
}

// revive starts nodes that ended: as a supervisor would, after a second.
func (c *cluster) revive() error {
	var errs []error
	for _, n := range c.nodes {
		if !n.ended() {
			continue
		}
		if n.doomed == "" {
			code, err := n.process().Wait(time.Second)
			errs = append(errs, fmt.Errorf("node %d ended by itself (exit code %d, %v), and nothing was done to it:\n%s", n.id, code, err, n.lastLines(25)))
		}
		<-time.After(time.Second)
		n.start()
	}
	return errors.Join(errs...)
}

// settled waits until every node is healthy and has applied what was committed when all of them answered.
func (c *cluster) settled() error {
	deadline := time.Now().Add(settleLimit)
	for need := uint64(0); ; {
		why := ""
		var commit uint64
		for _, n := range c.nodes {
			h, err := n.health(c.ask.quick)
			switch {
			case err != nil:
				why = fmt.Sprintf("node %d: %v", n.id, err)
			case !h.ok || !h.Raft.StorageReady:
				why = fmt.Sprintf("node %d is not healthy: %+v", n.id, h)
			case h.Raft.Applied < need:
				why = fmt.Sprintf("node %d has applied %d of %d", n.id, h.Raft.Applied, need)
			}
			commit = max(commit, h.Raft.Commit)
		}
		if why == "" && need > 0 {
			return nil
		}
		if why == "" {
			need = commit
		}
		if time.Now().After(deadline) {
			for _, n := range c.nodes {
				why += fmt.Sprintf("\nnode %d:\n%s", n.id, n.lastLines(12))
			}
			return fmt.Errorf("not well again %s after the fault: %s", settleLimit, why)
		}
		if err := c.revive(); err != nil {
			return err
		}
		<-time.After(100 * time.Millisecond)
	}
}

// leader returns the node that leads, waiting for an election.
func (c *cluster) leader() (*node, error) {
	for range 100 {
		var best *node
		var term uint64
		for _, n := range c.nodes {
			if h, err := n.health(c.ask.quick); err == nil && h.leads() && h.Raft.Term >= term {
				best, term = n, h.Raft.Term
			}
		}
		if best != nil {
			return best, nil
		}
		<-time.After(100 * time.Millisecond)
	}
	return nil, errors.New("no leader within 10 s")
}

// follower returns a node that does not lead.
func (c *cluster) follower(r *rand.Rand) (*node, error) {
	l, err := c.leader()
	if err != nil {
		return nil, err
	}
	return c.others(l)[r.IntN(nodes-1)], nil
}

// owner returns a node whose sink owns a queue.
func (c *cluster) owner(r *rand.Rand) (*node, error) {
	for range 200 {
		var own []*node
		for _, n := range c.nodes {
			if c.watch.owns(n.id) > 0 {
				own = append(own, n)
			}
		}
		if len(own) > 0 {
			return own[r.IntN(len(own))], nil
		}
		<-time.After(100 * time.Millisecond)
	}
	return nil, errors.New("no node owns a queue within 20 s")
}

func (c *cluster) others(of *node) (out []*node) {
	for _, n := range c.nodes {
		if n != of {
			out = append(out, n)
		}
	}
	return out
}

// tracer is strace on the syncs of a node's process.
type tracer struct{ p *harness.Process }

func (c *cluster) trace(n *node, inject string) *tracer {
	return &tracer{harness.Attach(c.t, n.process(), "strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", "/dev/null",
		"-e", "inject=fsync,fdatasync:"+inject, "-p", fmt.Sprint(n.process().Pid()))}
}

// detach lets the process go on without it.
func (t *tracer) detach() error {
	t.p.Signal(syscall.SIGINT)
	if _, err := t.p.Wait(10 * time.Second); err != nil {
		return fmt.Errorf("strace: %w", err)
	}
	return nil
}

// missingTools returns what the suite calls and this machine does not have.
func missingTools() (names []string) {
	for _, tool := range []string{"ip", "strace"} {
		if _, err := exec.LookPath(tool); err != nil {
			names = append(names, tool)
		}
	}
	return names
}
