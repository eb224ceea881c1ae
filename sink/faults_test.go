package sink

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/commit/committest"
	"queen/config"
	"queen/internal/fakes3"
	"queen/stages"
)

func TestUnreachableBucket(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		w.s3.Script(fakes3.Rule{Op: "head", Status: 503, Times: 5})
		l := w.start(nil)
		elapse(500 * time.Millisecond)
		if r := l.report(); r["ok"] != false || r["bucket"].(map[string]any)["reachable"] != false || r["bucket"].(map[string]any)["error"] == nil {
			t.Errorf("bucket %v", r["bucket"])
		}
		if keys := w.mem.kv.Keys(); len(keys) != 0 {
			t.Errorf("claimed before the bucket answered: %v", keys)
		}
		w.until(5*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		if r := l.report(); r["ok"] != true || r["bucket"].(map[string]any)["reachable"] != true {
			t.Errorf("bucket %v", r["bucket"])
		}
		w.audit("orders")
		l.stop()
	})
}

// A bucket that is lost later is said so without a queue that writes.
func TestBucketIsProbedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.start(nil)
		w.until(time.Minute, "reached", func() bool { return l.report()["ok"] == true })
		w.s3.Script(fakes3.Rule{Op: "head", Status: 403, Code: "AccessDenied", Times: 3})
		w.until(2*time.Minute, "noticed", func() bool { return l.report()["ok"] == false })
		w.until(2*time.Minute, "well again", func() bool { return l.report()["ok"] == true })
		l.stop()
	})
}

func TestP17FiftyFailedPuts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 500)
		w.s3.Script(fakes3.Rule{Op: "put", Status: 500, Times: 15}, fakes3.Rule{Op: "put", Status: 503, Code: "SlowDown", Times: 15},
			fakes3.Rule{Op: "put", Cut: fakes3.CutMid, Times: 10}, fakes3.Rule{Op: "put", Cut: fakes3.CutBefore, Times: 10})
		l := w.start(nil)
		w.until(time.Hour, "a red health", func() bool { return l.report()["ok"] == false })
		w.until(2*time.Hour, "window 1", func() bool { return l.k("orders") == 1 })
		if row := l.row("orders"); row["lastError"] == nil {
			t.Error("no last error")
		}
		if n := w.audit("orders"); n != 500 {
			t.Errorf("%d records, want 500", n)
		}
		w.until(time.Minute, "green", func() bool { return l.report()["ok"] == true })
		if n := w.requests("put"); n < 52 {
			t.Errorf("%d puts", n)
		}
		l.stop()
	})
}

// A refusal that will not pass by itself stops the queue for a minute at a time; the lease stays, the others go on.
func TestRefusedPut(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		w.mem.push("other", "p", 5)
		w.s3.Script(fakes3.Rule{Op: "put", Key: "queen/tenant=*/queue=orders/*/*/*", Status: 403, Code: "AccessDenied", Times: 2})
		l := w.start(func(c *config.Sink) { c.Queues = []string{"orders", "other"} })
		w.until(time.Minute, "failed", hasState(l, "orders", "failed"))
		if row := l.row("orders"); row["ownedHere"] != true || !strings.Contains(fmt.Sprint(row["lastError"]), "s3:PutObject") {
			t.Errorf("row %v", row)
		}
		w.until(time.Minute, "the other", func() bool { return l.k("other") == 1 })
		w.until(5*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.audit("orders")
		l.stop()
	})
}

// Two processes and one queue: the second leaves it alone, takes it after the first stalled for longer than the time to live, and the first
// is fenced when it wakes, with nothing put twice.
func TestFencedByAnotherInstance(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		second := w.start(func(c *config.Sink) { c.Instance = "node-2@h" })
		w.until(time.Minute, "held", hasState(second, "orders", "held"))
		if row := second.row("orders"); row["heldBy"] != "node-1@h" || row["completeThrough"] != nil || row["lagSeconds"] != nil {
			t.Errorf("row %v", row)
		}
		// The first one's store is out of reach for a while.
		w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
			if strings.Contains(string(ops[0].Value), "node-1@h") {
				return committest.NotLeader
			}
			return committest.None
		})
		w.until(2*time.Minute, "the second owns it", func() bool { return second.row("orders")["ownedHere"] == true })
		w.mem.push("orders", "p", 5)
		w.until(time.Minute, "window 2", func() bool { return second.k("orders") == 2 })
		w.mem.kv.Script(nil)
		w.until(2*time.Minute, "the first has noticed", hasState(l, "orders", "fenced", "held"))
		if w.logged("queue fenced") == 0 {
			t.Error(w.logs.String())
		}
		if n := w.audit("orders"); n != 10 {
			t.Errorf("%d records, want 10", n)
		}
		second.stop()
		w.until(2*time.Minute, "the first has it back", func() bool { return l.row("orders")["ownedHere"] == true })
		w.until(time.Second, "restored", func() bool { return l.k("orders") == 2 })
		l.stop()
	})
}

// Every batch that writes intent or pointer has an unclear answer, applied or not: no window is skipped, nobody is fenced.
func TestUnclearAnswers(t *testing.T) {
	inWorld(t, func(w *world) {
		n := 0
		w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
			if len(ops) != 2 || ops[0].Kind != stages.OpPut {
				return committest.None
			}
			n++
			switch n % 3 {
			case 0:
				return committest.UnclearApplied
			case 1:
				return committest.UnclearUnapplied
			}
			return committest.None
		})
		l := w.start(nil)
		for i := range 6 {
			w.mem.push("orders", "p", 5)
			w.until(2*time.Minute, "a window", func() bool { return l.k("orders") == uint64(i+1) })
		}
		if n := w.audit("orders"); n != 30 {
			t.Errorf("%d records, want 30", n)
		}
		if w.logged("queue fenced") != 0 {
			t.Error("fenced by itself")
		}
		l.stop()
	})
}

