package state

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/broker/command"
	"queen/broker/dedup"
	"queen/broker/retention"
	"queen/broker/segment"
	"queen/stages"
)

// Options say where the state lives.
type Options struct {
	FS       vfs.FS         // nil = the real one
	Dir      string         // of pebble; made when missing
	Segments *segment.Store // bodies of records. The caller closes it, after the State
	Filters  int64          // bytes that the filters in RAM may take which spare most look-ups of transaction ids; 0 = 512 MiB
	// Fatal is called once, when the state can't go on: a sync that failed means that what was written may be lost, and only a
	// restart from the raft log is safe. It has to end the process, and may return before it has: nothing is applied, read or
	// written any more. It is called under locks of pebble's, so it must not wait for Close.
	Fatal func(error)
}

// State is the state machine.
//
// Invariants, each one with a test:
//   - Apply is the only writer, and the effects of an entry become visible together: it holds the write lock from the first
//     effect to the last, and readers look under the read lock.
//   - The clock strictly rises with every command, whatever time was proposed (contract R4). The stamp of a push is the clock
//     after its step, the same in all its partitions.
//   - safeTime closes the past (design invariant 1): Applied and Now move last, after the frames are in the segments and the
//     rows are in pebble. Whatever is applied later is stamped above.
//   - TTLs run on the led clock, to which a command adds at most one second: no leap, pause or election expires anything.
//   - Offsets of a partition are contiguous from 0; a push that is all duplicates consumes none and writes no frame.
//   - What pebble holds on disk never names a frame that is not on disk too (flush.go), and pebble moves from entry to entry:
//     the meta row and all effects of an entry are one batch. So after a crash the rows are those of some applied index, the
//     segments are cut to them, and raft replays the rest.
//   - An error inside Apply is final. The same entry would fail on every node, or this node's disk is at fault; either way
//     nothing is answered any more.
//
// Outline of Apply:
//  1. an index that is not above the applied one was done in an earlier life: no-op;
//  2. decode all commands and the records in them, before the lock;
//  3. take the write lock; for each command: step the clocks, then its effect (found, tick, push, kv, configure, retain, delete), which
//     changes RAM, collects frames and puts rows in one pebble batch;
//  4. sweep documents that the led clock has passed, at most 512;
//  5. append the frames to the segments, queue by queue, and note each new tail in the batch;
//  6. move transaction ids from RAM to rows where that is due (ids.go);
//  7. put the meta row in the batch and commit it, unsynced: the raft log is the log;
//  8. publish: applied index and clock, release the lock, wake who waits for a change.
type State struct {
	opts     Options
	db       *pebble.DB
	segments *segment.Store

	mu      sync.RWMutex
	meta    meta
	tenants map[[16]byte]*tenant
	queues  map[stages.QueueID]*queue
	ids     dedup.Shared
	dirty   []*queue         // queues with R rows or an H row that is behind
	purged  []stages.QueueID // deleted since the last Reclaim: their files go when that is durable
	expiry  stages.Micros    // no document expires below this, on the led clock; 0 = not looked yet
	failed  error            // final

	unstored    []*queue // queues with ids that may be in RAM alone (ids.go)
	recentBytes int64    // of the frames that hold those

	maxRecent      int // the constants, less in tests
	maxRecentBytes int64
	loadFilters    int

	applied   atomic.Uint64 // meta.applied, published
	now       atomic.Int64  // meta.now, published
	pushes    atomic.Uint64 // applied by this process
	unflushed atomic.Int64  // bytes of entries applied since the last flush began

	changedMu sync.Mutex
	changed   chan struct{} // nil = nobody waits

	reclaim []*queue // queues of which files may go

	goneMu sync.Mutex              // taken last
	gone   map[stages.QueueID]bool // purged since the heads of a flush were taken: it must not write them

	flushMu sync.Mutex // one flush at a time, and none after Close
	begun   bool
	closed  bool

	unsynced chan struct{} // closed when the segments could not be synced: pebble writes nothing any more (flush.go)
	cause    error         // why; readable once unsynced is closed
	unsync1  sync.Once
	closing  chan struct{}  // closed by Close
	refills  sync.WaitGroup // what reads rows behind a boot (refill.go); Close waits for it
	unblock1 sync.Once
	fatal1   sync.Once
}

