package state_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"queen/broker/segment"
	"queen/broker/state"
	"queen/internal/crashdisk"
	"queen/internal/rounds"
)

// crash is a disk as a crash left it.
type crash struct {
	fs      *crashdisk.FS
	durable uint64 // index that a completed flush had made durable
	applied uint64 // last index that may have been applied
}

// crashes takes clones of a disk in the middle of its operations, whoever makes them.
type crashes struct {
	fs               *crashdisk.FS
	durable, applied atomic.Uint64

	mu    sync.Mutex
	rng   *rand.Rand
	every int // about one clone in so many operations
	taken []crash
}

// MaybeError is called before every operation on the disk.
func (c *crashes) MaybeError(errorfs.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rng.IntN(c.every) == 0 {
		c.clone()
	}
	return nil
}

func (c *crashes) String() string { return "crashes" }

// clone keeps all, some or nothing of what was not synced.
func (c *crashes) clone() {
	taken := crash{durable: c.durable.Load(), applied: c.applied.Load()}
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 0, 50, 100}[c.rng.IntN(4)], RNG: c.rng}
	taken.fs = c.fs.CrashClone(cfg)
	c.taken = append(c.taken, taken)
}

// TestCrash: whenever the process dies and whatever part of the unsynced bytes the disk keeps, what was flushed is there, the
// state is that of some index, and after the rest of the log it is, row for row and record for record, the state of a
// node that never died. So is a node that dies again on the way.
func TestCrash(t *testing.T) {
	for seed := range uint64(rounds.Of(4, 1)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			crash1(t, seed, workload(seed, 120), (*state.State).Dump, 20, nil)
		})
	}
}

// crash1 runs a log with crashes.
func crash1(t *testing.T, seed uint64, entries [][]byte, dump func(*state.State) (string, error), least int, aside func(*node)) {
	wantDump, wantRows := reference(t, entries, dump)
	rng := rand.New(rand.NewPCG(seed, 99))
	c := &crashes{fs: crashdisk.New(), rng: rand.New(rand.NewPCG(seed, 5)), every: 25}
	runWithFlushes(t, c, entries, rng, aside)
	if len(c.taken) < least {
		t.Fatalf("only %d crashes", len(c.taken))
	}
	for i, crashed := range c.taken {
		if i%rounds.Of(1, 4) != 0 {
			continue
		}
		t.Logf("crash %d of %d: durable %d, applied %d", i, len(c.taken), crashed.durable, crashed.applied)
		last := recovered(t, crashed, entries, rng, aside)
		if got := last.dump(); got != wantDump {
			t.Fatalf("readers see something else:\n%s", cmp.Diff(strings.Split(wantDump, "\n"), strings.Split(got, "\n")))
		}
		if got, err := dump(last.State); got != wantRows || err != nil {
			t.Fatalf("%v, other rows:\n%s", err, cmp.Diff(strings.Split(wantRows, "\n"), strings.Split(got, "\n")))
		}
		last.close()
	}
}

// reference returns what a node holds that applies all entries and never stops.
func reference(t *testing.T, entries [][]byte, dumpRows func(*state.State) (string, error)) (dump, rows string) {
	t.Helper()
	n := newNode(t)
	for i, e := range entries {
		if _, err := n.Apply(uint64(i+1), e); err != nil {
			t.Fatal(err)
		}
	}
	dump = n.dump()
	rows, err := dumpRows(n.State)
	if err != nil {
		t.Fatal(err)
	}
	return dump, rows
}

// runWithFlushes applies all entries on a disk that takes clones, and flushes now and then: all of it, or only the rows as pebble
// does by itself.
func runWithFlushes(t *testing.T, c *crashes, entries [][]byte, rng *rand.Rand, aside func(*node)) {
	t.Helper()
	fs := errorfs.Wrap(c.fs, c)
	segments, err := segment.Open(segment.Options{FS: fs, Dir: "segments", SealBytes: sealBytes, Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Open(state.Options{FS: fs, Dir: "state", Segments: segments, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	s.MaxRecent(maxRecent, maxRecentBytes)
	for i, e := range entries {
		c.applied.Store(uint64(i + 1))
		if _, err := s.Apply(uint64(i+1), e); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		if c.rng.IntN(10) == 0 {
			c.clone()
		}
		c.mu.Unlock()
		if aside != nil && rng.IntN(8) == 0 {
			aside(&node{t: t, segments: segments, State: s})
		}
		flush := [24]func() error{s.Flush, s.FlushRows, s.FlushRows}[rng.IntN(24)]
		if flush == nil {
			continue
		}
		applied := s.Applied()
		if err := flush(); err != nil {
			t.Fatal(err)
		}
		c.durable.Store(applied)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := segments.Close(); err != nil {
		t.Fatal(err)
	}
}

// recovered opens a disk after a crash and applies the rest of the log; half of the time the node dies once more on the way.
func recovered(t *testing.T, crashed crash, entries [][]byte, rng *rand.Rand, aside func(*node)) *node {
	t.Helper()
	fs, durable, applied := crashed.fs, crashed.durable, crashed.applied
	for gen := uint32(2); ; gen++ {
		n := openNode(t, fs, gen)
		from := n.Applied()
		if from < durable || from > applied {
			t.Fatalf("opened at index %d, want %d to %d", from, durable, applied)
		}
		upTo, again := uint64(len(entries)), gen == 2 && rng.IntN(2) == 0
		if again {
			upTo = from + rng.Uint64N(upTo-from+1)
		}
		for i := from; i < upTo; i++ {
			if _, err := n.Apply(i+1, entries[i]); err != nil {
				t.Fatal(err)
			}
			if aside != nil && rng.IntN(8) == 0 {
				aside(n)
			}
		}
		if !again {
			return n
		}
		if flush := [4]func() error{n.Flush, n.FlushRows}[rng.IntN(4)]; flush != nil {
			if err := flush(); err != nil {
				t.Fatal(err)
			}
			durable = n.Applied()
		}
		applied = n.Applied()
		fs = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
		n.close()
	}
}
