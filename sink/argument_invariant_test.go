package sink

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"queen/commit/committest"
	"queen/config"
	"queen/internal/fakes3"
	"queen/stages"
)

// The tests of this file take the argument for exactly once apart, step by step (docs/guarantees.md). Each tells a story that the argument
// says is harmless, and audits the bucket at its end. test/mutation takes the step out and expects the audit to fail.

const (
	intentKey    = "s3:default:orders:intent"
	leaseKey     = "s3:default:orders:lease"
	committedKey = "s3:default:orders:committed"
)

// quick cuts a window at every look.
func quick(c *config.Sink) { c.MaxWindow = time.Second }

// settled waits until the pointer is past everything that was pushed and nothing runs, and audits then; when that does not come about, it audits
// what is there.
func (w *world) settled(l *life) {
	w.t.Helper()
	w.settle(l)
	w.exactly("orders")
}

func (w *world) settle(l *life) {
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); elapse(time.Second) {
		synctest.Wait()
		if p, err := stages.ParsePointer(w.mem.kv.Get(committedKey).Value); err == nil && p.End > w.mem.last("orders") && w.passes(l) == 0 {
			break
		}
	}
	l.stop()
}

// settledAnew is settled for stories in which an encoder changed: one key has rightly had two contents.
func (w *world) settledAnew(l *life) {
	w.t.Helper()
	w.settle(l)
	w.report(w.contentFaults("orders"))
}

func (m *memory) last(queue string) stages.Micros {
	m.mu.Lock()
	defer m.mu.Unlock()
	appends := m.queue(queue).appends
	return appends[len(appends)-1].h.TS
}

// Records of several partitions keep coming while windows are cut: none is stamped into a window that has been listed. The guard is a margin;
// without it the same holds.
func TestNothingJoinsAListedWindow(t *testing.T) {
	for _, guard := range []time.Duration{2 * time.Second, 0} {
		inWorld(t, func(w *world) {
			l := w.start(func(c *config.Sink) { quick(c); c.SafeGuard = guard })
			for i := range 300 {
				w.mem.push("orders", []string{"b", "a", "c"}[i%3], 1)
				elapse(70 * time.Millisecond)
			}
			w.settled(l)
			if k := l.k("orders"); k < 10 {
				t.Errorf("guard %v: only %d windows", guard, k)
			}
		})
	}
}

// A window was begun and its object put; then settings change and more records come. The redo has the same bounds, settings and keys.
func TestRedoKeepsTheIntent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(func(c *config.Sink) { c.CrashAt = "mid_upload" })
		<-l.ended
		w.mem.push("orders", "p", 5)
		elapse(time.Minute)
		l = w.start(func(c *config.Sink) { c.Compression, c.Align, c.Prefix = "gzip", "day", "new" })
		w.settled(l)
	})
}

// The node that redoes a window has another number of cores and of readers, and its wall clock has moved: the same bytes under every key.
func TestRedoIsTheSameOnAnyNode(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for _, point := range []string{"mid_upload", "after_upload"} {
		inWorld(t, func(w *world) {
			w.mem.pad = 3000
			for range 40 {
				w.mem.push("orders", "b", 10)
				w.mem.push("orders", "a", 10)
			}
			runtime.GOMAXPROCS(2)
			large := func(c *config.Sink) { c.TargetBytes = 64 << 20 }
			l := w.start(func(c *config.Sink) { large(c); c.CrashAt = point })
			<-l.ended
			elapse(time.Minute)
			runtime.GOMAXPROCS(1)
			l = w.start(func(c *config.Sink) { large(c); c.FetchConcurrency, c.Threads = 1, 1 })
			w.settled(l)
		})
	}
}

// Where a queue starts was decided by a life that ended before its first window; the next one has another setting.
func TestStartIsDecidedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "adopted", hasState(l, "orders", "filling"))
		l.gone()
		elapse(time.Minute)
		l = w.start(func(c *config.Sink) { c.Start = "latest" })
		w.until(time.Minute, "owned", func() bool { return l.row("orders")["ownedHere"] == true })
		elapse(time.Second)
		w.mem.push("orders", "p", 5)
		w.settled(l)
	})
}

// shortLog loses the last body of one read.
type shortLog struct {
	*memory
	reads int
}

func (s *shortLog) Bodies(ctx context.Context, list *stages.Listing, appends []stages.Append, into func(int, stages.Body) error) error {
	if s.reads++; s.reads == 1 {
		appends = appends[:len(appends)-1]
	}
	return s.memory.Bodies(ctx, list, appends, into)
}

// A read that comes up short fails the window; the next try has all of it.
func TestShortReadFailsTheWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 3 {
			w.mem.push("orders", "p", 2)
		}
		cfg := settings(w.s3.Endpoint())
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		l := &life{w: w, cancel: cancel, ended: make(chan struct{})}
		s, err := New(Options{Config: cfg, Log: &shortLog{memory: w.mem}, KV: w.mem.kv, Queues: w.mem, Now: time.Now,
			Logger: zerolog.New(&w.logs), Dial: l.dial, Abort: l.kill})
		if err != nil {
			t.Fatal(err)
		}
		l.s = s
		go func() {
			defer close(l.ended)
			l.err = s.Run(ctx)
		}()
		w.settled(l)
	})
}

// The batch that moves the pointer had no answer and has not happened. The node reads the row back; it does not go on as if it had.
func TestUnclearPointerIsReadBack(t *testing.T) {
	inWorld(t, func(w *world) {
		pointers := 0
		w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
			if ops[len(ops)-1].Key == committedKey {
				if pointers++; pointers == 2 {
					return committest.UnclearUnapplied
				}
			}
			return committest.None
		})
		l := w.start(quick)
		for range 30 {
			w.mem.push("orders", "p", 1)
			elapse(time.Second)
		}
		l.gone()
		w.mem.push("orders", "p", 1)
		elapse(time.Minute)
		l = w.start(quick)
		w.settled(l)
	})
}

