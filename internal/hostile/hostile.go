// Package hostile holds what fuzz targets of decoders share: one flipped bit, and a bound on what decoding may allocate. It is for tests
// only and knows no format.
package hostile

import (
	"runtime"
	"slices"
	"testing"
)

// slack is what a decoder may allocate for any input, bytes: errors, maps, and what the runtime does beside it.
const slack = 128 << 10

// Flip returns a copy of b with one bit changed; every number is a bit of b. An empty b is returned as it is.
func Flip(b []byte, bit uint32) []byte {
	out := slices.Clone(b)
	if len(out) > 0 {
		i := uint64(bit) % (8 * uint64(len(out)))
		out[i/8] ^= 1 << (i % 8)
	}
	return out
}

// Bounded runs a decoder on input bytes and fails when it allocates more than so many times their number, beyond a constant. What other
// goroutines allocate is counted too, so the least of three runs decides.
func Bounded(t testing.TB, input, times int, decode func()) {
	t.Helper()
	limit := uint64(times)*uint64(input) + slack
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		decode()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= limit {
			return
		}
	}
	t.Errorf("%d bytes were allocated for %d bytes of input, %d at most", least, input, limit)
}
