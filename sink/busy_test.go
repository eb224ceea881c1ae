package sink

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"queen/commit/committest"
	"queen/config"
	"queen/encode"
	"queen/internal/fakes3"
	"queen/stages"
)

// The number that users see is one: in status, in the start line and in every manifest.
func TestOneVersion(t *testing.T) {
	for _, f := range encode.Formats() {
		if want := "queen-s3/" + Version + " "; !strings.HasPrefix(f.Writer(), want) {
			t.Errorf("manifests of %s say %q, status says %q", f.Ext(), f.Writer(), Version)
		}
	}
}

// breakReads makes the reading of bodies fail until the returned function is called.
func (w *world) breakReads(err error) (mend func()) {
	set := func(err error) {
		w.mem.mu.Lock()
		defer w.mem.mu.Unlock()
		w.mem.broken = err
	}
	set(err)
	return func() { set(nil) }
}

// A queue that is so busy that no pass of it ends by itself has a blip now and then. Each is the first one again: what was long ago, and made
// good since, does not lengthen the wait.
func TestCommittedWindowEndsTheFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		blips int
		most  time.Duration // from the blip to the next window
	}{
		{"a blip", errors.New("blip"), 10, 10 * time.Second},
		{"damage", stages.ErrDamaged, 3, 75 * time.Second}, // two times to live, and what a window takes
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				stop := make(chan struct{})
				defer close(stop)
				go func() {
					for tick := time.NewTicker(200 * time.Millisecond); ; {
						select {
						case <-tick.C:
							w.mem.push("orders", "p", 3)
						case <-stop:
							tick.Stop()
							return
						}
					}
				}()
				l := w.start(func(c *config.Sink) { c.TargetBytes = 4 << 10 })
				w.until(time.Minute, "window 2", func() bool { return l.k("orders") >= 2 })
				for i := range c.blips {
					mend := w.breakReads(fmt.Errorf("number %d: %w", i, c.err))
					w.until(2*time.Minute, "the blip", func() bool {
						return strings.Contains(fmt.Sprint(l.row("orders")["lastError"]), fmt.Sprintf("number %d", i))
					})
					elapse(10 * time.Millisecond)
					mend()
					k, begun := l.k("orders"), time.Now()
					w.until(time.Hour, "the next windows", func() bool { return l.k("orders") >= k+2 })
					if took := time.Since(begun); took > c.most {
						t.Fatalf("number %d: %v until the windows after it", i, took)
					}
				}
				l.stop()
			})
		})
	}
}

// A pass ends while the batch of a pointer is on its way. The window is real, and it is counted, shown and logged, once: when the answer
// comes, and when it is lost and the next adoption finds the row.
func TestCommittedIsTold(t *testing.T) {
	for name, fault := range map[string]committest.Fault{"answered": committest.None, "answer lost": committest.UnclearApplied} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.mem.push("orders", "p", 5)
				var l *life
				var ended atomic.Bool
				w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
					if ended.Load() || ops[len(ops)-1].Key != committedKey {
						return committest.None
					}
					ended.Store(true)
					q := l.s.all()[0]
					q.mu.Lock()
					defer q.mu.Unlock()
					q.pass.cancel(errors.New("the pass ends here"))
					return fault
				})
				l = w.start(nil)
				w.until(time.Minute, "the end of the pass", ended.Load)
				w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
				elapse(time.Minute)
				if row := l.row("orders"); row["windowsCommitted"] != int64(1) || row["records"] != int64(5) {
					t.Errorf("row %v", row)
				}
				if n := w.logged(`"message":"window committed"`); n != 1 {
					t.Errorf("%d lines: %s", n, w.logs.String())
				}
				if text := metricsText(t, l.s); !strings.Contains(text, `queen_s3_windows_committed_total{queue="orders"} 1`) {
					t.Error(text)
				}
				w.exactly("orders")
				l.stop()
			})
		})
	}
}

// A pointer that is refused because another process holds the queue is one batch that was rolled back. Looking at the lease again is none.
func TestRefusedPointerIsCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		hold := make(chan struct{})
		w.mem.push("orders", "p", 5)
		w.s3.Script(fakes3.Rule{Op: "put", Times: 1, Hold: hold})
		l := w.start(nil)
		w.until(time.Minute, "the upload", hasState(l, "orders", "upload"))
		w.mem.kv.Put(leaseKey, `{"instance":"node-2@h","incarnation":"b","sinceMs":1}`, 2*time.Minute)
		close(hold)
		w.until(time.Minute, "noticed", hasState(l, "orders", "fenced"))
		elapse(2 * time.Minute)
		if text := metricsText(t, l.s); !strings.Contains(text, "queen_s3_commit_precondition_lost_total 1") {
			t.Error(text)
		}
		w.until(2*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.exactly("orders")
		l.stop()
	})
}

