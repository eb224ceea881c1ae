package state_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"queen/broker/command"
	"queen/broker/kv"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/internal/crashdisk"
	"queen/stages"
)

// TestDeterminism: the same entries give the same rows, whenever a node flushes and however often it is opened again.
func TestDeterminism(t *testing.T) {
	entries := workload(11, 200)
	dump, rows := reference(t, entries, (*state.State).Dump)
	n := openNode(t, crashdisk.New(), 1)
	rng := rand.New(rand.NewPCG(3, 3))
	for i, e := range entries {
		if _, err := n.Apply(uint64(i+1), e); err != nil {
			t.Fatal(err)
		}
		switch rng.IntN(20) {
		case 0:
			if err := n.Flush(); err != nil {
				t.Fatal(err)
			}
		case 1:
			n.close()
			n = openNode(t, n.fs, uint32(i+2))
		}
	}
	defer n.close()
	if got := n.dump(); got != dump {
		t.Errorf("readers see\n%s\nwant\n%s", got, dump)
	}
	if got, err := n.Dump(); got != rows || err != nil {
		t.Errorf("%v, rows\n%s\nwant\n%s", err, got, rows)
	}
}

// TestClockRises: whatever times are proposed, stamps strictly rise and are never below what was proposed; the led clock never
// runs faster than a second a command nor faster than the log clock.
func TestClockRises(t *testing.T) {
	n := newNode(t)
	rng := rand.New(rand.NewPCG(1, 1))
	next := uint32(0)
	var now, led stages.Micros
	for i := range 500 {
		proposed := stages.Micros(rng.Int64N(int64(i+1) * 1_000_000))
		switch rng.IntN(20) {
		case 0:
			proposed = math.MinInt64
		case 1:
			proposed = now + stages.Micros(rng.Int64N(1<<40))
		}
		r := n.apply(proposed, pushOf(&next, 0, item{"q", "p", 0, []string{"=x"}}))[0].(*state.PushResult)
		if r.Stamp <= now || r.Stamp < proposed || proposed <= now && r.Stamp != now+1 {
			t.Fatalf("stamp %d after %d, proposed %d", r.Stamp, now, proposed)
		}
		n.read(func(r *state.Reader) {
			want := min(r.Safe()-now, 1_000_000)
			if i == 0 {
				want = 0
			}
			if step := r.Led() - led; step != want {
				t.Fatalf("led clock moved by %d while the log clock moved by %d, want %d", step, r.Safe()-now, want)
			}
			led = r.Led()
		})
		if now = r.Stamp; n.Now() != now {
			t.Fatalf("safe time %d, stamp %d", n.Now(), now)
		}
	}
}

func TestClockEnds(t *testing.T) {
	n := newNode(t)
	n.apply(math.MaxInt64, tick())
	if _, err := n.Apply(2, entry(1, tick())); err == nil {
		t.Error("the clock went past its end")
	}
}

// TestCommandsOfOneEntry: each has its own stamp, and sees what the ones before it did.
func TestCommandsOfOneEntry(t *testing.T) {
	n, next := newNode(t), uint32(0)
	expect := uint64(1)
	guarded := put("k", "2", 0)
	guarded.Expect = &expect
	out := n.apply(100,
		pushOf(&next, 0, item{"q", "p", 0, []string{"a=1", "b=2"}}),
		pushOf(&next, 0, item{"q", "p", 0, []string{"b=3", "c=4"}}),
		ops(put("k", "1", 0)), ops(guarded))
	first, second := out[0].(*state.PushResult), out[1].(*state.PushResult)
	if first.Stamp != 100 || second.Stamp != 101 || second.Appends[0].Base != 2 || len(second.Appends[0].Dups) != 1 {
		t.Errorf("%+v %+v", first, second)
	}
	if r := out[3].(*kv.Outcome).Results[0]; !r.Applied || r.Version != 2 {
		t.Errorf("%+v", r)
	}
	n.read(func(r *state.Reader) {
		if row, ok, err := r.Document(tenantOne, "n", "k"); !ok || string(row.Value) != "2" || err != nil {
			t.Errorf("%+v %v %v", row, ok, err)
		}
	})
}

