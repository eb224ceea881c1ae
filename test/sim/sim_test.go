package sim

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSim runs worlds: one for each seed, for SIM (a duration; a few seeds when it is not set), or one for SEED. SIM_FAULTS is what goes wrong in
// them: kinds of faults.go, those twice that come twice as often.
func TestSim(t *testing.T) {
	chosen, err := mix(cmp.Or(os.Getenv("SIM_FAULTS"), often))
	if err != nil {
		t.Fatal(err)
	}
	first := uint64(time.Now().UnixNano())
	if text := os.Getenv("SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		run(t, n, chosen)
		return
	}
	during, err := time.ParseDuration(os.Getenv("SIM"))
	if err != nil {
		during = 0
	}
	began, seeds := time.Now(), 0
	total := map[string]int{}
	for time.Since(began) < during || seeds < 3 {
		for kind, n := range run(t, first+uint64(seeds), chosen) {
			total[kind] += n
		}
		seeds++
		if t.Failed() {
			break
		}
	}
	t.Logf("%d seeds from %d in %s: %v", seeds, first, time.Since(began).Round(time.Second), total)
}

func run(t *testing.T, seed uint64, chosen []fault) (counts map[string]int) {
	t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			defer w.s3.Close()
			for _, m := range w.node {
				m.start()
			}
			w.hist.configure()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			var work sync.WaitGroup
			for id := range clients {
				work.Go(func() { w.hist.client(ctx, id) })
			}
			looking, enough := context.WithCancel(t.Context())
			defer enough()
			work.Go(func() { w.states.watch(looking, w) })
			w.trouble(ctx, chosen)
			enough()
			work.Wait()
			w.hist.goodbye()
			w.check()
			for _, m := range w.node {
				m.alone(func() { m.stop(true) })
			}
			counts = w.counts
		})
	})
	return counts
}
