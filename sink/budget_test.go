package sink

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/config"
	"queen/internal/fakes3"
)

// steady pushes to a queue every 200 ms until the returned function is called.
func (w *world) steady(queues ...string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				for _, q := range queues {
					w.mem.push(q, "p", 3)
				}
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// complete says that the last record of each queue lies below what its status calls complete.
func (w *world) complete(l *life, queues ...string) bool {
	for _, q := range l.s.all() {
		if !slices.Contains(queues, q.name) {
			continue
		}
		q.status.mu.Lock()
		through := q.status.through
		q.status.mu.Unlock()
		if through <= w.mem.last(q.name) {
			return false
		}
	}
	return true
}

// One bucket takes requests and answers none, another is healthy, and both share memory that is enough for one window: the healthy one's queue
// is never two windows behind, for ten minutes, and in the end nothing is charged.
func TestP28OneDeadBucket(t *testing.T) {
	for name, hole := range map[string]fakes3.Rule{
		"everything":           {},
		"objects":              {Op: "put", Key: "queen/tenant=*/*/*/*/*"},
		"objects of one queue": {Op: "put", Key: "queen/tenant=*/queue=q0/*/*/*"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(well *world) {
				const span = 90 * time.Second // longer than a request that is never answered
				t := well.t                   // of the bubble
				dead := &world{t: t, mem: newMemory(), s3: fakes3.New(fakes3.Options{Bucket: "lake", Secret: secret}), shared: NewShared(SharedOptions{Memory: 64 << 20, Threads: 1})}
				defer dead.s3.Close()
				well.shared = dead.shared
				queues := []string{"q0", "q1", "q2"}
				windows := func(c *config.Sink) { c.MaxWindow = span }
				d := dead.start(func(c *config.Sink) { windows(c); c.Queues, c.Bucket, c.Endpoint = queues, "lake", dead.s3.Endpoint() })
				h := well.start(windows)
				stopDead, stopWell := dead.steady(queues...), well.steady("orders")
				dead.until(5*time.Minute, "window 1 of each", func() bool { return d.k("q0") > 0 && d.k("q1") > 0 && d.k("q2") > 0 && h.k("orders") > 0 })
				open := make(chan struct{})
				hole.Hold = open
				dead.s3.Script(hole)
				worst, k := 0.0, d.k("q0")
				for begun := time.Now(); time.Since(begun) < 10*time.Minute; elapse(250 * time.Millisecond) {
					synctest.Wait()
					lag, _ := h.row("orders")["lagSeconds"].(float64)
					worst = max(worst, lag)
				}
				if worst > 2*span.Seconds() {
					t.Errorf("the healthy queue was %.0f s behind", worst)
				}
				if lag, _ := d.row("q0")["lagSeconds"].(float64); lag < 500 || d.k("q0") > k+1 {
					t.Errorf("the hole lets windows through: lag %v, k %d", lag, d.k("q0"))
				}
				stopDead()
				stopWell()
				dead.s3.Unscript()
				close(open)
				dead.until(10*time.Minute, "the backlog", func() bool { return dead.complete(d, queues...) && well.complete(h, "orders") })
				for _, q := range queues {
					dead.exactly(q)
				}
				well.exactly("orders")
				d.stop()
				h.stop()
				if b := dead.shared.budget; b.Used() != 0 || b.Waiting() {
					t.Errorf("%d bytes are charged", b.Used())
				}
			})
		})
	}
}

// Thousands of queues that have work at once fill as rows and are written by a few at a time.
func TestManyQueuesAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		const n = 400
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("q%04d", i))
			w.mem.push(names[i], "p", 1)
		}
		w.s3.Script(fakes3.Rule{Op: "put", Delay: time.Second}) // so that passes are seen beside each other
		base := runtime.NumGoroutine()
		l := w.start(func(c *config.Sink) { c.Queues, c.MemoryBytes = names, 512<<20 })
		most, passes := 0, 0
		for begun := time.Now(); time.Since(begun) < 8*time.Second; elapse(100 * time.Millisecond) {
			most = max(most, runtime.NumGoroutine()-base)
		}
		synctest.Wait()
		if row := l.row(names[n-1]); w.passes(l) != 0 || row["bufferedBytes"] == int64(0) || row["state"] != "filling" {
			t.Errorf("while all fill: %d passes, row %v", w.passes(l), row)
		}
		w.until(10*time.Minute, "all", func() bool {
			most, passes = max(most, runtime.NumGoroutine()-base), max(passes, w.passes(l))
			return w.logged("window committed") == n
		})
		if passes > mostLive || passes < mostLive/2 || most > 20*mostLive {
			t.Errorf("%d passes and %d goroutines at once", passes, most)
		}
		for _, name := range names[:3] {
			w.exactly(name)
		}
		l.stop()
		if used := l.s.shared.budget.Used(); used != 0 {
			t.Errorf("%d bytes are charged", used)
		}
		if drained := w.logged(`"message":"queue drained"`); drained != n {
			t.Errorf("%d of %d queues drained", drained, n)
		}
	})
}

