package sink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/config"
	"queen/encode"
	"queen/internal/fakes3"
	"queen/stages"
)

// Memory is divided so that a window whose list takes half of it fits, whatever the other settings are, and no list that is promised is refused.
func TestNeedOfMemory(t *testing.T) {
	for _, c := range []struct{ memory, threshold, part, limit int64 }{ // MiB
		{1, 64, 5, 15}, {64, 64, 5, 15}, {64, 5, 5, 5}, {128, 64, 10, 30}, {256, 64, 16, 48}, {512, 64, 16, 48}, {512, 5, 16, 5}, {65536, 5120, 16, 48},
	} {
		for _, readers := range []int{1, 4, 64, 256} {
			n := needOf(c.memory<<20, c.threshold<<20, readers, encode.NewRegistry(nil).Memory())
			if n.part != c.part<<20 || n.threshold != c.limit<<20 || n.readers > readers || n.readers < min(readers, 4) && c.memory >= 64 {
				t.Errorf("%d MiB, threshold %d, %d readers: parts of %d MiB above %d, %d readers", c.memory, c.threshold, readers, n.part>>20, n.threshold>>20, n.readers)
			}
			for _, partitions := range []int64{1, 1000, 100_000, 10_000_000} {
				for _, l := range encode.Layouts() {
					appends := n.appends(partitions, l.Name)
					if partitions == 1 && appends < c.memory<<20/2/40-4 {
						t.Errorf("%d MiB, %d readers, %d partitions, %s: a window may have %d appends only", c.memory, readers, partitions, l.Name, appends)
					}
					// In 64 MiB, what is promised is a little more than fits beside an encoder that is at its worst, and a manifest that is sent meanwhile.
					over, little := n.window(appends, partitions, l.Name)-c.memory<<20, int64(9<<20)
					if l.Name != "merged" {
						little += 6 << 20
					}
					if c.memory >= 64 && over > little || c.memory >= 128 && over > 0 {
						t.Errorf("%d MiB, %d readers, %d partitions, %s: a window of %d appends takes %d MiB more", c.memory, readers, partitions, l.Name, appends, over>>20)
					}
				}
			}
		}
	}
}

// An object larger than the threshold goes up in parts of 16 MiB of which the last, or only one, is smaller.
func TestThresholdBelowAPart(t *testing.T) {
	for _, c := range []struct {
		threshold int64 // MiB
		parts     int
	}{{5, 1}, {8, 1}, {9, 0}, {15, 0}} { // the object has 9,000,000 bytes and a little more
		t.Run(fmt.Sprint(c.threshold), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.mem.pad = 500_000
				w.mem.push("orders", "p", 18)
				l := w.start(func(s *config.Sink) {
					s.Compression, s.TargetBytes, s.MultipartThreshold, s.MemoryBytes = "none", 64<<20, c.threshold<<20, 512<<20
				})
				w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
				if n := w.requests("multipart_part"); n != c.parts || w.requests("multipart_complete") != c.parts || w.requests("put") != 2-c.parts {
					t.Errorf("%d parts, %d puts", n, w.requests("put"))
				}
				w.exactly("orders")
				l.stop()
			})
		})
	}
}

const three = 3

// hungQueue starts three queues of which the first one's data objects are never answered, and pushes to the others once it hangs.
func (w *world) hungQueue(memory int64) *life {
	w.mem.push("q0", "p", 5)
	w.s3.Script(fakes3.Rule{Op: "put", Key: "queen/tenant=*/queue=q0/*/*/*", Hold: make(chan struct{})})
	l := w.start(func(c *config.Sink) { c.Queues, c.MemoryBytes, c.Threads = []string{"q0", "q1", "q2"}, memory, 1 })
	w.until(time.Minute, "q0 has a slot", hasState(l, "q0", "upload"))
	w.mem.push("q1", "p", 5)
	w.mem.push("q2", "p", 5)
	return l
}

// A store that accepts the objects of one queue and never answers does not hold up the others.
func TestHungQueueHoldsUpNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.hungQueue(512 << 20)
		for k := range uint64(three) {
			w.until(25*time.Second, "windows of the others", func() bool { return l.k("q1") > k && l.k("q2") > k })
			if k < three-1 {
				w.mem.push("q1", "p", 5)
				w.mem.push("q2", "p", 5)
			}
		}
		w.until(5*time.Minute, "red by the one that hangs", func() bool { return l.report()["health"].(map[string]any)["queue"] == "q0" })
		w.exactly("q1")
		l.gone()
	})
}

