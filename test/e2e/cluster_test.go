package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"queen/test/harness"
)

const clusterTTL = 3 * time.Second

// trio is three brokers with their sinks on one bucket, and clients that push to all of them.
type trio struct {
	t      *testing.T
	proxy  *harness.Proxy
	peers  string
	work   string
	mu     sync.Mutex
	node   [3]*harness.Broker // nil: it is off
	pushes atomic.Int64
}

func (c *trio) start(i int) {
	c.t.Helper()
	env := harness.SinkEnv(c.proxy.URL, "lake").With("QUEEN_S3_QUEUES", "*", "QUEEN_S3_MAX_WINDOW_MS", "1000", "QUEEN_S3_SAFE_GUARD_MS", "100", "QUEEN_S3_DISCOVERY_INTERVAL_MS", "100",
		"QUEEN_S3_LEASE_TTL_MS", fmt.Sprint(clusterTTL.Milliseconds()), "QUEEN_RAFT_NODE_ID", fmt.Sprint(i+1), "QUEEN_RAFT_PEERS", c.peers, "QUEEN_RAFT_TOKEN", "a-token-of-the-test")
	b := harness.LaunchBroker(c.t, filepath.Join(c.work, fmt.Sprint("node-", i+1)), env)
	c.mu.Lock()
	c.node[i] = b
	c.mu.Unlock()
}

func (c *trio) at(i int) *harness.Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node[i]
}

// off takes a node out of what clients push to.
func (c *trio) off(i int) *harness.Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.node[i]
	c.node[i] = nil
	return b
}

// load pushes to six queues, through any node that runs, until stop is called.
func (c *trio) load() (stop func()) {
	done := make(chan struct{})
	var work sync.WaitGroup
	for q := range 6 {
		work.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(50 * time.Millisecond): // the rate of the load
				}
				if b := c.at(n % 3); b != nil {
					item := harness.Item{Queue: fmt.Sprint("q", q), Partition: "p", TxID: fmt.Sprintf("%d-%d", q, n), Payload: fmt.Sprintf(`{"n":%d}`, n)}
					if b.TryPush(item) == nil { // one node stands still for a while
						c.pushes.Add(1)
					}
				}
			}
		})
	}
	return func() { close(done); work.Wait() }
}

// owned are the queues that a node runs, sorted, and how many windows each has.
func (c *trio) owned(i int) map[string]int64 {
	b := c.at(i)
	out := map[string]int64{}
	if b == nil {
		return out
	}
	_, text, err := b.Do("GET", "/status", nil)
	if err != nil {
		return out
	}
	var s struct {
		S3 struct {
			Sinks []struct {
				Queues []struct {
					Name      string
					OwnedHere bool
					K         int64
				}
			}
		}
	}
	if json.Unmarshal(text, &s) != nil || len(s.S3.Sinks) == 0 {
		return out
	}
	for _, q := range s.S3.Sinks[0].Queues {
		if q.OwnedHere {
			out[q.Name] = q.K
		}
	}
	return out
}

func (c *trio) spread() string {
	var parts []string
	for i := range c.node {
		names := []string{}
		for name := range c.owned(i) {
			names = append(names, name)
		}
		slices.Sort(names)
		parts = append(parts, strings.Join(names, "+"))
	}
	return strings.Join(parts, " | ")
}

// waitShares waits until the nodes run so many queues each, in any order, and every queue is run once; it returns how long that took.
func (c *trio) waitShares(limit time.Duration, want ...int) time.Duration {
	c.t.Helper()
	began := time.Now()
	slices.Sort(want)
	harness.Eventually(c.t, limit, func() (bool, string) {
		var have []int
		all := map[string]int{}
		for i := range c.node {
			mine := c.owned(i)
			have = append(have, len(mine))
			for name := range mine {
				all[name]++
			}
		}
		slices.Sort(have)
		return slices.Equal(have, want) && len(all) == 6, c.spread()
	})
	return time.Since(began)
}