// late runs a sink up to the batch that writes a row and kills it there: the batch is still on its way.
func (w *world) late(row string) {
	var sent atomic.Bool
	w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
		if !sent.Load() && ops[len(ops)-1].Key == row {
			sent.Store(true)
			return committest.Late
		}
		return committest.None
	})
	l := w.start(nil)
	w.until(time.Minute, "the batch", sent.Load)
	l.gone()
	w.mem.kv.Script(nil)
}

// The pointer of an owner that was taken for dead is still on its way when the next owner, whose encoder is another, has put its object under
// the key and died before its manifest. The pointer must not move: it would make real a manifest that speaks of other bytes.
func TestLatePointerOfAnOldOwner(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		w.late(committedKey)
		w.mem.kv.Put(leaseKey, `{"instance":"node-2@h","incarnation":"b","sinceMs":1}`, 30*time.Second)
		w.otherOwner()
		w.mem.kv.Land()
		elapse(31 * time.Second)
		l := w.start(nil)
		w.settledAnew(l)
	})
}

// otherOwner rewrites the open intent for another encoder, puts that encoder's object, and dies.
func (w *world) otherOwner() {
	w.t.Helper()
	elapse(time.Second)
	var in stages.Intent
	if err := json.Unmarshal(w.mem.kv.Get(intentKey).Value, &in); err != nil {
		w.t.Fatal(err)
	}
	in.Encoder, in.At = "another one", stages.MicrosOf(time.Now()).ISO()
	text, err := json.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mem.kv.Put(intentKey, string(text), 0)
	for _, key := range w.s3.Keys() {
		if isData(key, "orders") {
			w.s3.Put(key, []byte("the same records in the bytes of another encoder"))
		}
	}
}

// The same with the batch of an intent: who lost the lease moves nothing (contract S4).
func TestLateIntentOfAnOldOwner(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		w.late(intentKey)
		w.mem.kv.Put(leaseKey, `{"instance":"node-2@h","incarnation":"b","sinceMs":1}`, 30*time.Second)
		w.mem.kv.Land()
		if row := w.mem.kv.Get(intentKey); row.Version != 0 {
			t.Errorf("node-2 holds the lease and node-1 moved the intent: %s", row.Value)
		}
		if row := w.mem.kv.Get(leaseKey); !strings.Contains(string(row.Value), "node-2") {
			t.Errorf("node-1 wrote over the lease of node-2: %s", row.Value)
		}
		elapse(31 * time.Second)
		l := w.start(nil)
		w.settled(l)
	})
}

// A manifest is in the bucket that speaks of another owner's intent of the same window. It is not taken for this one's.
func TestForeignManifestIsNotTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(func(c *config.Sink) { c.CrashAt = "after_upload" })
		<-l.ended
		elapse(time.Second)
		w.otherOwner()
		l = w.start(nil)
		w.settledAnew(l)
	})
}

// A node with another encoder takes a window over while a PUT of the old owner is still on its way, which lands half a minute later.
func TestLatePutOfAnotherEncoder(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(func(c *config.Sink) { c.CrashAt = "mid_upload" })
		<-l.ended
		elapse(time.Second)
		w.otherOwner()
		l = w.start(nil)
		elapse(30 * time.Second)
		for _, key := range w.s3.Keys() {
			if isData(key, "orders") {
				w.s3.Put(key, []byte("the same records in the bytes of another encoder"))
			}
		}
		w.settledAnew(l)
	})
}

// The manifest is refused: the pointer waits for it.
func TestPointerWaitsForTheManifest(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		w.s3.Script(fakes3.Rule{Op: "put", Key: "0000000001.json", Status: 403, Code: "AccessDenied", Times: 2})
		l := w.start(nil)
		w.until(10*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.exactly("orders")
		l.stop()
	})
}

// There is a backlog, and the pointer of window 1 cannot move: nothing of window 2 is sent, neither to the log nor to the bucket.
func TestNextWindowWaitsForThePointer(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 40 {
			w.mem.push("orders", "p", 10)
		}
		var blocked atomic.Bool
		blocked.Store(true)
		w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
			if blocked.Load() && ops[len(ops)-1].Key == committedKey {
				return committest.NotLeader
			}
			return committest.None
		})
		l := w.start(func(c *config.Sink) { c.TargetBytes, c.MemoryBytes = 16<<10, 1<<30 }) // room for many windows: it is not memory that they wait for
		elapse(time.Minute)
		if n := w.requests("put"); n != 2 {
			t.Errorf("%d requests while window 1 waits for its pointer, its object and its manifest were to be expected", n)
		}
		if row := string(w.mem.kv.Get(intentKey).Value); !strings.HasPrefix(row, `{"k":1,`) {
			t.Errorf("the intent is %s", row)
		}
		blocked.Store(false)
		w.settled(l)
		if k := l.k("orders"); k < 3 {
			t.Errorf("only %d windows", k)
		}
	})
}

// A large object goes up in parts, side by side, one of them twice: its manifest has the hash of what is there.
func TestManifestHasTheHashOfTheObject(t *testing.T) {
	inWorld(t, func(w *world) {
		change := large(w)
		w.s3.Script(fakes3.Rule{Op: "multipart_part", Part: 1, Status: 500, Times: 1})
		l := w.start(change)
		w.settled(l)
	})
}