// With memory for one window, the others go on between its attempts, and it is seen that they wait.
func TestHungQueueSharesTheOnlySlot(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.hungQueue(64 << 20)
		begun := time.Now()
		elapse(30 * time.Second)
		for _, n := range []string{"q1", "q2"} {
			row := l.row(n)
			if lag, ok := row["lagSeconds"].(float64); row["state"] != "intent" || !ok || lag < 29 || lag > time.Since(begun).Seconds()+1 {
				t.Errorf("row %v", row)
			}
		}
		for k := range uint64(three) {
			w.until(5*time.Minute, "windows of the others", func() bool { return l.k("q1") > k && l.k("q2") > k })
			if k < three-1 {
				w.mem.push("q1", "p", 5)
				w.mem.push("q2", "p", 5)
			}
		}
		w.s3.Unscript()
		w.until(10*time.Minute, "window 1 of q0", func() bool { return l.k("q0") == 1 })
		w.exactly("q0")
		w.exactly("q1")
		l.stop()
		if n := l.s.shared.budget.Used(); n != 0 || l.s.wanted() || len(l.s.shared.encoders.free) != 0 {
			t.Errorf("%d bytes are charged, %d permits taken", n, len(l.s.shared.encoders.free))
		}
	})
}

// chunky is an encoder that makes chunks and counts how many run at once.
type chunky struct {
	n    int
	now  *int
	most *int
	err  error
}

func (c chunky) Do(ctx context.Context, job *stages.Job, emit func(stages.Chunk) error) error {
	for i := range c.n {
		if *c.now++; *c.now > *c.most {
			*c.most = *c.now
		}
		elapse(time.Second)
		*c.now--
		if c.err != nil && i == 1 {
			return c.err
		}
		if err := emit(stages.Chunk{Job: job, End: i == c.n-1}); err != nil {
			return err
		}
	}
	return nil
}

func (chunky) Drain(context.Context, func(stages.Chunk) error) error { return nil }

// One permit is enough for any number of windows, also when one waits for its upload for ever, fails in the middle or is cancelled.
func TestPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := permits{newSemaphore(1)}
		var now, most int
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		results := make(chan error, three)
		hung := make(chan error, 1)
		go func() {
			hung <- p.around(chunky{n: 5, now: &now, most: &most}).Do(ctx, &stages.Job{}, func(stages.Chunk) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		for i, err := range []error{nil, errors.New("boom"), nil} {
			go func() {
				results <- p.around(chunky{n: 2 + i, now: &now, most: &most, err: err}).Do(t.Context(), &stages.Job{}, func(stages.Chunk) error { return nil })
			}()
		}
		failed := 0
		for range three {
			if err := <-results; err != nil {
				failed++
			}
		}
		cancel(gone)
		if err := <-hung; !errors.Is(err, gone) {
			t.Errorf("the hung one: %v", err)
		}
		if failed != 1 || most != 1 || len(p.free) != 0 {
			t.Errorf("%d failed, %d at once, %d permits taken", failed, most, len(p.free))
		}
	})
}

// A fault of the whole bucket that a queue meets is said of the bucket soon, not at the next probe of the minute.
func TestBucketFaultIsSaidSoon(t *testing.T) {
	for _, c := range []struct {
		code   string
		status int
	}{{"NoSuchBucket", 404}, {"InvalidAccessKeyId", 403}, {"SignatureDoesNotMatch", 403}} {
		t.Run(c.code, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.mem.push("orders", "p", 5)
				l := w.start(nil)
				w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
				w.s3.Script(fakes3.Rule{Status: c.status, Code: c.code})
				w.mem.push("orders", "p", 5)
				w.until(time.Minute, "the queue's error", func() bool { return strings.Contains(fmt.Sprint(l.row("orders")["lastError"]), c.code) })
				elapse(2 * time.Second)
				r := l.report()
				b := r["bucket"].(map[string]any)
				if r["ok"] != false || b["reachable"] != false || !strings.Contains(fmt.Sprint(b["error"]), c.code) {
					t.Errorf("ok %v, bucket %v", r["ok"], b)
				}
				probes := w.requests("head")
				elapse(5 * time.Minute)
				if n := w.requests("head") - probes; n > 100 {
					t.Errorf("%d probes in five minutes", n)
				}
				w.s3.Unscript()
				w.until(5*time.Minute, "well again", func() bool { return l.k("orders") == 2 && l.report()["ok"] == true })
				l.stop()
			})
		})
	}
}

// The wait for what an old owner's requests may still do holds nobody else up.
func TestWaitForAnotherEncoderGivesTheSlot(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(func(c *config.Sink) { c.CrashAt = "mid_upload" })
		<-l.ended
		elapse(time.Second)
		w.otherOwner()
		w.mem.push("q1", "p", 5)
		l = w.start(func(c *config.Sink) { c.Queues = []string{"orders", "q1"} })
		w.until(10*time.Second, "the intent is rewritten", func() bool { return strings.Contains(string(w.mem.kv.Get(intentKey).Value), "notBefore") })
		w.until(30*time.Second, "the other queue", func() bool { return l.k("q1") == 1 })
		w.until(3*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.exactly("q1")
		l.stop()
		if n := l.s.shared.budget.Used(); n != 0 {
			t.Errorf("%d bytes are charged", n)
		}
	})
}
