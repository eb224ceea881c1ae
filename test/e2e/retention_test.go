package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"queen/test/harness"
)

const removedLine = "records were removed before the sink read them"

// overrun is a log that retention removes from while no sink reads it.
type overrun struct {
	t   *testing.T
	dir string
	env harness.Env
	g   *harness.Gateway
	n   int // pushes so far
}

func newOverrun(t *testing.T, start string) *overrun {
	g := harness.StartGateway(t, t.TempDir(), "lake")
	return &overrun{t: t, dir: filepath.Join(t.TempDir(), "data"), g: g, env: harness.SinkEnv(g.URL, "lake").With("QUEEN_S3_START", start, "QUEEN_S3_MAX_WINDOW_MS", "200",
		"QUEEN_S3_SAFE_GUARD_MS", "20", "QUEEN_S3_DISCOVERY_INTERVAL_MS", "20", "QUEEN_S3_LEASE_TTL_MS", "2000")}
}

// push puts n records into each of two partitions, under one stamp.
func (o *overrun) push(b *harness.Broker, n int) {
	o.t.Helper()
	var items []harness.Item
	for i := range n {
		for _, p := range []string{"p-0", "p-1"} {
			items = append(items, harness.Item{Queue: "orders", Partition: p, TxID: fmt.Sprintf("%d-%d", o.n, i), Payload: fmt.Sprintf(`{"push":%d,"n":%d.0}`, o.n, i)})
		}
	}
	o.n++
	if err := b.Push(items...); err != nil {
		o.t.Fatal(err)
	}
}

// retain sets retentionSeconds of the queue; 0 = nothing is removed.
func (o *overrun) retain(b *harness.Broker, seconds int) {
	o.t.Helper()
	body := fmt.Sprintf(`{"queue":"orders","options":{"retentionEnabled":%v,"retentionSeconds":%d}}`, seconds > 0, seconds)
	if status, out, err := b.Do("POST", "/api/v1/configure", []byte(body)); err != nil || status >= 300 {
		o.t.Fatalf("configure: %d %s %v", status, out, err)
	}
}

// removal runs the broker without a sink until retention has removed what the sink has not read, and kills it. Retention waits for a sink that may keep up:
// two windows, the guard and a minute, whatever is set.
func (o *overrun) removal(pushes ...int) {
	o.t.Helper()
	b := harness.StartBroker(o.t, o.dir, nil)
	for _, n := range pushes {
		o.push(b, n)
	}
	o.retain(b, 1)
	if _, err := b.WaitLine(removedLine, 2*time.Minute); err != nil {
		o.t.Fatal(err)
	}
	o.retain(b, 0)
	b.Kill()
}

// crash runs a sink until it aborts itself at a point.
func (o *overrun) crash(point string) {
	o.t.Helper()
	b := harness.LaunchBroker(o.t, o.dir, o.env.With("QUEEN_S3_CRASH_AT", point))
	if code, err := b.Wait(60 * time.Second); err != nil || code != 128+6 {
		o.t.Fatalf("crash at %s: exit %d (want SIGABRT), %v", point, code, err)
	}
}

// until runs a sink until window k is committed; it is killed with no time to drain.
func (o *overrun) until(k int64) {
	o.t.Helper()
	b := harness.StartBroker(o.t, o.dir, o.env)
	b.WaitWindows(o.t, "orders", k, 60*time.Second)
	b.Kill()
}

// adopted waits until the sink has written where it starts.
func (o *overrun) adopted(b *harness.Broker) {
	o.t.Helper()
	harness.Eventually(o.t, 30*time.Second, func() (bool, string) {
		row, err := b.Row("orders")
		return err == nil && row.State == "filling" && row.LagSeconds != nil, fmt.Sprintf("%+v %v", row, err)
	})
}

// filled starts a broker without a sink, lets do use it, and kills it.
func (o *overrun) filled(do func(b *harness.Broker)) {
	o.t.Helper()
	b := harness.StartBroker(o.t, o.dir, nil)
	do(b)
	b.Kill()
}

// lost are the ranges of the manifest of window k, as "partition from-to".
func (o *overrun) lost(k int) (ranges []string, records int) {
	o.t.Helper()
	for key := range harness.Keys(o.t, o.g.Lake("lake")) {
		if !strings.HasSuffix(key, fmt.Sprintf("/windows/%010d.json", k)) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(o.g.Lake("lake"), key))
		if err != nil {
			o.t.Fatal(err)
		}
		var m struct {
			Records int
			Lost    []struct {
				Partition string
				From, To  int64
			}
		}
		if err := json.Unmarshal(text, &m); err != nil {
			o.t.Fatal(err)
		}
		for _, l := range m.Lost {
			ranges = append(ranges, fmt.Sprintf("%s %d-%d", l.Partition, l.From, l.To))
		}
		return ranges, m.Records
	}
	o.t.Fatalf("no manifest of window %d", k)
	return nil, 0
}

// want compares what window k holds and names as lost.
func (o *overrun) want(k, records int, lost ...string) {
	o.t.Helper()
	if got, n := o.lost(k); n != records || !slices.Equal(got, lost) {
		o.t.Errorf("window %d: %d records, lost %q; want %d, %q", k, n, got, records, lost)
	}
}

// audited starts a last life for the two audits to ask.
func (o *overrun) audited() {
	o.t.Helper()
	b := harness.StartBroker(o.t, o.dir, nil)
	harness.MustBeClean(o.t, o.g.Lake("lake"), b.URL)
}