// The wait of a failed queue is begun anew each time: the timer of an earlier wait, which something else has ended, does not cut it.
func TestOldTimerDoesNotCutTheWait(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		w.s3.Script(fakes3.Rule{Op: "put", Status: 403, Code: "AccessDenied"})
		l := w.start(nil)
		w.until(time.Minute, "the first refusal", func() bool { return w.requests("put") == 1 })
		elapse(5 * time.Second)
		w.mem.kv.Put(leaseKey, `{"instance":"node-2@h","incarnation":"b","sinceMs":1}`, 20*time.Second) // ends the wait of a minute
		w.until(50*time.Second, "the second refusal", func() bool { return w.requests("put") == 2 })
		elapse(55 * time.Second)
		if n := w.requests("put"); n != 2 {
			t.Errorf("%d requests, the third within a minute of the second", n)
		}
		w.until(10*time.Second, "the third refusal", func() bool { return w.requests("put") == 3 })
		l.stop()
	})
}

// Only what was owned here is drained: a queue of another node, and one that does not exist, are what they were.
func TestDrainedIsWhatWasOwned(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		w.mem.push("mine", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		second := w.start(func(c *config.Sink) { c.Instance, c.Queues = "node-2@h", []string{"orders", "mine", "none"} })
		w.until(time.Minute, "window 1", func() bool { return second.k("mine") == 1 })
		w.until(time.Minute, "held", hasState(second, "orders", "held"))
		w.mem.kv.Script(func([]stages.Op) committest.Fault { return committest.NotLeader }) // a claim that fails while the sink stops
		elapse(11 * time.Second)
		w.mem.kv.Script(nil)
		second.stop()
		for queue, state := range map[string]string{"mine": "drained", "none": "missing"} {
			if got := second.row(queue)["state"]; got != state {
				t.Errorf("%s is %v, want %s", queue, got, state)
			}
		}
		if n := w.logged(`"queue":"orders","message":"queue drained"`) + w.logged(`"queue":"none","message":"queue drained"`); n != 0 {
			t.Error(w.logs.String())
		}
		l.stop()
		if n := w.logged(`"queue":"orders","message":"queue drained"`); n != 1 {
			t.Error(w.logs.String())
		}
	})
}

// A panic below the pipeline ends the queue for a minute: its gauges go, its lag goes on growing for health, the line has the stack, the others
// go on, and it comes back.
func TestCrashedQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.start(nil)
		w.mem.push("orders", "p", 5)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		panics := func(yes bool) {
			w.mem.mu.Lock()
			defer w.mem.mu.Unlock()
			w.mem.panics = yes
		}
		panics(true)
		w.mem.push("orders", "p", 5)
		w.until(time.Minute, "crashed", hasState(l, "orders", "crashed"))
		panics(false)
		if row := l.row("orders"); row["lagSeconds"] == nil || row["ownedHere"] != true {
			t.Errorf("row %v", row)
		}
		if text := metricsText(t, l.s); strings.Contains(text, "queen_s3_lag_seconds{") || strings.Contains(text, "queen_s3_discovery_partitions{") {
			t.Error(text)
		}
		if w.logged("in the log") == 0 || w.logged("Bodies") == 0 {
			t.Error(w.logs.String())
		}
		elapse(50 * time.Second)
		if k := l.k("orders"); k != 1 {
			t.Errorf("k = %d within the minute", k)
		}
		w.until(time.Minute, "window 2", func() bool { return l.k("orders") == 2 })
		if row := l.row("orders"); row["lagSeconds"] == nil {
			t.Errorf("row %v", row)
		}
		w.exactly("orders")
		l.stop()
	})
}

// The number of partitions follows the queue.
func TestPartitions(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "a", 1)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.mem.push("orders", "b", 1)
		w.mem.push("orders", "c", 1)
		w.until(15*time.Second, "three partitions", func() bool { return l.row("orders")["partitions"] == 3 })
		if text := metricsText(t, l.s); !strings.Contains(text, `queen_s3_discovery_partitions{queue="orders"} 3`) {
			t.Error(text)
		}
		l.stop()
	})
}

// A panic while a queue is claimed ends that attempt, and not the process.
func TestCrashedClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		w.mem.push("other", "p", 5)
		var broken atomic.Bool
		broken.Store(true)
		w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
			if broken.Load() && strings.Contains(ops[0].Key, ":orders:") {
				panic("in the store")
			}
			return committest.None
		})
		l := w.start(func(c *config.Sink) { c.Queues = []string{"orders", "other"} })
		w.until(time.Minute, "crashed", hasState(l, "orders", "crashed"))
		w.until(time.Minute, "the other", func() bool { return l.k("other") == 1 })
		broken.Store(false)
		w.until(2*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.exactly("orders")
		l.stop()
	})
}
