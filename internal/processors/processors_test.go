package processors_test

import (
	"runtime"
	"testing"

	"queen/internal/processors"
)

// TestExtra: the scheduler has one processor more while that is asked for, and nobody who counts processors sees it.
func TestExtra(t *testing.T) {
	runtime.SetDefaultGOMAXPROCS()
	n := runtime.GOMAXPROCS(0)
	for _, on := range []bool{false, true, true, false, false, true, false} {
		processors.Extra(on)
		want := n
		if on {
			want++
		}
		if got := runtime.GOMAXPROCS(0); got != want || processors.Count() != n {
			t.Errorf("extra %v: GOMAXPROCS %d, want %d; %d processors, want %d", on, got, want, processors.Count(), n)
		}
	}
}
