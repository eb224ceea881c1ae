package node

import (
	"slices"
	"testing"
)

// What the sinks hold makes the heap grow by 64 MiB at most, up to 1 GiB held, and the collector is told of changes only.
func TestCollector(t *testing.T) {
	for _, c := range []struct{ held, percent int }{ // MiB
		{0, 100}, {64, 100}, {65, 50}, {128, 50}, {129, 25}, {256, 25}, {512, 12}, {513, 6}, {1024, 6}, {1 << 20, 6},
	} {
		if got := share(int64(c.held) << 20); got != c.percent {
			t.Errorf("%d MiB held: %d %%, want %d", c.held, got, c.percent)
		}
		if grows := c.held * c.percent / 100; grows > 64 && c.held <= 1024 {
			t.Errorf("%d MiB held: the heap grows by %d MiB", c.held, grows)
		}
	}
	var told []int
	c := &collector{set: func(percent int) { told = append(told, percent) }}
	for _, held := range []int64{0, 10 << 20, 100 << 20, 110 << 20, 700 << 20, 10 << 20, 0} {
		c.held(held)
	}
	if want := []int{50, 6, 100}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
