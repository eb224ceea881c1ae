package sink

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"queen/commit/committest"
	"queen/config"
	"queen/internal/fakes3"
	"queen/stages"
)

// Two processes under one name do not take the queue from each other for ever: the one that started last has it, the other says so.
func TestTwins(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		twin := w.start(nil)
		w.until(time.Minute, "the twin owns it", func() bool { return twin.row("orders")["ownedHere"] == true })
		w.until(time.Minute, "the first is fenced", hasState(l, "orders", "fenced"))
		if w.logged("give each its own QUEEN_S3_INSTANCE") == 0 {
			t.Error(w.logs.String())
		}
		for range 10 {
			w.mem.push("orders", "p", 5)
			elapse(30 * time.Second)
			if twin.row("orders")["ownedHere"] != true || l.row("orders")["ownedHere"] != false {
				t.Fatalf("the queue moved: %v", l.row("orders"))
			}
		}
		w.audit("orders")
		l.stop()
		twin.stop()
	})
}

// A node that starts again under its name has its queue back at once.
func TestOwnRowIsTakenBackAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		l.gone()
		l = w.start(nil)
		w.until(2*time.Second, "owned", func() bool { return l.row("orders")["ownedHere"] == true })
		l.stop()
	})
}

// The row of an idle queue is taken: the node notices at its next refresh.
func TestIdleQueueIsFenced(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.until(time.Minute, "idle", func() bool { return w.passes(l) == 0 })
		w.mem.kv.Put("s3:default:orders:lease", `{"instance":"node-2@h","incarnation":"b","sinceMs":1}`, 40*time.Second)
		w.until(15*time.Second, "noticed", hasState(l, "orders", "fenced"))
		elapse(29 * time.Second)
		if row := l.row("orders"); row["state"] != "fenced" || row["heldBy"] != "node-2@h" {
			t.Errorf("within a time to live of the loss: %v", row)
		}
		w.until(2*time.Second, "it is looked at again", hasState(l, "orders", "held", "claiming"))
		if w.logged("queue fenced") != 1 {
			t.Error(w.logs.String())
		}
		// Each row of a refresh stands for itself: nothing was rolled back.
		if text := metricsText(t, l.s); !strings.Contains(text, "queen_s3_commit_precondition_lost_total 0") {
			t.Error(text)
		}
		w.until(2*time.Minute, "it is free again", func() bool { return l.row("orders")["ownedHere"] == true })
		l.stop()
	})
}

// A drain meets a bucket that fails: the open window is tried again every quarter of a second, and finished.
func TestDrainRetriesTheOpenWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 40 { // enough for several windows: only the open one is finished
			w.mem.push("orders", "p", 10)
		}
		w.s3.Script(fakes3.Rule{Op: "put", Status: 500, Times: 9})
		l := w.start(func(c *config.Sink) { c.TargetBytes = 16 << 10 })
		w.until(5*time.Minute, "a failed pass", func() bool { return l.row("orders")["lastError"] != nil })
		l.stop()
		if k := l.k("orders"); k != 1 {
			t.Errorf("k = %d, want 1", k)
		}
		w.audit("orders")
	})
}

// A queue is deleted and made anew under its name: k goes on, and the new records are shipped.
func TestQueueMadeAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.mem.push("orders", "p", 1)
		elapse(3 * time.Second)
		w.mem.drop("orders")
		w.mem.push("orders", "p", 7)
		w.until(2*time.Minute, "window 2", func() bool { return l.k("orders") == 2 })
		if row := l.row("orders"); row["records"] != int64(12) {
			t.Errorf("row %v", row)
		}
		w.mem.drop("orders")
		w.until(2*time.Minute, "missing", hasState(l, "orders", "missing"))
		if row := w.mem.kv.Get("s3:default:orders:lease"); row.Version != 0 {
			t.Error("the lease of a queue that is gone is kept")
		}
		l.stop()
	})
}

