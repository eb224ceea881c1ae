package placement_test

import (
	"fmt"
	"testing"
	"time"
)

// three starts nodes a, b and c one after another, with the time between them.
func (w *world) three(between time.Duration) {
	for i, name := range []string{"a", "b", "c"} {
		w.start(name, []float64{0.7, 0.2, 0.4}[i])
		w.run(between)
	}
}

// still runs for a while in which no queue may move.
func (w *world) still(d time.Duration) {
	w.t.Helper()
	before, spread := w.moves(), w.spread()
	w.run(d)
	if n := w.moves() - before; n != 0 || w.spread() != spread {
		w.t.Errorf("%d claims in %v of nothing new, from %s to %s\n%s", n, d, spread, w.spread(), w.out.String())
	}
}

func (w *world) is(spread string) func() bool { return func() bool { return w.spread() == spread } }

// Six queues and three nodes that start one after another: the first has all, and gives back four, one at a time; the others give nothing.
func TestStaggeredStart(t *testing.T) {
	w := newWorld(t, 30*time.Second, 6)
	w.three(2 * time.Second)
	if w.spread() != "a=6 b=0 c=0" {
		t.Fatalf("after the start: %s", w.spread())
	}
	most := 0
	w.until(3*time.Minute, "two each", func() bool {
		free := 0
		for _, q := range w.names {
			if w.kv.Get("s3:s:"+q+":lease").Version == 0 {
				free++
			}
		}
		most = max(most, free)
		return w.spread() == "a=2 b=2 c=2"
	})
	if most > 1 {
		t.Errorf("%d queues without an owner at once", most)
	}
	w.still(20 * 30 * time.Second)
	for name, want := range map[string]int{"a": 4, "b": 0, "c": 0} {
		if n := w.nodes[name].gaveBack; n != want {
			t.Errorf("%s gave back %d queues, want %d", name, n, want)
		}
	}
}

// Nodes that start together share from the beginning.
func TestStartTogether(t *testing.T) {
	for queues, want := range map[int]string{6: "a=2 b=2 c=2", 7: "a=2 b=3 c=2", 2: "a=1 b=1 c=0"} {
		w := newWorld(t, 30*time.Second, queues)
		w.three(0)
		w.run(10 * time.Second)
		if w.spread() != want {
			t.Errorf("%d queues: %s, want %s\n%s", queues, w.spread(), want, w.out.String())
		}
		w.still(3 * 30 * time.Second)
	}
}

// So do nodes whose first batches fail: what they have seen free meanwhile is not claimed before they have counted each other.
func TestStartIntoAFailingStore(t *testing.T) {
	w := newWorld(t, 30*time.Second, 6)
	for i, name := range []string{"a", "b", "c"} {
		w.start(name, []float64{0.7, 0.2, 0.4}[i]).beats = time.Second
	}
	w.run(10 * time.Second)
	if w.spread() != "a=2 b=2 c=2" {
		t.Errorf("%s\n%s", w.spread(), w.out.String())
	}
}

// A late joiner has its share in 15 s at a time to live of 3 s; then nothing moves.
func TestLateJoiner(t *testing.T) {
	w := newWorld(t, 3*time.Second, 6)
	w.start("a", 0.7)
	w.start("b", 0.2)
	w.until(5*time.Second, "three each", w.is("a=3 b=3"))
	w.still(9 * time.Second)
	w.start("c", 0.4)
	took := w.until(15*time.Second, "two each", w.is("a=2 b=2 c=2"))
	if took < 3*time.Second {
		t.Errorf("moved after %v: nothing may within a time to live", took)
	}
	if a, b := w.nodes["a"].gaveBack, w.nodes["b"].gaveBack; a != 1 || b != 1 {
		t.Errorf("a gave back %d, b %d: want one each", a, b)
	}
	w.still(9 * time.Second)
}

// The queues of a node that was killed are claimed within 2 s of the end of their leases, whichever beat it died after, also by nodes that have their
// share of what there was. It has its share back within two times to live of its return.
func TestKilledOwner(t *testing.T) {
	for died := range 8 {
		w := newWorld(t, 30*time.Second, 6)
		w.three(0)
		w.until(5*time.Second, "two each", w.is("a=2 b=2 c=2"))
		w.run(time.Duration(died) * 1300 * time.Millisecond)
		if died%2 == 1 { // its presence row outlives its leases
			w.nodes["c"].beat()
		}
		w.nodes["c"].kill()
		rows, err := w.kv.Rows(t.Context(), []string{"s3:s:" + w.nodes["c"].holds()[0] + ":lease"})
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		ends := rows[0].Left // of its leases, refreshed at most 10 s ago
		took := w.until(ends+2*time.Second, "three each", w.is("a=3 b=3"))
		if took < ends {
			t.Errorf("claimed after %v, the lease had %v to live", took, ends)
		}
		w.still(90 * time.Second)
		w.start("c", 0.4)
		w.until(60*time.Second, "its share", w.is("a=2 b=2 c=2"))
		if a, b := w.nodes["a"].gaveBack, w.nodes["b"].gaveBack; a != 1 || b != 1 {
			t.Errorf("a gave back %d, b %d: want one each", a, b)
		}
		w.still(90 * time.Second)
	}
}

