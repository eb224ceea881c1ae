package sink

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"queen/commit/committest"
	"queen/config"
	"queen/internal/fakes3"
	"queen/internal/rounds"
	"queen/stages"
)

// The tests of this file are of several nodes: whole sinks over one store and one bucket. The rules by themselves are tested in placement.

// ttl is the time to live of leases in a cluster.
const ttl = 6 * time.Second

// node starts a sink of a cluster.
func (w *world) node(n int, queues []string, change func(*config.Sink)) *life {
	w.t.Helper()
	return w.start(func(c *config.Sink) {
		c.Instance, c.Queues, c.LeaseTTL, c.MemoryBytes = fmt.Sprintf("node-%d@h", n), queues, ttl, 512<<20 // a window that hangs holds up no other
		if change != nil {
			change(c)
		}
	})
}

// pushing pushes a record into each queue now and then every 500 ms, until stop is called.
func (w *world) pushing(queues []string) (stop func()) {
	for _, q := range queues {
		w.mem.push(q, "p", 1)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			for _, q := range queues {
				w.mem.push(q, "p", 1)
			}
		}
	}()
	return func() { close(done); <-ended }
}

func placed(l *life) map[string]any { return l.report()["placement"].(map[string]any) }

func held(l *life) int { return placed(l)["held"].(int) }

func holds(n ...int) func(...*life) func() bool {
	return func(lives ...*life) func() bool {
		return func() bool {
			for i, l := range lives {
				if held(l) != n[i] {
					return false
				}
			}
			return true
		}
	}
}

func names(n int) (queues []string) {
	for i := range n {
		queues = append(queues, fmt.Sprintf("q%d", i+1))
	}
	return queues
}

// finished waits until everything that was pushed is committed, stops the sinks and audits all queues.
func (w *world) finished(queues []string, lives ...*life) {
	w.t.Helper()
	w.until(10*time.Minute, "everything is committed", func() bool {
		for _, q := range queues {
			p, err := stages.ParsePointer(w.mem.kv.Get("s3:default:" + q + ":committed").Value)
			if err != nil || p.End <= w.mem.last(q) {
				return false
			}
		}
		return true
	})
	for _, l := range lives {
		l.stop()
	}
	for _, q := range queues {
		w.exactly(q)
	}
	if keys := strings.Join(w.mem.kv.Keys(), " "); strings.Contains(keys, ":lease") || strings.Contains(keys, ":node=") {
		w.t.Errorf("left behind: %s", keys)
	}
}

// Three nodes share six queues under traffic. One is killed, starts again, and one stops: each time the others have its queues in time, and every
// record is in the lake once.
func TestCluster(t *testing.T) {
	inWorld(t, func(w *world) {
		queues := names(6)
		quiet := w.pushing(queues)
		a, b, c := w.node(1, queues, nil), w.node(2, queues, nil), w.node(3, queues, nil)
		w.until(5*time.Second, "two each", holds(2, 2, 2)(a, b, c))
		elapse(time.Second)
		for _, q := range queues {
			owners, others := 0, 0
			for i, l := range []*life{a, b, c} {
				if row := l.row(q); row["ownedHere"] == true {
					owners++
				} else if row["state"] == "held" && row["heldBy"] != nil && row["heldBy"] != fmt.Sprintf("node-%d@h", i+1) {
					others++
				}
			}
			if owners != 1 || others != 2 {
				t.Errorf("%s: %d owners, %d who know them", q, owners, others)
			}
		}
		if got := fmt.Sprint(placed(a)); got != "map[givingBack:<nil> held:2 nodes:3 queues:6 share:2]" {
			t.Error(got)
		}
		w.unmoved(3*ttl, a, b, c)

		c.gone()
		begun := time.Now()
		w.until(ttl+2*time.Second, "three each", holds(3, 3)(a, b))
		if took := time.Since(begun); took < ttl/2 {
			t.Errorf("the queues of a node that was killed are claimed after %v", took)
		}
		c = w.node(3, queues, nil)
		w.until(2*ttl+5*time.Second, "its share", holds(2, 2, 2)(a, b, c))
		for _, l := range []*life{a, b} {
			if text := metricsText(t, l.s); !strings.Contains(text, "queen_s3_queues_given_back_total 1") {
				t.Error(text)
			}
		}
		w.unmoved(3*ttl, a, b, c)

		c.gone()
		elapse(time.Second)
		c = w.node(3, queues, nil) // back within its time to live
		w.until(time.Second, "its own", holds(2, 2, 2)(a, b, c))

		b.stop()
		w.until(time.Second, "those of the one that stopped", holds(3, 3)(a, c))
		quiet()
		w.finished(queues, a, c)
		if n := w.logged("queue fenced"); n != 0 {
			t.Errorf("%d fences: nobody took a queue from anybody", n)
		}
	})
}