// Queues with long backlogs go back in line after each window: those behind them are claimed and written too.
func TestBacklogsTakeTurns(t *testing.T) {
	inWorld(t, func(w *world) {
		const n = mostLive + 10
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("q%02d", i))
			for range 300 {
				w.mem.push(names[i], "p", 5)
			}
		}
		hold := make(chan struct{})
		w.s3.Script(fakes3.Rule{Op: "put", Hold: hold}) // until everybody is live or in line: who is alone need not make way
		l := w.start(func(c *config.Sink) { c.Queues, c.TargetBytes = names, 4<<10 })
		w.until(30*time.Second, "a line", func() bool {
			l.s.mu.Lock()
			defer l.s.mu.Unlock()
			return l.s.crew.live == mostLive && len(l.s.crew.line) == n-mostLive
		})
		w.s3.Unscript()
		close(hold)
		w.until(5*time.Minute, "all", func() bool { return w.complete(l, names...) })
		// A turn is two windows at most: the one that is committed, and the one behind it that was cut already. A row that has just adopted gives up
		// one turn, so the others have two before its first.
		const ahead = 2 * 2
		firsts, most := 0, map[string]int{}
		for line := range strings.Lines(w.logs.String()) {
			if !strings.Contains(line, "window committed") {
				continue
			}
			_, name, _ := strings.Cut(line, `"queue":"`)
			if name = name[:3]; most[name] == 0 {
				firsts++
			}
			if most[name]++; most[name] > ahead && firsts < n {
				t.Fatalf("%s had %d windows when %d queues had none", name, most[name], n-firsts)
			}
		}
		if most["q00"] < 20 {
			t.Errorf("%d windows of q00: no backlog", most["q00"])
		}
		for _, name := range names {
			w.exactly(name)
		}
		l.stop()
	})
}

// A bucket that gave no answer when the drain began is asked again during it.
func TestDrainOutlastsAMuteBucket(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		hold := make(chan struct{})
		w.s3.Script(fakes3.Rule{Hold: hold})
		for range 900 {
			w.mem.push("orders", "p", 10)
		}
		w.until(20*time.Minute, "waits for a mute bucket", func() bool {
			l.s.bucket.mu.Lock()
			mute := l.s.bucket.mute != nil
			l.s.bucket.mu.Unlock()
			return mute && l.row("orders")["state"] == "intent"
		})
		go func() {
			elapse(3 * time.Second)
			w.s3.Unscript()
			close(hold)
		}()
		begun := time.Now()
		l.stop()
		if took := time.Since(begun); took > 20*time.Second || l.k("orders") < 2 {
			t.Errorf("drained in %v, k %d", took, l.k("orders"))
		}
		w.exactly("orders")
	})
}

// A lease that is lost while its row is live between two passes is seen before the row rests, and a sink that is over starts nothing.
func TestLeaseLostBetweenPasses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		l := w.start(nil)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 && w.passes(l) == 0 })
		q := l.s.all()[0]
		q.mu.Lock()
		q.activity = live // as between the end of a pass and the next look
		a := q.adopted
		q.mu.Unlock()
		q.lostLease(errors.New("lost"))
		if q.rest(a) {
			t.Error("the row rests without a lease")
		}
		q.mu.Lock()
		q.activity = idle
		q.start()
		q.mu.Unlock()
		w.mem.push("orders", "p", 5)
		w.until(time.Minute, "window 2", func() bool { return l.k("orders") == 2 })
		l.stop()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.activity = sleeping
		if _, ok := l.s.enlist(q); ok {
			t.Error("a sink that is over starts a row")
		}
	})
}

// A queue whose window fails again and again has no goroutine while it waits.
func TestFailingQueueIsARow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 5)
		w.s3.Script(fakes3.Rule{Op: "put", Status: 503, Code: "SlowDown"})
		l := w.start(nil)
		w.until(5*time.Minute, "waits", func() bool {
			q := l.s.all()[0]
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.activity == sleeping && q.failures > 2
		})
		l.s.mu.Lock()
		busy := l.s.crew.live
		l.s.mu.Unlock()
		if busy != 0 || l.s.shared.budget.Used() != 0 {
			t.Errorf("%d goroutines, %d bytes are charged", busy, l.s.shared.budget.Used())
		}
		w.s3.Unscript()
		w.until(5*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.exactly("orders")
		l.stop()
	})
}