// The rows in KV are gone and the bucket is not empty: counting from 1 again would write over what is there.
func TestFreshRowsOnAnOldPrefix(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		l.stop()
		w.mem.kv = committest.New(time.Now)
		before := w.requests("put")
		l = w.start(nil)
		w.until(time.Minute, "failed", hasState(l, "orders", "failed"))
		if !strings.Contains(fmt.Sprint(l.row("orders")["lastError"]), "earlier life") || w.requests("put") != before {
			t.Errorf("row %v", l.row("orders"))
		}
		l.stop()
	})
}

// A redo that goes to another bucket than its intent names says which keys stay behind.
func TestBucketChanged(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(func(c *config.Sink) { c.CrashAt = "mid_upload" })
		<-l.ended
		other := fakes3.New(fakes3.Options{Bucket: "pond", Secret: secret})
		defer other.Close()
		old := w.s3
		w.s3 = other
		other.Script(fakes3.Rule{Op: "put", Status: 500, Times: 20}) // several passes redo the window
		l = w.start(func(c *config.Sink) { c.Bucket = "pond" })
		w.until(time.Hour, "window 1", func() bool { return l.k("orders") == 1 })
		if said, where := w.logged("was begun in another bucket"), w.logged(`"left_in":"http://fakes3.test/lake"`); said != 1 || where != 1 {
			t.Errorf("that objects are left in the old bucket is said %d times, where %d times:\n%s", said, where, w.logs.String())
		}
		w.audit("orders")
		l.stop()
		w.s3 = old
	})
}

// A backlog of several queues is worked off with one slot, and all memory that was charged is given back.
func TestSlots(t *testing.T) {
	inWorld(t, func(w *world) {
		var names []string
		for i := range 30 {
			names = append(names, fmt.Sprintf("q%d", i))
			for range 20 {
				w.mem.push(names[i], "p", 5)
			}
		}
		l := w.start(func(c *config.Sink) { c.Queues, c.TargetBytes = names, 4<<10 })
		most := int64(0)
		w.until(5*time.Minute, "all", func() bool {
			most = max(most, l.s.shared.budget.Used())
			for _, n := range names {
				if l.k(n) < 3 {
					return false
				}
			}
			return true
		})
		for _, n := range names {
			w.audit(n)
		}
		l.stop()
		if l.s.shared.budget.Used() != 0 || most > 64<<20 {
			t.Errorf("charged %d at the end, %d at most", l.s.shared.budget.Used(), most)
		}
	})
}

// The start line has every setting of a sink, and the secret in no form.
func TestStartLine(t *testing.T) {
	var b bytes.Buffer
	cfg := settings("http://s3.example")
	cfg.SSE, cfg.SSEKMSKeyID = "aws:kms", "arn:key/1234abcd"
	s, err := New(Options{Config: cfg, Log: newMemory(), KV: newMemory().kv, Queues: newMemory(), Now: time.Now, Logger: zerolog.New(&b)})
	if err != nil {
		t.Fatal(err)
	}
	s.raise(nil, starting{})
	golden(t, "start.json", b.String())
	if strings.Contains(b.String(), secret) || strings.Contains(b.String(), "arn:key") {
		t.Error("the start line shows what it must not")
	}
}

// Repeated lines are written once in five seconds, whatever number of queues fails, and say how many were left out.
func TestThrottledLines(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 1)
		w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
			if strings.Contains(ops[0].Key, ":node=") {
				return committest.None
			}
			return committest.NotLeader
		})
		l := w.start(func(c *config.Sink) {
			c.Queues = []string{"orders", "o2", "o3"}
			w.mem.push("o2", "p", 1)
			w.mem.push("o3", "p", 1)
		})
		elapse(30 * time.Second)
		if n := w.logged(`"step":"kv"`); n < 2 || n > 7 {
			t.Errorf("%d lines in half a minute: %s", n, w.logs.String())
		}
		if first := w.logged(`"left_out":0,`); first == 0 || first == w.logged(`"left_out":`) {
			t.Error(w.logs.String())
		}
		for _, q := range []string{"orders", "o2", "o3"} {
			if l.row(q)["lastError"] == nil {
				t.Errorf("no error in the row of %s", q)
			}
		}
		l.gone()
	})
}
