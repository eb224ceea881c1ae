package node

import (
	"slices"
	"testing"
)

// What the sinks hold makes the heap grow by 32 MiB at most, up to 512 MiB held, and the collector is told of changes only.
func TestCollector(t *testing.T) {
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
	var told []int
	c := &collector{set: func(percent int) { told = append(told, percent) }}
	for _, held := range []int64{0, 10 << 20, 100 << 20, 110 << 20, 700 << 20, 10 << 20, 0} {
		c.held(held)
	}
	if want := []int{25, 6, 100}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	// While nothing is pushed it collects at half the growth; a window that is written ends that at once, and its end does not bring it back.
	told = nil
	for _, step := range []func(){
		func() { c.looked(1) }, func() { c.looked(0) }, func() { c.looked(0) }, func() { c.held(1) }, func() { c.held(0) }, func() { c.looked(0) },
		func() { c.held(1) }, func() { c.looked(0) }, func() { c.held(0) }, func() { c.looked(2) }, func() { c.looked(0) }, func() { c.looked(2) },
	} {
		step()
	}
	if want := []int{50, 100, 50, 100, 50, 100}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