// A node that was counted out, because it could not reach the log for longer than its time to live, counts again with its next presence row.
func TestReturn(t *testing.T) {
	w := newWorld(t, 30*time.Second, 6)
	w.three(0)
	w.until(5*time.Second, "two each", w.is("a=2 b=2 c=2"))
	c := w.nodes["c"]
	c.beats = w.now + 32*time.Second // it cannot refresh, and its presence row is written once
	w.run(12 * time.Second)
	c.beat()
	w.until(25*time.Second, "three each", func() bool { return len(w.nodes["a"].holds()) == 3 && len(w.nodes["b"].holds()) == 3 })
	w.until(75*time.Second, "its share", w.is("a=2 b=2 c=2"))
}

// With a hundred queues a claim waits at most 1.5 s.
func TestLongestWait(t *testing.T) {
	w := newWorld(t, 30*time.Second, 200)
	w.start("a", 0.7)
	w.start("b", 0.2)
	w.until(5*time.Second, "all", w.is("a=100 b=100"))
	w.nodes["b"].kill()
	w.until(32*time.Second, "those of the dead one", w.is("a=200"))
}

// A stop hands everything over at the others' next look, which does not wait until it is the rows' turn when they are many.
func TestStop(t *testing.T) {
	for _, queues := range []int{6, 900} {
		w := newWorld(t, 30*time.Second, queues)
		w.three(0)
		w.until(8*time.Second, "a third each", w.is(fmt.Sprintf("a=%[1]d b=%[1]d c=%[1]d", queues/3)))
		w.run(time.Second)
		w.stop("c")
		w.until(2*time.Second, "half each", w.is(fmt.Sprintf("a=%[1]d b=%[1]d", queues/2)))
		if queues < 100 {
			w.still(90 * time.Second)
		}
	}
}

// One that starts again under its name has its rows back at once, and nothing else moves.
func TestRestart(t *testing.T) {
	w := newWorld(t, 30*time.Second, 6)
	w.three(0)
	w.until(5*time.Second, "two each", w.is("a=2 b=2 c=2"))
	w.nodes["c"].kill()
	w.run(9 * time.Second)
	w.start("c", 0.4)
	w.until(100*time.Millisecond, "its own", w.is("a=2 b=2 c=2"))
	w.still(90 * time.Second)
}

// A node that is seen for 12 s moves nothing, whether it stops or dies.
func TestBriefNode(t *testing.T) {
	for _, stops := range []bool{true, false} {
		w := newWorld(t, 30*time.Second, 6)
		w.start("a", 0.7)
		w.start("b", 0.2)
		w.until(5*time.Second, "three each", w.is("a=3 b=3"))
		w.start("c", 0.4)
		before := w.moves()
		w.run(12 * time.Second)
		if stops {
			w.stop("c")
		} else {
			w.nodes["c"].kill()
		}
		w.run(3 * time.Minute)
		if w.moves() != before || w.nodes["a"].gaveBack+w.nodes["b"].gaveBack != 0 {
			t.Errorf("stops=%v: %d claims, %s\n%s", stops, w.moves()-before, w.spread(), w.out.String())
		}
	}
}

// The giver stays away from what it gave back for two times to live, unless somebody took it and died.
func TestCoolDown(t *testing.T) {
	w := newWorld(t, 30*time.Second, 2)
	a := w.start("a", 0.7)
	w.until(5*time.Second, "both", w.is("a=2"))
	b := w.start("b", 0.2)
	w.until(time.Minute, "given back", func() bool { return a.gaveBack == 1 })
	b.kill()
	b.release(b.holds()...)
	at := w.now
	w.until(65*time.Second, "back", w.is("a=2"))
	if took := w.now - at; took < 59*time.Second {
		t.Errorf("claimed again after %v", took)
	}

	w = newWorld(t, 30*time.Second, 2)
	w.start("a", 0.7)
	w.until(5*time.Second, "both", w.is("a=2"))
	b = w.start("b", 0.2)
	w.until(time.Minute, "one each", w.is("a=1 b=1"))
	b.kill()
	w.until(32*time.Second, "the dead one's", w.is("a=2"))
}

// What is given back is what has the least to finish.
func TestLeastIsGiven(t *testing.T) {
	w := newWorld(t, 30*time.Second, 4)
	a := w.start("a", 0.7)
	w.until(5*time.Second, "all", w.is("a=4"))
	a.buffered = map[string]int64{"q1": 500, "q2": 90, "q3": 90, "q4": 70}
	w.start("b", 0.2)
	w.until(time.Minute, "two each", w.is("a=2 b=2"))
	if got := fmt.Sprint(a.holds()); got != "[q1 q3]" {
		t.Errorf("a kept %s", got)
	}
}
