package node

import "sync"

// The collector lets the heap grow by a share of what lives on it before it collects. What the sink holds is counted to the byte
// (QUEEN_S3_MEMORY_MB), but the growth it causes is not: at the usual share of 100 % it would be as much again. So while the sinks hold
// much, the share is lowered, such that what they hold makes the heap grow by no more than 64 MiB (contract section 4), up to 1 GiB held.
// Their memory is mostly buffers that the collector need not look into, so that collecting more often costs little.

// collector follows what the sinks hold.
type collector struct {
	set func(percent int)

	mu      sync.Mutex
	percent int
}

const (
	usualPercent  = 100
	lowestPercent = 6        // below it a broker under load would collect without a pause
	mayGrow       = 64 << 20 // bytes
)

// held hears how many bytes the sinks hold.
func (c *collector) held(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	percent := share(bytes)
	if percent == c.percent || c.percent == 0 && percent == usualPercent {
		return
	}
	c.percent = percent
	c.set(percent)
}

// share is the collector's percentage: halved for each doubling of what is held beyond mayGrow, so that it changes seldom.
func share(held int64) int {
	percent := usualPercent
	for most := int64(mayGrow); held > most && percent > lowestPercent; most *= 2 {
		percent /= 2
	}
	return percent
}
