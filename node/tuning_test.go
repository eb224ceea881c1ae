package node

import (
	"slices"
	"testing"
)

// What the sinks hold makes the heap grow by 32 MiB at most, up to 512 MiB held.
func TestShare(t *testing.T) {
	for _, c := range []struct{ held, percent int }{ // MiB
		{0, 100}, {32, 100}, {33, 50}, {64, 50}, {65, 25}, {128, 25}, {256, 12}, {257, 6}, {512, 6}, {1 << 20, 6},
	} {
		if got := share(int64(c.held) << 20); got != c.percent {
			t.Errorf("%d MiB held: %d %%, want %d", c.held, got, c.percent)
		}
		if grows := c.held * c.percent / 100; grows > 32 && c.held <= 512 {
			t.Errorf("%d MiB held: the heap grows by %d MiB", c.held, grows)
		}
	}
}

// The runtime is told of changes only: of what is held at once while it grows, and at the next look when it shrinks.
func TestTuning(t *testing.T) {
	var told []Tuning
	u := newTuning(func(n Tuning) { told = append(told, n) })
	want := func(step string, want ...Tuning) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %v, want %v", step, told, want)
		}
		told = nil
	}
	u.looked(1)
	for _, held := range []int64{0, 10 << 20, 100 << 20, 110 << 20, 700 << 20, 10 << 20, 0, 10 << 20, 0} {
		u.held(held)
	}
	want("windows", Tuning{100, true}, Tuning{25, true}, Tuning{6, true})
	u.held(70 << 20)
	u.looked(1)
	want("a look while one is written", Tuning{25, true})
	u.held(0)
	u.looked(1)
	want("a look while none is", Tuning{100, false})

	// While nothing is pushed it collects at half the growth; a window that is written ends that at once, and its end does not bring it back.
	for _, step := range []func(){
		func() { u.looked(1) }, func() { u.looked(0) }, func() { u.looked(0) }, func() { u.held(1) }, func() { u.held(0) }, func() { u.looked(0) },
		func() { u.held(1) }, func() { u.looked(0) }, func() { u.held(0) }, func() { u.looked(2) }, func() { u.looked(0) }, func() { u.looked(2) },
	} {
		step()
	}
	want("quiet", Tuning{50, false}, Tuning{100, false}, Tuning{50, false}, Tuning{100, false}, Tuning{50, false}, Tuning{100, false})

	u.held(1)
	u.looked(0)
	want("a backfill", Tuning{100, true}, Tuning{100, false})
}
