package sink

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"queen/commit/committest"
	"queen/config"
	"queen/internal/fakes3"
	"queen/stages"
)

// A node that cannot refresh its lease stops sending when its own clock says that the lease may have run out.
func TestNothingIsSentAfterTheDeadline(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		w.s3.Script(fakes3.Rule{Op: "put", Status: 500})
		l := w.start(func(c *config.Sink) { c.LeaseTTL = 6 * time.Second })
		w.until(time.Minute, "the upload", hasState(l, "orders", "upload"))
		w.mem.kv.Script(func([]stages.Op) committest.Fault { return committest.NotLeader })
		elapse(8 * time.Second)
		sent := w.requests("put")
		elapse(5 * time.Minute)
		if n := w.requests("put"); sent == 0 || n != sent {
			t.Errorf("%d requests before the deadline, %d after", sent, n-sent)
		}
		w.mem.kv.Script(nil)
		w.s3.Unscript()
		w.until(5*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.audit("orders")
		l.stop()
	})
}

// A node that is cut off does not say that it owns what others may have by now; when the log answers again, it does.
func TestCutOffOwnsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(func(c *config.Sink) { c.LeaseTTL = 6 * time.Second })
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		elapse(10 * time.Second) // it rests
		if row := l.row("orders"); row["ownedHere"] != true || row["state"] != stateFilling {
			t.Fatal(row)
		}
		w.mem.kv.Script(func([]stages.Op) committest.Fault { return committest.NotLeader })
		elapse(7 * time.Second)
		row := l.row("orders")
		if row["ownedHere"] != false || row["state"] != stateClaiming {
			t.Errorf("cut off: %v", row)
		}
		w.mem.kv.Script(nil)
		w.until(time.Minute, "it owns the queue again", func() bool { return l.row("orders")["ownedHere"] == true })
		l.stop()
	})
}

// While a window is on its way the lake is complete through the last pointer, not through what was cut.
func TestCompleteThroughWaitsForThePointer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		hold := make(chan struct{})
		w.s3.Script(fakes3.Rule{Op: "put", Times: 1, Hold: hold})
		w.mem.push("orders", "p", 5)
		pushed := w.mem.Safe().ISO()
		w.until(time.Minute, "the upload", hasState(l, "orders", "upload"))
		at := l.row("orders")["completeThrough"]
		if at.(string) > pushed {
			t.Errorf("complete through %v with a record of %v on its way", at, pushed)
		}
		elapse(20 * time.Second)
		if row := l.row("orders"); row["completeThrough"] != at || row["lagSeconds"].(float64) < 20 {
			t.Errorf("from %v to %v, lag %v", at, row["completeThrough"], row["lagSeconds"])
		}
		close(hold)
		w.until(time.Minute, "window 2", func() bool { return l.k("orders") == 2 })
		l.stop()
	})
}

// large makes windows that go up in parts.
func large(w *world) func(*config.Sink) {
	w.mem.pad = 500_000
	w.mem.push("orders", "p", 45)
	return func(c *config.Sink) { c.Compression, c.TargetBytes, c.MultipartThreshold = "none", 64<<20, 5<<20 }
}

// A crash between two parts: the next life writes the same object.
func TestCrashBetweenParts(t *testing.T) {
	inWorld(t, func(w *world) {
		change := large(w)
		l := w.start(func(c *config.Sink) { change(c); c.CrashAt = "mid_upload" })
		<-l.ended
		if w.requests("multipart_part") == 0 || w.requests("multipart_complete") != 0 {
			t.Fatalf("%d parts, %d completed", w.requests("multipart_part"), w.requests("multipart_complete"))
		}
		l = w.start(change)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		if n := w.audit("orders"); n != 45 {
			t.Errorf("%d records, want 45", n)
		}
		l.stop()
	})
}

