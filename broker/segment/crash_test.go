package segment

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"queen/internal/rounds"
)

// moments calls do before every operation that changes a disk: each is a moment at which the machine may stop.
type moments struct{ do func(op errorfs.Op) }

func (*moments) String() string { return "moments" }

func (m *moments) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && m.do != nil {
		m.do(op)
	}
	return nil
}

func newDisk(t *testing.T) *vfs.MemFS {
	t.Helper()
	disk := vfs.NewCrashableMem()
	if err := disk.MkdirAll("data", 0o755); err != nil {
		t.Fatal(err)
	}
	syncRoot(t, disk)
	return disk
}

func syncRoot(t *testing.T, disk *vfs.MemFS) {
	t.Helper()
	d, err := disk.OpenDir("/")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// state is what a state machine had when the machine stopped: how many frames, ending at which tail.
type state struct {
	frames int
	tail   Tail
}

// crash is a disk after a stop, with the states it may be attached to: all whose tail was synced before. The latest is
// what pebble would hold; an earlier one is what it holds when its own flush did not come to an end.
type crash struct {
	disk   *vfs.MemFS
	synced []state
	at     string
}

// clones returns the disk with exactly what was synced, and twice with some of the rest.
func clones(disk *vfs.MemFS, rng *rand.Rand) []*vfs.MemFS {
	return []*vfs.MemFS{
		disk.CrashClone(vfs.CrashCloneCfg{}),
		disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}),
		disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 90, RNG: rng}),
	}
}

// crashRun appends and syncs on a crashable disk and returns a crash for every moment between two changes of the disk.
func crashRun(t *testing.T, seed uint64, seal int64, payload int) ([]Frame, []crash) {
	disk := newDisk(t)
	rng := rand.New(rand.NewPCG(seed, 7))
	var crashes []crash
	synced := []state{{}}
	watch := &moments{}
	s := open(t, errorfs.Wrap(disk, watch), seal)
	watch.do = func(op errorfs.Op) {
		for _, c := range clones(disk, rng) {
			crashes = append(crashes, crash{disk: c, synced: slices.Clone(synced), at: fmt.Sprintf("%v %s", op.Kind, op.Path)})
		}
	}
	m := newMaker(seed, 3)
	var all []Frame
	var pending []state
	for i := range 14 {
		fs := m.call(payload)
		all = append(all, fs...)
		pending = append(pending, state{len(all), mustAppend(t, s, 1, fs)})
		if i%3 == 2 {
			mustSync(t, s)
			synced = append(synced, pending...)
			pending = nil
		}
	}
	watch.do(errorfs.Op{Path: "the end"})
	watch.do = nil
	return all, crashes
}

// After a crash at any moment every state whose tail was synced finds all its frames, whatever else the disk kept, and the log
// goes on from there as if nothing had been.
func TestCrashEverywhere(t *testing.T) {
	for _, c := range []struct {
		seed    uint64
		seal    int64
		payload int
	}{{1, 700, 60}, {2, 1, 30}, {3, 30_000, 6000}} {
		all, crashes := crashRun(t, c.seed, c.seal, c.payload)
		if len(crashes) < 100 {
			t.Fatalf("only %d crashes", len(crashes))
		}
		for n, cr := range crashes {
			if n%rounds.Of(1, 5) != 0 {
				continue
			}
			for i, st := range cr.synced {
				disk := cr.disk.CrashClone(vfs.CrashCloneCfg{}) // each gets its own copy
				if err := recoverAt(t, disk, c.seal, st, all); err != nil {
					t.Fatalf("seed %d, crash before %s, synced state %d of %d (%v): %v", c.seed, cr.at, i, len(cr.synced), st.tail, err)
				}
			}
		}
		t.Logf("seed %d: %d crashes", c.seed, len(crashes))
	}
}

func recoverAt(t *testing.T, disk vfs.FS, seal int64, st state, all []Frame) error {
	s, err := Open(Options{FS: disk, Dir: "data/segments", SealBytes: seal})
	if err != nil {
		return err
	}
	if err := s.attach(1, st.tail); err != nil {
		return err
	}
	if err := readAll(s.View(1), 1, all[:st.frames]); err != nil {
		return err
	}
	if rest := all[st.frames:]; len(rest) > 0 {
		if _, _, err := s.Append(1, rest); err != nil {
			return err
		}
	}
	if err := readAll(s.View(1), 1, all); err != nil {
		return err
	}
	if err := s.Sync(); err != nil {
		return err
	}
	return s.Close()
}

// A machine may stop again while Attach puts the folder right: the next Attach to the same tail finds the same frames. After
// that other frames are appended and synced than the ones that were cut, and only they are there.
func TestCrashInAttach(t *testing.T) {
	const seal = 700
	all, crashes := crashRun(t, 5, seal, 60)
	rng := rand.New(rand.NewPCG(5, 8))
	attaches := 0
	for i := 0; i < len(crashes); i += 5 {
		cr := crashes[i]
		st := cr.synced[rng.IntN(len(cr.synced))]
		var again []*vfs.MemFS
		watch := &moments{do: func(errorfs.Op) { again = append(again, clones(cr.disk, rng)...) }}
		s := open(t, errorfs.Wrap(cr.disk, watch), seal)
		if err := s.attach(1, st.tail); err != nil {
			t.Fatalf("crash before %s: %v", cr.at, err)
		}
		watch.do = nil
		again = append(again, clones(cr.disk, rng)...)
		for _, disk := range again {
			attaches++
			if err := recoverAt(t, disk.CrashClone(vfs.CrashCloneCfg{}), seal, st, all); err != nil {
				t.Fatalf("crash before %s, then in Attach to %v: %v", cr.at, st.tail, err)
			}
			if err := otherHistory(t, disk, seal, st, all); err != nil {
				t.Fatalf("crash before %s, then in Attach to %v, then other frames: %v", cr.at, st.tail, err)
			}
		}
	}
	t.Logf("%d attaches after a second crash", attaches)
}

// otherHistory appends other frames than before behind st and crashes once more after Sync.
func otherHistory(t *testing.T, disk *vfs.MemFS, seal int64, st state, all []Frame) error {
	s, err := Open(Options{FS: disk, Dir: "data/segments", SealBytes: seal})
	if err != nil {
		return err
	}
	if err := s.attach(1, st.tail); err != nil {
		return err
	}
	want := slices.Clone(all[:st.frames])
	m := newMaker(99, 2)
	m.now = all[len(all)-1].TS + 1
	for p, f := range lastOf(want) {
		m.next[p] = f.Base + int64(f.Count)
	}
	tail := st.tail
	for range 5 {
		fs := m.call(80)
		want = append(want, fs...)
		if _, tail, err = s.Append(1, fs); err != nil {
			return err
		}
	}
	if err := s.Sync(); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	after := disk.CrashClone(vfs.CrashCloneCfg{})
	if s, err = Open(Options{FS: after, Dir: "data/segments", SealBytes: seal}); err != nil {
		return err
	}
	if err := s.attach(1, tail); err != nil {
		return err
	}
	return readAll(s.View(1), 1, want)
}
