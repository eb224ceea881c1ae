package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queen/test/harness"
)

const (
	rounds     = 20
	wantPushes = 20_000
)

// TestKillLoop pushes without a pause while the broker is killed with SIGKILL twenty times, at moments chosen where it hurts: while an
// object is on its way, between an intent and its pointer, and at random. Then everything that was acknowledged must be in the log once, and
// the lake must equal the log.
func TestKillLoop(t *testing.T) {
	work := t.TempDir()
	g := harness.StartGateway(t, filepath.Join(work, "s3"), "lake")
	proxy := harness.StartProxy(t, g.URL)
	env := harness.SinkEnv(proxy.URL, "lake").With("QUEEN_S3_MAX_WINDOW_MS", "300", "QUEEN_S3_SAFE_GUARD_MS", "50", "QUEEN_S3_DISCOVERY_INTERVAL_MS", "50",
		"QUEEN_S3_LEASE_TTL_MS", "2000")
	load := &load{acked: map[string]string{}}
	var count struct{ open, upload int }
	dir := filepath.Join(work, "data")
	kills := 0
	for ; kills < rounds || load.pushes.Load() <= wantPushes && kills < 4*rounds; kills++ { // a slow machine takes more
		round := kills
		b := harness.StartBroker(t, dir, env)
		stop := load.run(b, round)
		row := b.WaitWindows(t, "orders", 1, 30*time.Second)
		b.WaitWindows(t, "orders", row.K+2, 30*time.Second)
		upload, open := killAt(t, b, proxy, round)
		stop()
		if upload {
			count.upload++
		}
		if open {
			count.open++
		}
	}
	b := harness.StartBroker(t, dir, env)
	last := b.WaitWindows(t, "orders", 1, 30*time.Second)
	drained(t, b)
	harness.MustBeClean(t, g.Lake("lake"), b.URL)
	load.compare(t, b)
	last, _ = b.Row("orders")
	t.Logf("pushes acknowledged %d, records %d, windows %d, kills %d, with an open intent %d, during an upload %d",
		load.pushes.Load(), len(load.acked), last.K, kills, count.open, count.upload)
	if load.pushes.Load() <= wantPushes || last.K <= 40 || count.open <= 5 || count.upload <= 3 {
		t.Errorf("want pushes > %d, windows > 40, kills with an open intent > 5, during an upload > 3", wantPushes)
	}
}

// killAt kills the broker: at random, or while the proxy holds a request of a commit. It reports whether an object was on its way, and
// whether an intent was open: a data object or a manifest that is not answered lies between intent and pointer.
func killAt(t *testing.T, b *harness.Broker, proxy *harness.Proxy, round int) (upload, open bool) {
	t.Helper()
	want := func(r harness.Request) bool { return round%3 == 0 && r.Data || round%3 == 1 && r.Manifest }
	hit, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	if round%3 != 2 {
		proxy.Hold(func(r harness.Request) <-chan struct{} {
			if !want(r) {
				return nil
			}
			once.Do(func() { close(hit) })
			return release
		})
		select {
		case <-hit:
		case <-time.After(30 * time.Second):
			t.Fatal("no request of a commit within 30 s")
		}
	} else {
		<-time.After(time.Duration(rand.IntN(400)) * time.Millisecond) // a moment nobody chose
	}
	for _, r := range proxy.Open() {
		upload = upload || r.Data
		open = open || r.Data || r.Manifest
	}
	b.Kill()
	proxy.Hold(nil)
	close(release)
	return upload, open
}

// drained waits until the sink has mirrored everything that was pushed.
func drained(t *testing.T, b *harness.Broker) {
	t.Helper()
	harness.Eventually(t, 60*time.Second, func() (bool, string) {
		row, err := b.Row("orders")
		return err == nil && row.BufferedBytes == 0 && row.State == "filling" && row.LagSeconds != nil && *row.LagSeconds < 2, fmt.Sprintf("%+v %v", row, err)
	})
}

// load is a set of producers and what they know was acknowledged.
type load struct {
	mu     sync.Mutex
	acked  map[string]string // transaction id -> partition + payload
	pushes atomic.Int64
}

// run starts eight producers; each repeats a push that got no clear answer, as the clients do. The returned function ends them.
func (l *load) run(b *harness.Broker, round int) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for p := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			l.produce(b, fmt.Sprintf("%d-%d", round, p), done)
		}()
	}
	return func() { close(done); wg.Wait() }
}

func (l *load) produce(b *harness.Broker, name string, done <-chan struct{}) {
	for n := 0; ; n++ {
		items := make([]harness.Item, 1+n%4)
		for i := range items {
			items[i] = harness.Item{Queue: "orders", Partition: fmt.Sprintf("cust-%d", (n+i)%40), TxID: fmt.Sprintf("%s-%d-%d", name, n, i),
				Payload: fmt.Sprintf(`{"n":%d, "total":%d.00,"pad":"%s"}`, n, i, strings.Repeat("x", n%200))}
		}
		if b.Push(items...) == nil {
			l.pushes.Add(1)
			l.mu.Lock()
			for _, it := range items {
				l.acked[it.TxID] = it.Partition + " " + it.Payload
			}
			l.mu.Unlock()
		}
		select {
		case <-done:
			return
		case <-b.Done():
			return
		default:
		}
	}
}

// compare reads the whole log and wants every acknowledged record there once, as it was sent.
func (l *load) compare(t *testing.T, b *harness.Broker) {
	t.Helper()
	found := map[string]int{}
	for p := range 40 {
		partition := fmt.Sprintf("cust-%d", p)
		for _, r := range fetchAll(t, b, "orders", partition) {
			found[r.TransactionID]++
			if want, ok := l.acked[r.TransactionID]; ok && want != partition+" "+string(r.Payload) {
				t.Errorf("%s: log holds %s, the producer sent %s", r.TransactionID, r.Payload, want)
			}
		}
	}
	missing, doubled := 0, 0
	for tx := range l.acked {
		if found[tx] == 0 {
			missing++
		}
	}
	for _, n := range found {
		if n > 1 {
			doubled++
		}
	}
	if missing > 0 || doubled > 0 {
		t.Errorf("of %d acknowledged records %d are missing from the log, %d are there more than once", len(l.acked), missing, doubled)
	}
}