// TestOldIndex: an index that was applied does nothing and gives no results, in this life and the next.
func TestOldIndex(t *testing.T) {
	n, next := newNode(t), uint32(0)
	if _, err := n.Apply(7, entry(5, pushOf(&next, 0, item{"q", "p", 0, []string{"=1"}}))); err != nil {
		t.Fatal(err)
	}
	before := n.dump()
	for _, index := range []uint64{0, 1, 7} {
		if results, err := n.Apply(index, []byte("not even an entry")); results != nil || err != nil {
			t.Errorf("index %d: %v, %v", index, results, err)
		}
	}
	if got := n.dump(); got != before {
		t.Errorf("%s\nwant\n%s", got, before)
	}
}

// TestErrorsAreFinal: an entry that can't be applied names its index, and nothing is applied, read or flushed after it.
func TestErrorsAreFinal(t *testing.T) {
	next := uint32(0)
	short := command.Push{Queues: []command.PushQueue{{Name: "q"}},
		Appends: []command.PushAppend{{Partition: "p", Count: 1, Block: []byte("not a record")}}}
	two := pushOf(&next, 0, item{"q", "p", 0, []string{"=1", "=2"}})
	p, err := command.DecodePush(two.Body)
	if err != nil {
		t.Fatal(err)
	}
	p.Appends[0].Count = 1
	for name, bad := range map[string][]byte{
		"not an entry":    []byte("x"),
		"version":         {2},
		"tick with body":  entry(1, command.Command{Kind: command.KindTick, Body: []byte{1}}),
		"found body":      entry(1, command.Command{Kind: command.KindFound}),
		"push body":       entry(1, command.Command{Kind: command.KindPush}),
		"push block":      entry(1, command.Command{Kind: command.KindPush, Body: short.Append(nil)}),
		"push count":      entry(1, command.Command{Kind: command.KindPush, Body: p.Append(nil)}),
		"kv body":         entry(1, command.Command{Kind: command.KindKV}),
		"configure body":  entry(1, command.Command{Kind: command.KindConfigure}),
		"second is wrong": entry(1, tick(), command.Command{Kind: command.KindKV}),
	} {
		n := openNode(t, crashdisk.New(), 1)
		n.apply(1, found([16]byte{1}))
		n.apply(2, found([16]byte{1}))
		_, err := n.Apply(41, bad)
		if err == nil || !strings.Contains(err.Error(), "raft index 41") {
			t.Errorf("%s: %v", name, err)
		}
		if _, again := n.Apply(42, entry(9, tick())); !errors.Is(again, err) {
			t.Errorf("%s: the next entry: %v", name, again)
		}
		if n.Read(func(*state.Reader) error { return nil }) == nil || n.Flush() == nil {
			t.Errorf("%s: reads and flushes go on", name)
		}
		if n.Applied() != 2 || n.Now() != 2 {
			t.Errorf("%s: applied %d, now %d", name, n.Applied(), n.Now())
		}
		n.close()
	}
}

func TestSeed(t *testing.T) {
	n := newNode(t)
	if _, ok := n.Seed(); ok {
		t.Error("founded before it was")
	}
	n.apply(1, found([16]byte{1, 2}))
	n.apply(2, found([16]byte{3})) // of another leader, which had not heard of the first
	if seed, ok := n.Seed(); !ok || seed != [16]byte{1, 2} {
		t.Errorf("%x %v", seed, ok)
	}
}

func TestChanged(t *testing.T) {
	n := newNode(t)
	first := n.Changed()
	if n.Changed() != first {
		t.Error("two waiters have two channels")
	}
	select {
	case <-first:
		t.Error("closed before anything was applied")
	default:
	}
	n.apply(1, tick())
	<-first
	select {
	case <-n.Changed():
		t.Error("closed by an entry from before")
	default:
	}
}

