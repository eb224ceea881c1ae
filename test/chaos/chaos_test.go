package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/test/harness"
)

// Variables of a run.
const (
	lengthVar = "CHAOS"      // how long faults are played, as Go writes a duration; default 5m
	seedVar   = "CHAOS_SEED" // decides which faults are played, when and on which node, and what clients send; default: a new one
	keepVar   = "CHAOS_KEEP" // a folder that gets the lines of every process
)

const (
	defaultLength = 5 * time.Minute
	aroundLength  = 8 * time.Minute // what a run may take besides: start, drain, audits
	drainLimit    = 2 * time.Minute
	noLeaderLimit = 20 * time.Second // one fault at a time never takes a leader for so long; longer is a cluster that hangs
)

// TestChaos plays faults for a while and then audits everything.
func TestChaos(t *testing.T) {
	length := defaultLength
	if text := os.Getenv(lengthVar); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", lengthVar, err)
		}
	}
	if os.Getenv(workVar) == "" {
		if missing := missingTools(); len(missing) > 0 {
			t.Fatalf("not installed: %s", strings.Join(missing, ", "))
		}
		isolated(t, length+aroundLength)
		return
	}
	seed := seedOf(t)
	run := tellAgain(t, fmt.Sprintf("%s=%d %s=%s", seedVar, seed, lengthVar, length))
	c := newCluster(run, settle(t))
	defer c.keep(run)
	if err := c.configure(); err != nil {
		run.Fatal(err)
	}
	load := startLoad(c, seed)
	looking, stopLooking := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { c.watch.run(looking) })

	c.rage(length, seed)
	c.heal()
	load.stop()
	stopLooking()
	watching.Wait()
	if err := c.settled(); err != nil { // once more: a follower hears of the last entries a moment after their clients do
		run.Fatal(err)
	}
	c.audit(run, load)
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedVar)
	if text == "" {
		return rand.Uint64() >> 32
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", seedVar, err)
	}
	return seed
}

// rage plays the three lanes of faults beside each other, each from its own stream of the seed. The first of them that ends early ends all.
func (c *cluster) rage(length time.Duration, seed uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { c.bucketLane(ctx, rand.New(rand.NewPCG(seed, 2))) })
	group.Go(func() { c.clockLane(ctx, rand.New(rand.NewPCG(seed, 3))) })
	c.nodeLane(ctx, rand.New(rand.NewPCG(seed, 1)))
	cancel()
	group.Wait()
}

// heal ends what is still wrong, and waits until the cluster has caught up.
func (c *cluster) heal() {
	c.t.Helper()
	c.bucket.set(bucketWell)
	err := c.net.heal()
	for _, n := range c.nodes {
		if err == nil {
			err = n.setClock(0)
		}
	}
	if err == nil {
		err = c.settled()
	}
	if err != nil {
		c.t.Errorf("the cluster after all faults: %v", err)
	}
}

// load is all clients.
type load struct {
	pushers []*pusher
	kv      *kvHistory
	sum     *sums
	stop    func()
}

func startLoad(c *cluster, seed uint64) *load {
	l := &load{sum: &sums{}, kv: &kvHistory{start: time.Now()}}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for id := range pushers {
		p := &pusher{id: id, nodes: c.nodes, http: client(askLimit), r: rand.New(rand.NewPCG(seed, 100+uint64(id))), sum: l.sum}
		l.pushers = append(l.pushers, p)
		group.Go(func() { p.run(ctx) })
	}
	for id := range kvClients {
		k := &kvClient{id: id, nodes: c.nodes, http: client(askLimit), r: rand.New(rand.NewPCG(seed, 200+uint64(id))), h: l.kv, sum: l.sum, seen: map[string]int64{}}
		group.Go(func() { k.run(ctx) })
	}
	l.stop = func() { cancel(); group.Wait() }
	return l
}

// audit asks whether every promise was kept, and prints what was played.
func (c *cluster) audit(t testing.TB, l *load) {
	t.Helper()
	log := c.auditNodes(t)
	auditLog(l.pushers, log).report(t)
	auditKV(t, l.kv)
	windows := c.drained(t, log, drainLimit)
	harness.MustBeClean(t, c.lake, c.nodes[0].url) // the logs are equal
	faults, objects := c.bucket.audit()
	faults.report(t)
	t.Logf("the store was sent %d keys", objects)
	c.auditLogs(t)
	w := c.watch
	for _, kind := range slices.Sorted(slices.Values(kinds())) {
		t.Logf("%4d  %s", c.played[kind], kind)
		if c.played[kind] == 0 {
			t.Errorf("%q was never played: the run was too short, or it can't be played here", kind)
		}
	}
	s := l.sum
	t.Logf("%d takeovers of queues, %d changes of the leader, %.1f s the longest time without one", c.takeovers(), w.leaders, w.longest.Seconds())
	t.Logf("%d pushes acknowledged with %d records, %d given up, %d unclear answers, %d refused; %d windows", s.pushes.Load(), s.records.Load(), s.gaveUp.Load(),
		s.unclear.Load(), s.refused.Load(), windows)
	for _, text := range slices.Sorted(maps.Keys(s.texts)) {
		t.Logf("%4d  %s", s.texts[text], text)
	}
	t.Logf("the log clock is %.0f s ahead of the machine's", ahead(log).Seconds())
	if w.longest > noLeaderLimit {
		t.Errorf("there was no leader for %s", w.longest)
	}
	for what, n := range map[string]int64{"takeovers": int64(c.takeovers()), "changes of the leader": int64(w.leaders), "unclear answers": s.unclear.Load(), "windows": windows,
		"pushes": s.pushes.Load()} {
		if n == 0 {
			t.Errorf("no %s: nothing was shown", what)
		}
	}
}

// ahead is how far the newest stamp lies in the future: a leap of a clock that was believed.
func ahead(log map[place][]fetched) time.Duration {
	newest := time.Time{}
	for _, records := range log {
		if len(records) == 0 {
			continue
		}
		if ts, err := time.Parse(time.RFC3339, records[len(records)-1].TS); err == nil && ts.After(newest) {
			newest = ts
		}
	}
	return time.Until(newest)
}

// keep writes the lines of all processes into the folder that was asked for.
func (c *cluster) keep(t testing.TB) {
	dir := os.Getenv(keepVar)
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Error(err)
		return
	}
	for _, n := range c.nodes {
		var all []string
		for i, p := range n.processes() {
			all = append(all, fmt.Sprintf("---- process %d", i+1))
			all = append(all, p.Lines()...)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("node-%d.log", n.id)), []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
			t.Error(err)
		}
	}
}