// unmoved lets time go by in which no queue may move.
func (w *world) unmoved(d time.Duration, lives ...*life) {
	w.t.Helper()
	claims := w.logged("this node owns the queue")
	elapse(d)
	if n := w.logged("this node owns the queue") - claims; n != 0 {
		w.t.Errorf("%d queues moved in %v of nothing new", n, d)
	}
}

// A queue that goes to another node drains, its lease is released and it says so; the giver has it in `held` afterwards.
func TestGiveBack(t *testing.T) {
	inWorld(t, func(w *world) {
		queues := names(2)
		change := func(c *config.Sink) { c.MaxWindow, c.TargetBytes = time.Hour, 64<<20 }
		for range 900 { // over a MiB: worth finishing, and more than in the other
			w.mem.push("q1", "p", 10)
		}
		for range 1000 {
			w.mem.push("q2", "p", 20)
		}
		a := w.node(1, queues, change)
		w.until(5*time.Second, "both", holds(2)(a))
		elapse(5 * time.Second)
		b := w.node(2, queues, change)
		w.until(ttl+time.Second, "released", func() bool { return a.row("q1")["state"] == "released" || a.row("q1")["state"] == "held" })
		w.until(2*time.Second, "one each", holds(1, 1)(a, b))
		w.until(time.Second, "known", hasState(a, "q1", "held"))
		if row := a.row("q1"); row["heldBy"] != "node-2@h" || row["k"] != uint64(1) || a.k("q2") != 0 {
			t.Errorf("row %v, other %v", row, a.row("q2"))
		}
		for line, n := range map[string]int{
			`"held":2,"share":1,"nodes":2,"queues":2,"message":"this node holds more than its share: giving one queue back"`: 1,
			`"closing":true,"state":"filling","message":"giving the queue back: stopping the reads"`:                         1,
			`"owner":"node-2@h","message":"the queue given back is held by another node"`:                                    1,
			"shutting down": 0,
		} {
			if w.logged(line) != n {
				t.Errorf("%d times %s\n%s", w.logged(line), line, w.logs.String())
			}
		}
		w.until(time.Second, "over", func() bool { return placed(a)["givingBack"] == nil })
		w.unmoved(3*ttl, a, b)
		b.stop()
		a.stop()
		a = w.node(1, queues, func(c *config.Sink) { c.TargetBytes = 64 << 20 })
		w.finished(queues, a)
	})
}

// The bucket takes nothing of the queue that is to be given back. That ends with the grace, and the next owner redoes its window.
func TestGiveBackOfWhatCannotFinish(t *testing.T) {
	inWorld(t, func(w *world) {
		queues := names(2)
		grace := func(c *config.Sink) { c.ShutdownGrace = 20 * time.Second }
		for i, rule := range []fakes3.Rule{{Status: 403, Code: "AccessDenied"}, {Hold: make(chan struct{})}, {Status: 503}} {
			name := []string{"refused", "hanging", "failing"}[i]
			rule.Op, rule.Key = "put", "queen/tenant=*/queue=q1/*/*/*"
			w.s3.Script(rule)
			for _, q := range queues {
				w.mem.push(q, "p", 3)
			}
			a := w.node(1, queues, grace)
			w.until(5*time.Second, "both", holds(2)(a))
			w.until(time.Minute, "the upload", hasState(a, "q1", "upload", "failed"))
			w.until(time.Minute, "the other's window", hasState(a, "q2", "filling"))
			for range 20 {
				w.mem.push("q2", "p", 3) // more buffered than in q1
			}
			elapse(time.Second)
			b := w.node(2, queues, grace)
			w.until(ttl+23*time.Second, name+": released", func() bool { return held(a) == 1 && b.row("q1")["ownedHere"] == true })
			w.until(time.Second, "to be redone", func() bool { return b.row("q1")["redo"] == true })
			w.unmoved(3*ttl, a, b)
			w.s3.Unscript()
			w.until(3*time.Minute, "the window", func() bool { return b.k("q1") > a.k("q1") })
			if text := metricsText(t, a.s); !strings.Contains(text, "queen_s3_queues_given_back_total 1") {
				t.Errorf("%s: %s", name, text)
			}
			w.finished(queues, b, a)
		}
	})
}

