package sink

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/commit/committest"
	"queen/config"
	"queen/internal/fakes3"
	"queen/stages"
)

// A window of a MiB is worth finishing, a small young one is left to the next life, and nothing is lost either way.
func TestDrain(t *testing.T) {
	for _, c := range []struct {
		name    string
		appends int
		windows uint64
	}{{"large", 900, 1}, {"small", 3, 0}} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				long := func(c *config.Sink) { c.MaxWindow, c.TargetBytes = time.Hour, 64<<20 }
				l := w.start(long)
				for range c.appends {
					w.mem.push("orders", "p", 10)
				}
				elapse(8 * time.Second)
				l.stop()
				if k := l.k("orders"); k != c.windows {
					t.Errorf("k = %d after the drain, want %d", k, c.windows)
				}
				if row := l.row("orders"); row["state"] != "drained" || row["ownedHere"] != false {
					t.Errorf("row %v", row)
				}
				if line := fmt.Sprintf(`"aged":false,"closing":%t,"state":"filling","message":"shutting down: stopping the reads"`, c.windows > 0); w.logged(line) != 1 {
					t.Errorf("no %s in %s", line, w.logs.String())
				}
				if line := `"committed_k":0,"redo":false,"checkpoint_k":"none","positions":0,"message":"queue restored"`; w.logged(line) != 1 {
					t.Errorf("no %s in %s", line, w.logs.String())
				}
				l = w.start(func(c *config.Sink) { long(c); c.MaxWindow = 10 * time.Second })
				w.until(time.Minute, "the rest", func() bool { return w.audit("orders") == c.appends*10 })
				l.stop()
			})
		})
	}
}

// A window that is on its way when the drain begins is finished, through a leaderless moment and failing PUTs.
func TestDrainFinishesTheOpenWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		hold := make(chan struct{})
		w.s3.Script(fakes3.Rule{Op: "put", Times: 1, Hold: hold})
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "the upload", hasState(l, "orders", "upload"))
		go func() {
			elapse(2 * time.Second)
			fails := 6
			w.mem.kv.Script(func([]stages.Op) committest.Fault {
				if fails--; fails >= 0 {
					return committest.NotLeader
				}
				return committest.None
			})
			close(hold)
		}()
		l.stop()
		if k := l.k("orders"); k != 1 {
			t.Errorf("k = %d, want 1", k)
		}
		w.audit("orders")
		if row := w.mem.kv.Get("s3:default:orders:lease"); row.Version != 0 {
			t.Error("the lease is not given back")
		}
	})
}

// A PUT that hangs cannot hold the drain longer than the grace; the lease is given back all the same, and the next life redoes the window.
func TestDrainIsCutAtTheGrace(t *testing.T) {
	inWorld(t, func(w *world) {
		w.s3.Script(fakes3.Rule{Op: "put", Times: 1, Hold: make(chan struct{})})
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "the upload", hasState(l, "orders", "upload"))
		begun := time.Now()
		l.stop()
		if took := time.Since(begun); took < 25*time.Second || took > 30*time.Second {
			t.Errorf("drained in %v", took)
		}
		if row := w.mem.kv.Get("s3:default:orders:lease"); row.Version != 0 {
			t.Error("the lease is not given back")
		}
		if w.logged("every queue drained") != 0 || w.logged(`"queue":"orders","message":"queue drained"`) != 0 {
			t.Error("a drain that was cut says that it drained")
		}
		if line := `"level":"warn","queues":["orders"],"open_windows":["orders 1"],"why":"the grace of the shutdown is over"`; w.logged(line) != 1 {
			t.Errorf("no %s in %s", line, w.logs.String())
		}
		l = w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.audit("orders")
		l.stop()
	})
}