// tenant holds the queues of one tenant.
type tenant struct {
	byName map[string]*queue
	queues []*queue // in creation order
	hidden []*queue // the same
}

// queue is what RAM holds of a queue.
type queue struct {
	row        *QueueRow // never changed, only replaced
	byName     map[string]*partition
	partitions []*partition // in creation order, which is the order of their ids
	last       stages.Micros
	tail       segment.Tail // of its log
	heads      heads        // what the R rows know
	dirty      []*partition
	soiled     bool // in State.dirty
	removed    retention.Removed
	dropped    segment.Dropped // segments that are gone, or go
	hidden     bool            // deleted, and kept for open windows
	holders    []holder        // whose
	reclaim    bool            // in State.reclaim
	times      idTimes

	ids         *dedup.Index
	idsBelow    *idPlace // of the U row, at boot; nil = there is none
	unstored    bool     // in State.unstored
	recentBytes int64    // of the frames whose ids are in RAM alone
}

// idTimes is how long transaction ids of a queue count and are kept, as one row of it says: looked up once a row, not once an append.
type idTimes struct {
	of              *QueueRow
	window, horizon stages.Micros
}

// idTimes returns the times of the queue's row as it is now.
func (q *queue) idTimes() idTimes {
	if q.times.of != q.row {
		window := q.row.Int(command.OptDedupWindowSeconds)
		q.times = idTimes{of: q.row, window: dedup.Seconds(window),
			horizon: dedup.Horizon(window, q.row.Int(command.OptCompletedRetentionSeconds))}
	}
	return q.times
}

// partition is what RAM holds of a partition.
type partition struct {
	Partition
	dirty bool // its R row is behind
}

// Applied returns the raft index of the last entry whose effects can be read, 0 when there is none.
func (s *State) Applied() uint64 { return s.applied.Load() }

// Pushes returns how many pushes were applied since this process began.
func (s *State) Pushes() uint64 { return s.pushes.Load() }

// Now returns the log clock: the safe time of this node. Whatever was applied up to it can be read.
func (s *State) Now() stages.Micros { return stages.Micros(s.now.Load()) }

// Seed returns the cluster seed; ok is false before the cluster was founded.
func (s *State) Seed() (seed [16]byte, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.meta.seed, s.meta.seed != [16]byte{}
}

// Unflushed returns the bytes of entries that were applied since the last flush began. After a crash raft replays about that
// much.
func (s *State) Unflushed() int64 { return s.unflushed.Load() }

// Changed returns a channel that is closed when an entry is applied after this call. Take it first, then look, then wait.
func (s *State) Changed() <-chan struct{} {
	s.changedMu.Lock()
	defer s.changedMu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Read calls fn under the read lock: it sees whole entries only, and the next one waits for it. So fn makes short look-ups and
// leaves with values; segment views may be used afterwards. The Reader is invalid once fn has returned.
func (s *State) Read(fn func(r *Reader) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.failed != nil {
		return s.failed
	}
	if s.broken() {
		return failure{s.cause}
	}
	return fn(&Reader{s: s})
}

// publish makes an applied entry visible. The caller holds the write lock and is done with everything else.
func (s *State) publish(size int) {
	s.unflushed.Add(int64(size))
	s.now.Store(int64(s.meta.now))
	s.applied.Store(s.meta.applied)
	s.changedMu.Lock()
	defer s.changedMu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// ErrFailed is true (errors.Is) of what a state answers that has stopped at an error: its node is ending, and whoever asked may ask another one.
var ErrFailed = errors.New("the state stopped at an error")

// failure is the error at which a state stopped.
type failure struct{ error }

func (f failure) Is(target error) bool { return target == ErrFailed }
func (f failure) Unwrap() error        { return f.error }

// fail ends the state: nothing is applied or read any more. The first error wins and is returned.
func (s *State) fail(err error) error {
	if s.failed == nil {
		s.failed = failure{fmt.Errorf("state: %w", err)}
	}
	return s.failed
}

// broken says whether the segments could not be synced before a flush of pebble.
func (s *State) broken() bool {
	select {
	case <-s.unsynced:
		return true
	default:
		return false
	}
}

// fatal tells the owner, once.
func (s *State) fatal(err error) { s.fatal1.Do(func() { s.opts.Fatal(err) }) }