// The owner stands still in the middle of an upload, and so does its clock: it cannot know that its lease ran out. Another node takes the queue, writes
// this window and the next. Then the first goes on: its late PUT has the same bytes, and its pointer is refused.
func TestPausedOwnerIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		queues := []string{"orders"}
		w.mem.push("orders", "p", 5)
		hold := make(chan struct{})
		w.s3.Script(fakes3.Rule{Op: "put", Times: 1, Hold: hold})
		a := w.node(1, queues, nil)
		w.until(time.Minute, "the upload", func() bool { return w.requests("put") == 1 })
		b := w.node(2, queues, nil)
		elapse(time.Second)
		a.stall.begin(true)
		w.muteRefresh(1)
		w.until(ttl+2*time.Second, "taken", holds(1)(b))
		w.mem.push("orders", "p", 5)
		w.until(time.Minute, "two windows", func() bool { return b.k("orders") == 2 })
		before := w.objects()
		a.stall.end()
		close(hold)
		w.until(2*time.Second, "refused", hasState(a, "orders", "fenced"))
		if text := metricsText(t, a.s); !strings.Contains(text, "queen_s3_commit_precondition_lost_total 1") {
			t.Error(text)
		}
		for key, sum := range w.objects() {
			if before[key] != sum {
				t.Errorf("%s has changed", key)
			}
		}
		elapse(ttl - time.Second)
		if row := a.row("orders"); row["state"] != "fenced" || row["heldBy"] != "node-2@h" {
			t.Errorf("within a time to live: %v", row)
		}
		w.mem.kv.Script(nil)
		w.until(2*time.Second, "held", hasState(a, "orders", "held"))
		w.finished(queues, a, b)
	})
}

// The same with a clock that goes on, as after SIGSTOP: the first owner sends nothing at all any more.
func TestPausedOwnerSendsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		queues := []string{"orders"}
		change := large(w)
		hold := make(chan struct{})
		w.s3.Script(fakes3.Rule{Op: "multipart_part", Part: 2, Times: 1, Hold: hold})
		a := w.node(1, queues, change)
		w.until(time.Minute, "two parts", func() bool { return w.requests("multipart_part") >= 2 })
		b := w.node(2, queues, change)
		elapse(time.Second)
		a.stall.begin(false)
		w.muteRefresh(1)
		w.until(ttl+2*time.Second, "taken", holds(1)(b))
		w.until(time.Minute, "the window", func() bool { return b.k("orders") == 1 })
		sends := func() int { return w.requests("put") + w.requests("multipart_part") + w.requests("multipart_complete") }
		before := sends()
		a.stall.end()
		close(hold)
		elapse(ttl)
		w.mem.kv.Script(nil)
		w.until(ttl, "noticed", hasState(a, "orders", "fenced", "held"))
		if n := sends() - before; n != 0 {
			t.Errorf("%d requests after the lease's time to live", n)
		}
		if n := w.s3.OpenUploads(); n != 0 {
			t.Errorf("%d uploads are left open", n)
		}
		w.finished(queues, a, b)
	})
}

// muteRefresh makes the refreshes of a node fail. That one of them comes first when the node goes on, and says that the lease is lost, is another story.
func (w *world) muteRefresh(node int) {
	name := fmt.Sprintf("node-%d@h", node)
	w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
		if op := ops[0]; op.Kind == stages.OpPut && !op.Required && strings.HasSuffix(op.Key, ":lease") && strings.Contains(string(op.Value), name) {
			return committest.NotLeader
		}
		return committest.None
	})
}

// Nodes whose first batches fail end up with their shares all the same.
func TestFirstBatchesFail(t *testing.T) {
	inWorld(t, func(w *world) {
		queues := names(6)
		for _, q := range queues {
			w.mem.push(q, "p", 1)
		}
		bad := time.Now().Add(400 * time.Millisecond)
		w.mem.kv.Script(func([]stages.Op) committest.Fault {
			if time.Now().Before(bad) {
				return committest.NotLeader
			}
			return committest.None
		})
		a, b, c := w.node(1, queues, nil), w.node(2, queues, nil), w.node(3, queues, nil)
		w.until(5*time.Second, "two each", holds(2, 2, 2)(a, b, c))
		w.finished(queues, a, b, c)
	})
}

// Nodes are killed, stopped, paused and started again at random while records come: none is lost, none is doubled, no two contents under a key.
func TestClusterOfMisfortunes(t *testing.T) {
	for seed := range uint64(rounds.Of(4, 2)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := rand.New(rand.NewPCG(seed, 7))
				queues := names(4)
				quiet := w.pushing(queues)
				lives := make([]*life, 3)
				for range 60 {
					elapse(time.Duration(r.IntN(4000)) * time.Millisecond)
					w.misfortune(r, lives, queues)
				}
				quiet()
				for i, l := range lives {
					if l == nil {
						lives[i] = w.node(i+1, queues, nil)
					}
				}
				w.finished(queues, lives...)
			})
		})
	}
}

func (w *world) misfortune(r *rand.Rand, lives []*life, queues []string) {
	i := r.IntN(len(lives))
	l := lives[i]
	if l == nil {
		lives[i] = w.node(i+1, queues, func(c *config.Sink) { c.MaxWindow = 3 * time.Second })
		return
	}
	switch r.IntN(4) {
	case 0:
		l.gone()
		lives[i] = nil
	case 1:
		l.stop()
		lives[i] = nil
	default:
		l.stall.begin(r.IntN(2) == 0)
		elapse(time.Duration(r.IntN(int(2 * ttl))))
		l.stall.end()
	}
}