// A queue that has failed in an open window has not drained, and what drained beside it is not named.
func TestFailedQueueIsNotDrained(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		w.mem.push("other", "p", 5)
		w.s3.Script(fakes3.Rule{Op: "put", Key: "queen/tenant=*/queue=orders/*/*/*", Status: 403, Code: "AccessDenied"})
		l := w.start(func(c *config.Sink) { c.Queues = []string{"orders", "other"} })
		w.until(time.Minute, "failed", hasState(l, "orders", "failed"))
		w.until(time.Minute, "the other", func() bool { return l.k("other") == 1 })
		l.stop()
		if line := `"level":"warn","queues":["orders"],"open_windows":["orders 1"],"message":"the sink has stopped before`; w.logged(line) != 1 {
			t.Errorf("no %s in %s", line, w.logs.String())
		}
		if w.logged(`"queue":"other","message":"queue drained"`) != 1 || w.logged("every queue drained") != 0 {
			t.Error(w.logs.String())
		}
	})
}

// A second signal ends the drain at once.
func TestDrainIsAborted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.s3.Script(fakes3.Rule{Op: "put", Times: 1, Hold: make(chan struct{})})
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "the upload", hasState(l, "orders", "upload"))
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if err := l.s.Drain(ctx); err == nil {
			t.Error("an aborted drain says that it drained")
		}
		<-l.ended
		if took := time.Since(begun); took > 12*time.Second {
			t.Errorf("aborted in %v", took)
		}
		l.cancel()
	})
}

// A drain while the bucket has never answered has nothing to do.
func TestDrainBeforeTheBucketAnswers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.s3.Deaf(true)
		l := w.start(nil)
		elapse(10 * time.Second)
		begun := time.Now()
		l.stop()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("drained in %v", took)
		}
	})
}

// With `*` every queue is mirrored, one made later too; one that is deleted is forgotten.
func TestAllQueues(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("a", "p", 1)
		w.mem.push("b", "p", 2)
		l := w.start(func(c *config.Sink) { c.Queues, c.All = nil, true })
		w.until(time.Minute, "both", func() bool { return l.k("a") == 1 && l.k("b") == 1 })
		w.mem.push("c", "p", 3)
		w.until(time.Minute, "the new one", func() bool { return l.k("c") == 1 })
		w.audit("c")
		w.mem.drop("b")
		w.until(time.Minute, "forgotten", func() bool { return len(l.report()["queues"].([]any)) == 2 })
		if row := w.mem.kv.Get("s3:default:b:committed"); row.Version == 0 {
			t.Error("the pointer of a deleted queue is gone")
		}
		w.mem.push("b", "p", 4) // made anew: k goes on
		w.until(2*time.Minute, "it is back", func() bool { return l.k("b") == 2 })
		l.stop()
	})
}

// An idle queue has no goroutine, stays green and has a small lag for as long as it is idle.
func TestIdle(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 1)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		elapse(10 * time.Second)
		batches := 0
		w.mem.kv.Trace(func(string) { batches++ })
		for range 300 {
			elapse(time.Second)
			if w.passes(l) != 0 {
				t.Fatal("an idle queue has a pipeline")
			}
			if lag, _ := l.row("orders")["lagSeconds"].(float64); lag < 1 || lag > 4 {
				t.Fatalf("lag %v", lag)
			}
			if l.report()["ok"] != true {
				t.Fatal("red")
			}
		}
		if batches < 50 || batches > 64 {
			t.Errorf("%d batches in 300 s, one refresh and one presence row each 10 s were to be expected", batches)
		}
		l.stop()
	})
}

func TestStatusAndMetrics(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 7)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		elapse(10*time.Second + 320*time.Millisecond)
		golden(t, "status.json", statusText(t, l.s))
		golden(t, "metrics.txt", metricsText(t, l.s))
		l.stop()
		text := metricsText(t, l.s)
		for _, gauge := range []string{"queen_s3_lag_seconds{", "queen_s3_discovery_partitions{", "queen_s3_checkpoint_age_windows{", "\nqueen_s3_safe_lag_seconds "} {
			if strings.Contains(text, gauge) {
				t.Errorf("gauges of a queue that does not run here:\n%s", text)
			}
		}
	})
}