// TestRetentionOverrun is contract S10 and B6 with processes: what retention removed before the sink read it is in `lost` of one manifest, to the offset, and
// what it did not remove is in an object; across kill -9 between removal and commit, at the edges of a window, twice in a row, under `latest`, and in a redo. The
// stories run beside each other: each waits a minute or two for retention.
func TestRetentionOverrun(t *testing.T) {
	t.Parallel() // most of it is waiting
	stories := map[string]func(o *overrun){
		"twice in a row": func(o *overrun) {
			o.filled(func(b *harness.Broker) { o.push(b, 10) })
			o.until(1)
			o.removal(3, 27) // offsets 10 to 39
			o.filled(func(b *harness.Broker) { o.push(b, 5) })
			o.crash("after_intent") // the manifest is written by a redo
			o.crash("before_commit")
			o.until(2)
			o.removal(6) // 45 to 50
			o.filled(func(b *harness.Broker) { o.push(b, 2) })
			o.until(3)
			o.want(1, 20)
			o.want(2, 10, "p-0 10-39", "p-1 10-39")
			o.want(3, 4, "p-0 45-50", "p-1 45-50")
		},
		"at the edges of an open window": func(o *overrun) {
			o.filled(func(b *harness.Broker) { o.push(b, 10) })
			o.until(1)
			o.filled(func(b *harness.Broker) { o.push(b, 4) }) // 10 to 13: the open window is frozen, what is stamped behind it is not
			o.crash("after_intent")
			o.removal(3) // 14 to 16
			o.filled(func(b *harness.Broker) { o.push(b, 1) })
			o.crash("mid_upload")
			o.until(3)
			o.want(2, 8)
			o.want(3, 2, "p-0 14-16", "p-1 14-16")
		},
		"latest": func(o *overrun) {
			o.filled(func(b *harness.Broker) { o.push(b, 7) }) // before the sink: neither in the lake nor lost
			b := harness.StartBroker(o.t, o.dir, o.env)
			o.adopted(b)
			b.Kill()
			o.removal(5) // 7 to 11
			o.filled(func(b *harness.Broker) { o.push(b, 1) })
			o.until(1)
			o.want(1, 2, "p-0 7-11", "p-1 7-11")
		},
	}
	var wg sync.WaitGroup
	for name, story := range stories {
		wg.Go(func() {
			t.Run(name, func(t *testing.T) {
				start := "earliest"
				if name == "latest" {
					start = name
				}
				o := newOverrun(t, start)
				story(o)
				o.audited()
			})
		})
	}
	wg.Wait()
}

// TestRetentionBelowTheWindow has retention of a fifth of a window, as 60 s are of five minutes: each record is past its deadline long before its window closes,
// and none is lost while the sink keeps up, kill -9 or not. TestRetentionWaitsForASinkThatKeepsUp of package broker has the full sizes.
func TestRetentionBelowTheWindow(t *testing.T) {
	t.Parallel() // most of it is waiting
	o := newOverrun(t, "earliest")
	o.env = o.env.With("QUEEN_S3_MAX_WINDOW_MS", "5000")
	b := harness.StartBroker(t, o.dir, o.env)
	for i := range 70 {
		o.push(b, 2)
		if i == 0 { // retention waits for a sink that has adopted the queue, and this one may have looked before there was one
			o.adopted(b)
			o.retain(b, 1)
		}
		if i == 35 {
			b.Kill()
			b = harness.StartBroker(t, o.dir, o.env)
		}
		<-time.After(300 * time.Millisecond) // records come slowly: what is tested is their age
	}
	records, windows := 0, 0
	harness.Eventually(t, 60*time.Second, func() (bool, string) {
		records, windows = 0, 0
		for key := range harness.Keys(t, o.g.Lake("lake")) {
			if strings.Contains(key, "/windows/") {
				windows++
			}
		}
		for k := 1; k <= windows; k++ {
			_, n := o.lost(k)
			records += n
		}
		return records == 280, fmt.Sprintf("%d records in %d windows", records, windows)
	})
	for k := 1; k <= windows; k++ {
		if lost, _ := o.lost(k); len(lost) > 0 {
			t.Errorf("window %d lost %v", k, lost)
		}
	}
	if windows < 3 {
		t.Errorf("only %d windows", windows)
	}
	b.WaitWindows(t, "orders", int64(windows), 10*time.Second)
	harness.MustBeClean(t, o.g.Lake("lake"), b.URL)
}

// TestDeletedAndMadeAgain deletes a queue with records that the sink has not read, and makes it again under the same name, with kill -9 at each step: what was
// not read is lost by name, the window that was open is whole, and the new queue's offsets begin at 0.
func TestDeletedAndMadeAgain(t *testing.T) {
	o := newOverrun(t, "earliest")
	o.filled(func(b *harness.Broker) { o.push(b, 10) })
	o.until(1)
	o.filled(func(b *harness.Broker) { o.push(b, 4) }) // offsets 10 to 13
	o.crash("after_intent")
	o.filled(func(b *harness.Broker) {
		o.push(b, 3) // 14 to 16: behind the open window
		if status, out, err := b.Do("DELETE", "/api/v1/resources/queues/orders", nil); err != nil || status != 200 {
			t.Fatalf("delete: %d %s %v", status, out, err)
		}
	})
	o.filled(func(b *harness.Broker) { o.push(b, 5) }) // another queue of that name: 0 to 4
	o.crash("mid_upload")
	o.crash("before_commit") // of window 2, or 3
	b := harness.StartBroker(t, o.dir, o.env)
	b.WaitWindows(t, "orders", 3, 60*time.Second)
	b.Signal(syscall.SIGTERM)
	if code, err := b.Wait(20 * time.Second); err != nil || code != 0 {
		t.Errorf("stop: exit %d, %v", code, err)
	}
	o.want(2, 8)
	o.want(3, 10, "p-0 14-16", "p-1 14-16")
	b = harness.StartBroker(t, o.dir, nil)
	harness.MustBeClean(t, o.g.Lake("lake"), b.URL)
}