// The node is behind its own intent: nothing is listed, encoded or put before it has applied it.
func TestWaitsForItsOwnIntent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.behind = true
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "the intent", hasState(l, "orders", "intent"))
		elapse(time.Minute) // longer than the lease: refreshing goes on meanwhile
		if w.requests("put") != 0 {
			t.Error("put before the intent was applied")
		}
		w.mem.mu.Lock()
		w.mem.behind = false
		w.mem.mu.Unlock()
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.audit("orders")
		l.stop()
	})
}

// What this node cannot read it gives back, and stays away for longer each time.
func TestDamagedData(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.broken = fmt.Errorf("segment 3: %w", stages.ErrDamaged)
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "failed", hasState(l, "orders", "failed"))
		if row := l.row("orders"); row["ownedHere"] != false || !strings.Contains(fmt.Sprint(row["lastError"]), "segment 3") {
			t.Errorf("row %v", row)
		}
		w.mem.mu.Lock()
		w.mem.broken = nil
		w.mem.mu.Unlock()
		w.until(2*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.audit("orders")
		l.stop()
	})
}

// A name that no store would take is refused for that queue alone.
func TestRefusedName(t *testing.T) {
	inWorld(t, func(w *world) {
		long := strings.Repeat("é", 60)
		w.mem.push(long, "p", 1)
		w.mem.push("orders", "p", 1)
		l := w.start(func(c *config.Sink) { c.Queues = []string{long, "orders"} })
		w.until(time.Minute, "window 1 of the other", func() bool { return l.k("orders") == 1 })
		if row := l.row(long); row["state"] != "failed" || row["ownedHere"] != false || !strings.Contains(fmt.Sprint(row["lastError"]), "too long") {
			t.Errorf("row %v", row)
		}
		l.stop()
	})
}

// An intent of a newer binary is left to a node that knows its values: the lease is given back, the queue says why, and nothing is sent.
func TestUnknownIntent(t *testing.T) {
	const start = `{"k":1,"tStart":0,"tEnd":946684900000000,"at":"x",`
	for _, c := range []struct{ intent, says string }{
		{start + `"format":"orc","compression":"zstd","layout":"merged","align":"hour"}`, "orc"},
		{start + `"format":"jsonl","compression":"zstd","level":3,"layout":"merged","align":"none","prefix":"queen","dictionary":"d"}`, `member "dictionary"`},
		{start + `"format":"jsonl","compression":"zstd","level":3,"layout":"merged","align":"none","prefix":"queen","key":"00112233aabbccdd"}`,
			"sealed with the encryption key 00112233aabbccdd and this node has none"},
		{start + `"format":"jsonl","compression":"zstd","level":"best","layout":"merged","align":"none","prefix":"queen"}`, `member "level" holds`},
	} {
		inWorld(t, func(w *world) {
			w.mem.push("orders", "p", 1)
			w.mem.kv.Put("s3:default:orders:start", `{"start":"earliest"}`, 0)
			w.mem.kv.Put("s3:default:orders:intent", c.intent, 0)
			l := w.start(nil)
			w.until(time.Minute, "failed", hasState(l, "orders", "failed"))
			if row := l.row("orders"); row["ownedHere"] != false || !strings.Contains(fmt.Sprint(row["lastError"].(map[string]any)["message"]), c.says) {
				t.Errorf("row %v", row)
			}
			elapse(5 * time.Minute)
			if w.requests("put") != 0 || string(w.mem.kv.Get("s3:default:orders:intent").Value) != c.intent {
				t.Error("put under an unknown intent, or written over it")
			}
			l.stop()
		})
	}
}

// Settings that changed between the intent and its redo: the redo uses the intent's, the next window the new ones.
func TestChangedSettings(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(func(c *config.Sink) { c.CrashAt = "mid_upload" })
		<-l.ended
		l = w.start(func(c *config.Sink) { c.Compression, c.Align, c.Prefix = "gzip", "day", "new" })
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.mem.push("orders", "p", 5)
		w.until(time.Minute, "window 2", func() bool { return l.k("orders") == 2 })
		var kinds []string
		for _, key := range w.s3.Keys() {
			kinds = append(kinds, key[:strings.IndexByte(key, '/')]+" "+key[strings.LastIndexByte(key, '.'):])
		}
		if got := strings.Join(kinds, ", "); got != "new .json, new .gz, queen .json, queen .zst" {
			t.Errorf("objects: %s", got)
		}
		l.stop()
	})
}

// Records that retention took before they were read are named in the manifest, counted and logged.
func TestLostIsNeverSilent(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.start(func(c *config.Sink) { c.MaxWindow = time.Minute })
		w.mem.push("orders", "p", 5)
		elapse(10 * time.Second)
		w.mem.trim("orders")
		w.mem.push("orders", "p", 2)
		w.until(5*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		if row := l.row("orders"); row["recordsLost"] != int64(5) || row["records"] != int64(2) {
			t.Errorf("row %v", row)
		}
		if w.logged("records went away before the sink read them") != 1 {
			t.Error(w.logs.String())
		}
		l.stop()
	})
}
