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

// A presence row that cannot be written is tried again after 1 s, doubling up to a third of its time to live; the nodes stay those that were read
// last.
func TestBeatBacksOff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.blind = true // rows come through the log, so only with a beat
		queues := names(4)
		for _, q := range queues {
			w.mem.push(q, "p", 1)
		}
		long := func(c *config.Sink) { c.LeaseTTL = 30 * time.Second }
		a := w.node(1, queues, long)
		b := w.node(2, queues, long)
		w.until(time.Minute, "all", func() bool { return held(a)+held(b) == 4 })
		w.until(time.Minute, "two nodes", func() bool { return placed(a)["nodes"] == 2 })
		var beats []time.Time
		w.mem.kv.Script(func(ops []stages.Op) committest.Fault {
			if strings.HasSuffix(ops[0].Key, ":node=node-1%40h") {
				beats = append(beats, time.Now())
				return committest.NotLeader
			}
			return committest.None
		})
		elapse(70 * time.Second)
		var waits []string
		for i := range beats[1:] {
			waits = append(waits, fmt.Sprint(beats[i+1].Sub(beats[i])))
		}
		if got := strings.Join(waits, " "); !strings.HasPrefix(got, "1s 2s 4s 8s 10s 10s") {
			t.Errorf("waits %s", got)
		}
		if n := placed(a)["nodes"]; n != 2 {
			t.Errorf("%v nodes, 2 were read last", n)
		}
		w.mem.kv.Script(nil)
		w.finished(queues, a, b)
	})
}

// A broker that shows no applied rows: the queues of a dead node are taken all the same, a look later.
func TestWithoutAppliedRows(t *testing.T) {
	inWorld(t, func(w *world) {
		w.blind = true
		queues := names(4)
		quiet := w.pushing(queues)
		a := w.node(1, queues, nil)
		w.until(5*time.Second, "all", holds(4)(a))
		b := w.node(2, queues, nil)
		w.until(4*ttl, "two each", holds(2, 2)(a, b))
		reads := 0
		w.mem.kv.Trace(func(line string) { reads += strings.Count(line, "kv getMany") })
		w.unmoved(3*ttl, a, b)
		w.mem.kv.Trace(nil)
		if reads > 2*(9+1) {
			t.Errorf("%d reads by two nodes in three times to live, want one each third of it", reads)
		}
		b.gone()
		w.until(2*ttl, "those of the dead one", holds(4)(a))
		quiet()
		w.finished(queues, a)
	})
}

// A node alone asks the log for nothing but its own rows: ten thousand idle queues that it holds cost one batch for each 256, and one presence row.
func TestAloneAndIdle(t *testing.T) {
	inWorld(t, func(w *world) {
		queues := names(300)
		for _, q := range queues {
			w.mem.push(q, "p", 1)
		}
		a := w.start(func(c *config.Sink) { c.Queues = queues })
		w.until(time.Minute, "all", holds(300)(a))
		elapse(time.Minute)
		kinds := map[string]int{}
		w.mem.kv.Trace(func(line string) {
			kinds[strings.Fields(line)[1]+" "+strings.SplitN(strings.Fields(line)[2], "=", 2)[0]]++
		})
		elapse(100 * time.Second)
		if got := fmt.Sprint(kinds); got != "map[put lease:20 put node:10]" {
			t.Errorf("batches in 100 s: %s", got)
		}
		w.mem.kv.Trace(nil)
		a.stop()
	})
}

// The load of a process counts the queues of all its sinks, and none of one that has ended.
func TestLoadOfAProcess(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 1)
		w.mem.push("other", "p", 1)
		w.shared = NewShared(SharedOptions{Memory: 64 << 20, Threads: 1})
		l, other := w.start(nil), w.start(func(c *config.Sink) { c.Name, c.Queues, c.Prefix = "second", []string{"other"}, "second" })
		w.until(5*time.Second, "both", func() bool { return held(l) == 1 && held(other) == 1 })
		w.until(time.Minute, "counted", func() bool { return w.shared.load.Load() == 2 })
		other.stop()
		if n := w.shared.load.Load(); n != 1 {
			t.Errorf("%d after one sink has ended", n)
		}
		l.stop()
	})
}

// A stop gives the queues back first, those that have something to finish too; the presence row is there until then, and goes last.
func TestPresenceGoesLast(t *testing.T) {
	inWorld(t, func(w *world) {
		hold := make(chan struct{})
		w.s3.Script(fakes3.Rule{Op: "put", Times: 1, Hold: hold})
		w.mem.push("orders", "p", 5)
		l := w.node(1, []string{"orders"}, nil)
		w.until(time.Minute, "the upload", hasState(l, "orders", "upload"))
		var deletes []string
		w.mem.kv.Trace(func(line string) {
			if f := strings.Fields(line); f[1] == "delete" {
				deletes = append(deletes, f[2])
			}
		})
		go func() {
			elapse(2 * ttl) // longer than the row lives without a beat
			if row := w.mem.kv.Get("s3:default:node=node-1%40h"); row.Version == 0 {
				t.Error("no presence row while the sink drains")
			}
			close(hold)
		}()
		l.stop()
		if got := strings.Join(deletes, " "); got != "lease node=node-1%40h" {
			t.Errorf("deleted: %s", got)
		}
		w.exactly("orders")
	})
}

// The sink stops while a queue is being given back: it is drained as the others, and released once.
func TestStopWhileGivingBack(t *testing.T) {
	inWorld(t, func(w *world) {
		queues := names(2)
		hold := make(chan struct{})
		for _, q := range queues {
			w.mem.push(q, "p", 3)
		}
		w.s3.Script(fakes3.Rule{Op: "put", Key: "queen/tenant=*/queue=q1/*/*/*", Times: 1, Hold: hold})
		a := w.node(1, queues, nil)
		w.until(time.Minute, "the upload", hasState(a, "q1", "upload"))
		w.until(time.Minute, "the other's window", hasState(a, "q2", "filling"))
		for range 20 {
			w.mem.push("q2", "p", 3) // more buffered than in q1
		}
		b := w.node(2, queues, nil)
		w.until(ttl+2*time.Second, "giving back", func() bool { return placed(a)["givingBack"] == "q1" })
		go func() {
			elapse(time.Second)
			close(hold)
		}()
		a.stop()
		if row := a.row("q1"); row["state"] != "drained" || a.k("q1") != 1 {
			t.Errorf("row %v", row)
		}
		w.until(2*time.Second, "both", holds(2)(b))
		w.finished(queues, b)
	})
}