// TestCluster: three nodes share six queues; one that comes late gets its share; nothing moves without a reason; what a killed, stopped or paused node ran is run by the others in
// time; and whatever happened, the lake is what the log says.
func TestCluster(t *testing.T) {
	work := t.TempDir()
	g := harness.StartGateway(t, filepath.Join(work, "s3"), "lake")
	c := &trio{t: t, proxy: harness.StartProxy(t, g.URL), work: work}
	var peers []string
	for i := range 3 {
		peers = append(peers, fmt.Sprintf("%d=127.0.0.1:%d/127.0.0.1:%d", i+1, harness.FreePort(t), 6632+i))
	}
	c.peers = strings.Join(peers, ",")
	c.start(0)
	c.start(1)
	c.at(0).WaitHealthy(t)
	c.at(1).WaitHealthy(t)
	stop := sync.OnceFunc(c.load())
	defer stop()
	c.waitShares(60*time.Second, 0, 3, 3)
	c.start(2)
	c.at(2).WaitHealthy(t)
	t.Logf("a late node has its share after %s", c.within(15*time.Second, 2, 2, 2))

	c.nothingMoves(3 * clusterTTL)

	victim := c.off(1)
	victim.Kill()
	t.Logf("a killed node's queues are run by others after %s", c.within(clusterTTL+2*time.Second, 0, 3, 3))
	c.windowsGoOn()
	c.start(1)
	c.at(1).WaitHealthy(t)
	c.waitShares(30*time.Second, 2, 2, 2)

	leaving := c.off(2)
	leaving.Signal(syscall.SIGTERM)
	t.Logf("a stopped node's queues are run by others after %s", c.within(clusterTTL, 0, 3, 3))
	if code, err := leaving.Wait(30 * time.Second); code != 0 || err != nil {
		t.Errorf("a stop ended with %d, %v", code, err)
	}
	c.start(2)
	c.at(2).WaitHealthy(t)
	c.waitShares(30*time.Second, 2, 2, 2)

	c.pauseInUpload()
	c.waitShares(60*time.Second, 2, 2, 2)
	stop()
	c.drainAll()
	harness.MustBeClean(t, g.Lake("lake"), c.at(0).URL)
	t.Logf("%d pushes were acknowledged", c.pushes.Load())
}

// nothingMoves sees, for so long, each node run what it runs now.
func (c *trio) nothingMoves(during time.Duration) {
	c.t.Helper()
	before := c.spread()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	over := time.After(during)
	for {
		select {
		case <-tick.C:
		case <-over:
			return
		}
		if now := c.spread(); now != before {
			c.t.Fatalf("queues moved without a reason: %s, then %s", before, now)
		}
	}
}

// within is waitShares that must not take longer; the limit of a slow machine is wider, and said.
func (c *trio) within(limit time.Duration, want ...int) time.Duration {
	c.t.Helper()
	took := c.waitShares(4*limit, want...)
	if took > limit+time.Second { // a look at three statuses takes its time, too
		c.t.Errorf("%v after %s, want %s", want, took, limit)
	}
	return took
}

// windowsGoOn waits until each queue has committed windows since.
func (c *trio) windowsGoOn() {
	c.t.Helper()
	first := map[string]int64{}
	harness.Eventually(c.t, 30*time.Second, func() (bool, string) {
		more := 0
		for i := range c.node {
			for name, k := range c.owned(i) {
				if was, ok := first[name]; !ok {
					first[name] = k
				} else if k > was+1 {
					more++
				}
			}
		}
		return more == 6, fmt.Sprint(more, " queues of 6 go on; at first ", first, ", now ", c.owned(0), c.owned(1), c.owned(2))
	})
}

// pauseInUpload stops a node, as SIGSTOP does, while an object of one of its queues is on its way, until others have its queues; then it goes on.
func (c *trio) pauseInUpload() {
	t := c.t
	t.Helper()
	mine := c.owned(0)
	hit, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.proxy.Hold(func(r harness.Request) <-chan struct{} {
		for name := range mine {
			if r.Data && strings.Contains(r.Key, "queue="+name+"/") {
				first := false
				once.Do(func() { first = true; close(hit) })
				if first {
					return release
				}
			}
		}
		return nil
	})
	select {
	case <-hit:
	case <-time.After(30 * time.Second):
		t.Fatal("no object within 30 s")
	}
	paused := c.off(0)
	paused.Signal(syscall.SIGSTOP)
	defer paused.Signal(syscall.SIGCONT) // whatever happens: clients wait for its answers
	c.waitShares(30*time.Second, 0, 3, 3)
	c.windowsGoOn()
	close(release)
	c.proxy.Hold(nil)
	paused.Signal(syscall.SIGCONT)
	c.mu.Lock()
	c.node[0] = paused
	c.mu.Unlock()
	// Its clock went on while it stood: it knows that its leases are over, and asks for no pointer.
	harness.Eventually(t, 30*time.Second, func() (bool, string) {
		return paused.Count("queue fenced") >= 2, fmt.Sprint(paused.Count("queue fenced"), " of its queues are fenced")
	})
}

// drainAll waits until the pointers have caught up: windows close by age.
func (c *trio) drainAll() {
	c.t.Helper()
	last := map[string]int64{}
	same := 0
	harness.Eventually(c.t, 60*time.Second, func() (bool, string) {
		now := map[string]int64{}
		for i := range c.node {
			for name, k := range c.owned(i) {
				now[name] = k
			}
		}
		if fmt.Sprint(now) == fmt.Sprint(last) && len(now) == 6 {
			same++
		} else {
			same = 0
		}
		last = now
		return same >= 40, fmt.Sprint(now)
	})
}
