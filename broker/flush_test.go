package broker

import "testing"

// TestFlushDue: a round flushes what is much at once, what is little after six rounds, what files wait for at once, and nothing when there is nothing.
func TestFlushDue(t *testing.T) {
	for _, c := range []struct {
		unflushed  int64
		rounds     int
		reclaiming bool
		due        bool
	}{
		{0, 1, false, false}, {0, 100, false, false}, {0, 100, true, false},
		{1, 1, false, false}, {1, flushRounds - 1, false, false}, {1, flushRounds, false, true}, {1, flushRounds + 1, false, true},
		{1, 1, true, true},
		{flushSmall - 1, 1, false, false}, {flushSmall, 1, false, true}, {flushBytes, 1, false, true},
	} {
		if got := flushDue(c.unflushed, c.rounds, c.reclaiming); got != c.due {
			t.Errorf("%d bytes, round %d, files wait %v: due is %v", c.unflushed, c.rounds, c.reclaiming, got)
		}
	}
}
