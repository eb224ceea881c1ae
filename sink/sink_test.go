package sink

import (
	"strings"
	"testing"
	"time"

	"queen/commit/committest"
	"queen/config"
	"queen/stages"
)

func TestShipsFromTheBeginning(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p1", 3)
		w.mem.push("orders", "p2", 4)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		if n := w.audit("orders"); n != 7 {
			t.Errorf("%d records, want 7", n)
		}
		w.until(time.Minute, "idle", func() bool { return w.passes(l) == 0 })
		row := l.row("orders")
		for key, want := range map[string]any{"state": "filling", "ownedHere": true, "heldBy": nil, "redo": false, "records": int64(7),
			"windowsCommitted": int64(1), "lastError": nil, "bufferedBytes": int64(0)} {
			if row[key] != want {
				t.Errorf("%s = %v, want %v", key, row[key], want)
			}
		}
		if r := l.report(); r["ok"] != true {
			t.Errorf("not ok: %v", r)
		}
		l.stop()
		if row := w.mem.kv.Get("s3:default:orders:lease"); row.Version != 0 {
			t.Errorf("the lease is not given back: %s", row.Value)
		}
		if w.logged("every queue drained; the sink has stopped") != 1 || w.logged("window committed") != 1 || w.logged("starting the S3 sink in-process") != 1 {
			t.Error(w.logs.String())
		}
	})
}

func (w *world) passes(l *life) (n int) {
	for _, q := range l.s.all() {
		q.mu.Lock()
		if q.pass != nil {
			n++
		}
		q.mu.Unlock()
	}
	return n
}

func TestLatestSkipsTheBacklog(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p1", 12)
		elapse(time.Second) // a record stamped exactly at the safe time of the adoption would belong to window 1
		latest := func(c *config.Sink) { c.Start = "latest" }
		l := w.start(latest)
		w.until(time.Minute, "adopted", hasState(l, "orders", "filling"))
		w.mem.push("orders", "p1", 6)
		elapse(time.Second)
		l.gone() // before anything was committed: the next life must not forget the six
		elapse(time.Minute)
		l = w.start(latest)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		if n := w.audit("orders"); n != 6 {
			t.Errorf("%d records, want 6", n)
		}
		l.stop()
	})
}

// Windows close by size while there is a backlog, by age when they get old, and never across a boundary.
func TestClosingRules(t *testing.T) {
	inWorld(t, func(w *world) {
		elapse(59*time.Minute + 30*time.Second)
		w.mem.push("orders", "p", 1)
		for range 40 {
			w.mem.push("orders", "p", 10) // about 1.5 KiB each
		}
		l := w.start(func(c *config.Sink) { c.TargetBytes, c.Align, c.MaxWindow = 16<<10, "hour", 2*time.Minute })
		w.until(30*time.Second, "three windows by size", func() bool { return l.k("orders") >= 3 })
		by := l.k("orders")
		w.until(time.Minute, "the boundary", func() bool { return l.k("orders") == by+1 })
		if end := l.row("orders")["tEnd"]; end != "2000-01-01T01:00:00.000000Z" {
			t.Errorf("the last window ends at %v", end)
		}
		w.mem.push("orders", "p", 1)
		begun := time.Now()
		w.until(5*time.Minute, "age", func() bool { return l.k("orders") == by+2 })
		if took := time.Since(begun); took < 2*time.Minute || took > 2*time.Minute+6*time.Second {
			t.Errorf("a window of one record closed after %v", took)
		}
		if n := w.audit("orders"); n != 402 {
			t.Errorf("%d records, want 402", n)
		}
		keys := strings.Join(w.s3.Keys(), "\n")
		if !strings.Contains(keys, "hour=00/") || !strings.Contains(keys, "hour=01/") {
			t.Error(keys)
		}
		l.stop()
	})
}

// A sink dies at each of the five points. The next life ends with the same keys and the same bytes as a run that never died.
func TestCrashPoints(t *testing.T) {
	run := func(t *testing.T, point string) (objects map[string]string) {
		inWorld(t, func(w *world) {
			change := func(c *config.Sink) { c.TargetBytes = 16 << 10 }
			for range 40 {
				w.mem.push("orders", "p", 10)
			}
			if point != "never" {
				l := w.start(func(c *config.Sink) { change(c); c.CrashAt = point })
				<-l.ended
				elapse(time.Second)
			}
			l := w.start(change)
			w.until(time.Minute, "all windows", func() bool { return l.k("orders") >= 4 && w.audit("orders") == 400 })
			l.stop()
			objects = w.objects()
			if n := w.logged(`"window committed"`); n != int(l.k("orders")) && point != "after_commit" {
				t.Errorf("%d windows committed in the log, k is %d", n, l.k("orders"))
			}
			if n := w.logged("committing it from its manifest"); (point == "after_upload" || point == "before_commit") != (n == 1) {
				t.Errorf("%s: taken from a manifest %d times", point, n)
			}
		})
		return objects
	}
	clean := run(t, "never")
	for _, point := range []string{"after_intent", "mid_upload", "after_upload", "before_commit", "after_commit"} {
		t.Run(point, func(t *testing.T) {
			got := run(t, point)
			same := 0
			for key, sum := range clean {
				if strings.Contains(key, "/w-0000000004-") || strings.Contains(key, "windows/") && !strings.HasSuffix(key, "0001.json") {
					continue // the last window closes by age, and `at` is the time of its intent
				}
				if got[key] != sum {
					t.Errorf("%s: %s, a clean run has %s", key, got[key], sum)
				}
				same++
			}
			if same < 4 {
				t.Errorf("only %d objects compared", same)
			}
		})
	}
}

func TestMissingQueueAppearsLater(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.start(nil)
		w.until(time.Minute, "missing", hasState(l, "orders", "missing"))
		elapse(time.Minute)
		if r := l.report(); r["ok"] != true {
			t.Error("a missing queue is no error of the sink")
		}
		w.mem.push("orders", "p", 5)
		begun := time.Now()
		blips := 0 // the first failure after many looks is a first one
		w.mem.kv.Script(func([]stages.Op) committest.Fault {
			if blips++; blips > 1 {
				return committest.None
			}
			return committest.NotLeader
		})
		w.until(time.Minute, "owned", func() bool { return l.row("orders")["ownedHere"] == true })
		if took := time.Since(begun); took > 8*time.Second {
			t.Errorf("found after %v", took)
		}
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.audit("orders")
		l.stop()
	})
}