// TestSweep: expired documents leave the disk, at most 512 an entry, and not before their time.
func TestSweep(t *testing.T) {
	n := newNode(t)
	at := stages.Micros(1_000_000)
	for i := range 4 {
		var batch []kv.Op
		for j := range 200 {
			batch = append(batch, put(fmt.Sprintf("k%d-%d", i, j), "1", 1_000_000))
		}
		n.apply(at, ops(batch...))
	}
	n.apply(at, ops(put("stays", "1", 60_000_000)))
	documents := func() int {
		rows, err := n.Dump()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count("\n"+rows, "\nK ")
	}
	if got := documents(); got != 801 {
		t.Fatalf("%d documents", got)
	}
	n.apply(at+999_990, tick())
	if got := documents(); got != 801 {
		t.Errorf("%d documents before their time is over", got)
	}
	for _, want := range []int{801 - 512, 1, 1} {
		n.apply(at+2_000_000, tick())
		if got := documents(); got != want {
			t.Errorf("%d documents, want %d", got, want)
		}
	}
}

// TestSweepAtTheEdge: the entry at which the led clock reaches the end of a life removes the document, not the next one.
func TestSweepAtTheEdge(t *testing.T) {
	n := newNode(t)
	n.apply(1_000_000, ops(put("k", "1", 10)))
	for i, at := range []stages.Micros{1_000_009, 1_000_010} {
		n.apply(at, tick())
		rows, err := n.Dump()
		if gone := !strings.Contains(rows, "K "); gone != (i == 1) || err != nil {
			t.Errorf("at %d: gone %v, %v", at, gone, err)
		}
	}
}

// TestSyncFails: when segments can't be synced, the flush fails, the process is told to end, and nothing goes on.
func TestSyncFails(t *testing.T) {
	mem := crashdisk.New()
	broken := false
	inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
		sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
		if broken && sync && strings.Contains(op.Path, "segments") {
			return errorfs.ErrInjected
		}
		return nil
	})
	fs := errorfs.Wrap(mem, inject)
	segments, err := segment.Open(segment.Options{FS: fs, Dir: "segments", Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	var fatal []error
	s, err := state.Open(state.Options{FS: fs, Dir: "state", Segments: segments, Fatal: func(err error) { fatal = append(fatal, err) }})
	if err != nil {
		t.Fatal(err)
	}
	next := uint32(0)
	if _, err := s.Apply(1, entry(1, pushOf(&next, 0, item{"q", "p", 0, []string{"=1"}}))); err != nil {
		t.Fatal(err)
	}
	broken = true
	if err := s.Flush(); !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("flush: %v", err)
	}
	if len(fatal) == 0 {
		t.Error("the process was not told to end")
	}
	if _, err := s.Apply(2, entry(2, tick())); err == nil {
		t.Error("goes on after a failed sync")
	}
	_ = s.Close() // on a dead disk
	_ = segments.Close()
}

// TestUnflushed counts the bytes of entries, and begins again at a flush.
func TestUnflushed(t *testing.T) {
	n := newNode(t)
	e := entry(1, tick(), tick())
	for i := range uint64(3) {
		if _, err := n.Apply(i+1, e); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.Unflushed(); got != int64(3*len(e)) {
		t.Errorf("%d bytes, want %d", got, 3*len(e))
	}
	if err := n.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := n.Unflushed(); got != 0 {
		t.Errorf("%d bytes after a flush", got)
	}
}

// TestDuplicatesOpenNoBucket: a push of duplicates alone leaves what a restart can't see. The node that was opened again in
// between drops the same ids as the one that was not, although the horizon changed meanwhile.
func TestDuplicatesOpenNoBucket(t *testing.T) {
	const hour = stages.Micros(3_600_000_000)
	run := func(restart bool) string {
		n, next := openNode(t, crashdisk.New(), 1), uint32(0)
		window := func(seconds int64) command.Command {
			return configure(command.Configure{Queue: "q",
				Options: []command.Option{{Number: command.OptDedupWindowSeconds, Type: command.TypeInt, Int: seconds}}})
		}
		n.apply(1, window(100*3600))
		n.apply(hour, pushOf(&next, 1, item{"q", "p", 0, []string{"a=1"}}))
		n.apply(5*hour, pushOf(&next, 1, item{"q", "p", 0, []string{"a=2"}}))
		if restart {
			n.close()
			n = openNode(t, n.fs, 2)
		}
		n.apply(5*hour+1, window(0))
		n.apply(5*hour+2, pushOf(&next, 2, item{"q", "p", 0, []string{"b=3"}}))
		defer n.close()
		rows, err := n.Dump()
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	if a, b := run(false), run(true); a != b {
		t.Errorf("rows\n%s\nafter a restart\n%s", a, b)
	}
}
