package node

import (
	"context"
	"sync"

	"queen/stages"
)

// Two settings of Go's runtime follow what the sinks do.
//
// The collector lets the heap grow by a share of what lives on it before it collects. What the sink holds is counted to the byte
// (QUEEN_S3_MEMORY_MB), but the growth it causes is not: at the usual share of 100 % it would be as much again. So while the sinks hold
// much, the share is lowered, such that what they hold makes the heap grow by no more than 32 MiB, up to 512 MiB held. That is half of
// what the contract (section 4) leaves the process beside the number: the other half goes to what Go keeps of freed memory (a tenth of the
// heap) and to what becomes garbage while a collection runs. Their memory is mostly buffers that the collector need not look into, so that
// collecting more often costs little.
//
// While nothing is pushed and no window is written, little garbage is made, so that collecting it at half the usual growth costs little too:
// ten thousand queues that only stand there are to cost less than 50 MB (contract section 4), and their rows count as often as the heap grows.
//
// While a window is written beside pushes, the scheduler has one processor more than there are (internal/processors). Without pushes that would make
// a backfill 3 % slower.
//
// Each change stops all goroutines for a moment, and the share waits for a collection that is under way. So what the sinks hold only lowers the
// share and gives the processor; the next look for moved queues, every two seconds, takes back what is not needed any more.

// tuning follows what the sinks hold, and whether anything is pushed.
type tuning struct {
	set func(Tuning)

	mu     sync.Mutex
	bytes  int64 // held
	most   int64 // held since the last look
	pushed bool  // between the last two looks
	quiet  bool  // nothing was, and nothing is held since
	now    Tuning
}

// Tuning is how Go's runtime is to be set.
type Tuning struct {
	Percent int  // of the collector (GOGC)
	Extra   bool // one processor more than there are
}

const (
	usualPercent  = 100
	quietPercent  = 50
	lowestPercent = 6        // below it a broker under load would collect without a pause
	mayGrow       = 32 << 20 // bytes
)

func newTuning(set func(Tuning)) *tuning {
	return &tuning{set: set, now: Tuning{Percent: usualPercent}}
}

// held hears how many bytes the sinks hold.
func (t *tuning) held(bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes, t.most = bytes, max(t.most, bytes)
	t.quiet = t.quiet && bytes == 0
	t.decide()
}

// looked hears after each look for moved queues how many there were.
func (t *tuning) looked(moved int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.most = t.bytes
	t.pushed = moved > 0
	t.quiet = !t.pushed && t.bytes == 0
	t.decide()
}

// decide sets what changes. The lock is held.
func (t *tuning) decide() {
	wanted := Tuning{Percent: share(t.most), Extra: t.pushed && t.most > 0}
	if t.quiet {
		wanted.Percent = quietPercent
	}
	if wanted != t.now {
		t.now = wanted
		t.set(wanted)
	}
}

// share is the collector's percentage: halved for each doubling of what is held beyond mayGrow, so that it changes seldom.
func share(held int64) int {
	percent := usualPercent
	for most := int64(mayGrow); held > most && percent > lowestPercent; most *= 2 {
		percent /= 2
	}
	return percent
}

// observed is a log that tells of each look for moved queues.
type observed struct {
	stages.Log
	tuning *tuning
}

var _ stages.Log = observed{}

// Moved implements stages.Log.
func (o observed) Moved(ctx context.Context, since stages.Micros) (queues []stages.QueueID, safe stages.Micros, err error) {
	queues, safe, err = o.Log.Moved(ctx, since)
	if err == nil {
		o.tuning.looked(len(queues))
	}
	return queues, safe, err
}
