package node

import (
	"context"
	"sync"

	"queen/stages"
)

// The collector lets the heap grow by a share of what lives on it before it collects. What the sink holds is counted to the byte
// (QUEEN_S3_MEMORY_MB), but the growth it causes is not: at the usual share of 100 % it would be as much again. So while the sinks hold
// much, the share is lowered, such that what they hold makes the heap grow by no more than 32 MiB, up to 512 MiB held. That is half of
// what the contract (section 4) leaves the process beside the number: the other half goes to what Go keeps of freed memory (a tenth of the
// heap) and to what becomes garbage while a collection runs. Their memory is mostly buffers that the collector need not look into, so that
// collecting more often costs little.
//
// While nothing is pushed and no window is written, little garbage is made, so that collecting it at half the usual growth costs little too:
// ten thousand queues that only stand there are to cost less than 50 MB (contract section 4), and their rows count as often as the heap grows.

// collector follows what the sinks hold, and whether anything is pushed.
type collector struct {
	set func(percent int)

	mu      sync.Mutex
	bytes   int64 // held
	quiet   bool  // nothing was pushed between the last two looks, and nothing is held since
	percent int
}

const (
	usualPercent  = 100
	quietPercent  = 50
	lowestPercent = 6        // below it a broker under load would collect without a pause
	mayGrow       = 32 << 20 // bytes
)

// held hears how many bytes the sinks hold.
func (c *collector) held(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes = bytes
	c.quiet = c.quiet && bytes == 0
	c.decide()
}

// looked hears after each look for moved queues how many there were.
func (c *collector) looked(moved int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet = moved == 0 && c.bytes == 0
	c.decide()
}

// decide sets the percentage if it changes. The lock is held.
func (c *collector) decide() {
	percent := share(c.bytes)
	if c.quiet {
		percent = quietPercent
	}
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

// observed is a log that tells the collector of each look for moved queues.
type observed struct {
	stages.Log
	collector *collector
}

var _ stages.Log = observed{}

// Moved implements stages.Log.
func (o observed) Moved(ctx context.Context, since stages.Micros) (queues []stages.QueueID, safe stages.Micros, err error) {
	queues, safe, err = o.Log.Moved(ctx, since)
	if err == nil {
		o.collector.looked(len(queues))
	}
	return queues, safe, err
}
