package placement_test

import (
	"testing"
	"time"

	"queen/internal/rounds"
)

// TestNodeThatTakesNothing: a node is there and beats, and never takes a queue: it has not the encryption key, or is far behind. The others give it less and less often, and what
// they gave comes back to them: nothing is free for long, and nothing moves for ever.
func TestNodeThatTakesNothing(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "c"}, {"a", "b"}}[:rounds.Of(2, 1)] {
		w := newWorld(t, 30*time.Second, 6)
		for i, name := range names {
			m := w.start(name, []float64{0.7, 0.2, 0.4}[i])
			if name == "b" {
				for _, q := range w.names {
					m.book.Drop(q)
				}
			}
		}
		w.run(20 * time.Minute)
		before, free, looks := w.moves(), 0, 0
		hours := rounds.Of(3, 1)
		for range hours * 3600 * 2 {
			w.run(500 * time.Millisecond)
			for _, q := range w.names {
				if looks++; w.kv.Get("s3:s:"+q+":lease").Version == 0 {
					free++
				}
			}
		}
		moves, mean := w.moves()-before, 6*float64(free)/float64(looks)
		t.Logf("%v: %s; in %d hours %d claims, %.3f of 6 queues free", names, w.spread(), hours, moves, mean)
		if moves > 8*hours || mean > 0.05 {
			t.Errorf("%v: %d claims in %d hours, %.3f of 6 queues free", names, moves, hours, mean)
		}
	}
}