// A pass that loses its lease between two parts gives up its upload, and no other, and leaves nothing running.
func TestLostLeaseAbortsTheUpload(t *testing.T) {
	inWorld(t, func(w *world) {
		change := large(w)
		w.s3.Script(fakes3.Rule{Op: "multipart_part", Part: 2, Times: 1, Hold: make(chan struct{})})
		l := w.start(change)
		w.until(time.Minute, "two parts", func() bool { return w.requests("multipart_part") >= 2 })
		w.mem.kv.Put("s3:default:orders:lease", `{"instance":"node-2@h","incarnation":"b","sinceMs":1}`, time.Minute)
		w.until(time.Minute, "fenced", hasState(l, "orders", "fenced", "held"))
		if n := w.s3.OpenUploads(); n != 0 {
			t.Errorf("%d uploads are left open", n)
		}
		w.until(3*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.audit("orders")
		l.stop()
	})
}

// The binary that redoes a window has another encoder: it says so in the intent, waits one request deadline, and uploads all.
func TestAnotherEncoder(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(func(c *config.Sink) { c.CrashAt = "mid_upload" })
		<-l.ended
		key := "s3:default:orders:intent"
		var in stages.Intent
		if err := json.Unmarshal(w.mem.kv.Get(key).Value, &in); err != nil {
			t.Fatal(err)
		}
		have, at := in.Encoder, in.At
		in.Encoder = "an older one"
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		w.mem.kv.Put(key, string(text), 0)
		before := w.requests("put")
		elapse(time.Second)
		l = w.start(nil)
		elapse(requestDeadline - time.Second)
		if n := w.requests("put"); n != before {
			t.Errorf("%d requests before the deadline of the old owner's had passed", n-before)
		}
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		if err := json.Unmarshal(w.mem.kv.Get(key).Value, &in); err != nil || in.Encoder != have || in.At == at {
			t.Errorf("intent %+v: %v", in, err)
		}
		if n := w.audit("orders"); n != 5 || strings.Count(strings.Join(w.s3.Keys(), " "), "/w-") != 1 {
			t.Errorf("%d records in %v", n, w.s3.Keys())
		}
		l.stop()
	})
}

// The process stood still for longer than its time to live, between two tries of a PUT, and none of its timers has noticed: its own clock is
// asked before the next try, and nothing is sent.
func TestP31StalledOwnerSendsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		var stood atomic.Int64
		w.now = func() time.Time { return time.Now().Add(time.Duration(stood.Load())) }
		w.mem.push("orders", "p", 5)
		hold := make(chan struct{})
		w.s3.Script(fakes3.Rule{Op: "put", Status: 500, Hold: hold})
		l := w.start(nil)
		w.until(time.Minute, "the first try", func() bool { return w.requests("put") == 1 })
		w.mem.kv.Script(func([]stages.Op) committest.Fault { return committest.NotLeader })
		stood.Store(int64(time.Minute))
		close(hold)
		elapse(5 * time.Second) // the second try is due after a second at most, the timer of the lease not before
		if n := w.requests("put"); n != 1 {
			t.Errorf("%d requests, the second after the lease's time to live", n)
		}
		w.mem.kv.Script(nil)
		w.s3.Unscript()
		w.until(5*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.exactly("orders")
		l.stop()
	})
}

// rewritten is a world in which another encoder took a window over and has just rewritten its intent: until the old owner's requests are over it sends nothing.
type rewritten struct {
	*world
	begun time.Time
	puts  int
}

func (w *world) rewritten() (rewritten, *life) {
	w.mem.push("orders", "p", 5)
	l := w.start(func(c *config.Sink) { c.CrashAt = "mid_upload" })
	<-l.ended
	elapse(time.Second)
	w.otherOwner()
	puts := w.requests("put")
	l = w.start(nil)
	w.until(10*time.Second, "the intent is rewritten", func() bool { return strings.Contains(string(w.mem.kv.Get(intentKey).Value), "notBefore") })
	return rewritten{w, time.Now(), puts}, l
}

// waits sees that nothing is sent before the wait is over, and the window is written after it.
func (r rewritten) waits(l *life) {
	r.t.Helper()
	for time.Since(r.begun) < requestDeadline-time.Second {
		elapse(time.Second)
		if n := r.requests("put"); n != r.puts {
			r.t.Fatalf("put %v after the intent was rewritten", time.Since(r.begun))
		}
	}
	r.until(10*time.Second, "window 1", func() bool { return l.k("orders") == 1 })
	r.settledAnew(l)
}

// A drain while the wait for an old encoder's requests runs does not shorten it, and neither does the life after it.
func TestStopDoesNotShortenTheWaitForAnotherEncoder(t *testing.T) {
	inWorld(t, func(w *world) {
		r, l := w.rewritten()
		elapse(20 * time.Second)
		l.stop()
		r.waits(w.start(nil))
	})
}

// The log clock leaps while the wait for an old encoder's requests runs: what may still land is bounded by time that passes, so the wait goes on,
// also when the pass that began it has failed meanwhile.
func TestLeapDoesNotShortenTheWaitForAnotherEncoder(t *testing.T) {
	for _, failing := range []bool{false, true} {
		inWorld(t, func(w *world) {
			r, l := w.rewritten()
			if failing { // its lease runs out, and it claims it again
				w.mem.kv.Script(func([]stages.Op) committest.Fault { return committest.NotLeader })
				elapse(40 * time.Second)
				w.mem.kv.Script(nil)
			}
			w.mem.leap(time.Hour)
			r.waits(l)
		})
	}
}
