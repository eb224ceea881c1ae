package segment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"queen/stages"
)

func TestRoundTripSealReopen(t *testing.T) {
	for seal, calls := range map[int64]int{1 << 30: 3000, 30_000: 1000, 1: 60} {
		t.Run(fmt.Sprint(seal), func(t *testing.T) {
			fsys := vfs.NewMem()
			s, m := open(t, fsys, seal), newMaker(1, 50)
			var want []Frame
			var tail Tail
			for range calls {
				fs := m.call(60)
				want = append(want, fs...)
				tail = mustAppend(t, s, 3, fs)
			}
			mustRead(t, s, 3, want)
			if got := s.View(3).Tail(); got != tail {
				t.Errorf("tail %v, Append said %v", got, tail)
			}
			mustSync(t, s)
			again := open(t, fsys, seal)
			if err := again.attach(3, tail); err != nil {
				t.Fatal(err)
			}
			mustRead(t, again, 3, want)
			fs := m.call(60)
			mustAppend(t, again, 3, fs)
			mustRead(t, again, 3, append(want, fs...))
		})
	}
}

// What Headers, After and Find answer is compared with a plain search through what was appended.
func TestSearch(t *testing.T) {
	s, m := open(t, vfs.NewMem(), 60_000), newMaker(2, 9)
	var want []Frame
	var tails []Tail
	for range 2500 {
		fs := m.call(10)
		want = append(want, fs...)
		tails = append(tails, mustAppend(t, s, 1, fs))
	}
	v := s.View(1)
	if len(v.sealed) < 3 || len(v.entries) == 0 {
		t.Fatalf("%d sealed, %d open entries: not the case that is meant", len(v.sealed), len(v.entries)/entryLen)
	}
	all, err := headersOf(v.After(Tail{}))
	if err != nil {
		t.Fatal(err)
	}
	for range 400 {
		from := 990 + stages.Micros(m.rng.IntN(int(m.now)-980))
		before := from + stages.Micros(m.rng.IntN(300)) - 2
		got, err := headersOf(v.Headers(from, before))
		var exp []stages.Header
		for _, h := range all {
			if h.TS >= from && h.TS < before {
				exp = append(exp, h)
			}
		}
		if err != nil || !slices.Equal(got, exp) {
			t.Fatalf("Headers(%d, %d): %d, want %d, %v", from, before, len(got), len(exp), err)
		}
		tail := tails[m.rng.IntN(len(tails))]
		got, err = headersOf(v.After(tail))
		exp = nil
		for _, h := range all {
			if h.Ref.Seg > tail.Seg || h.Ref.Seg == tail.Seg && int64(h.Ref.Off) >= tail.Len {
				exp = append(exp, h)
			}
		}
		if err != nil || !slices.Equal(got, exp) {
			t.Fatalf("After(%v): %d, want %d, %v", tail, len(got), len(exp), err)
		}
	}
	if err := findAll(v, want); err != nil {
		t.Error(err)
	}
	for p, next := range m.next {
		if _, ok, err := v.Find(p, next); ok || err != nil {
			t.Errorf("Find(%d, %d) behind the last offset: %v %v", p, next, ok, err)
		}
		if _, ok, err := v.Find(p+1, 0); ok || err != nil {
			t.Errorf("Find(%d, 0) of no partition: %v %v", p+1, ok, err)
		}
	}
	for h, err := range v.Headers(0, maxMicros) { // a consumer that stops early
		if err != nil || h != all[0] {
			t.Error(h, err)
		}
		break
	}
}

// What First answers is compared with a plain search, over sealed and open segments, sorted blocks and young entries.
func TestFirst(t *testing.T) {
	for seal, calls := range map[int64]int{60_000: 2500, 1 << 30: 5000, 1: 80} {
		t.Run(fmt.Sprint(seal), func(t *testing.T) {
			s, m := open(t, vfs.NewMem(), seal), newMaker(5, 40)
			for range calls {
				mustAppend(t, s, 1, m.call(0))
			}
			v := s.View(1)
			all, err := headersOf(v.After(Tail{}))
			if err != nil {
				t.Fatal(err)
			}
			for range 3000 {
				p := stages.PartitionID(m.rng.IntN(42)*257 + m.rng.IntN(2))
				from := 990 + stages.Micros(m.rng.IntN(int(m.now)-970))
				low := int64(0)
				if m.rng.IntN(2) == 0 {
					low = m.rng.Int64N(m.next[p] + 2)
				}
				i := slices.IndexFunc(all, func(h stages.Header) bool {
					return h.Partition == p && h.TS >= from && h.Base+int64(h.Count) > low
				})
				h, ok, err := v.First(p, from, low)
				if err != nil || ok != (i >= 0) || ok && h != all[i] {
					t.Fatalf("First(%d, %d, %d): %+v %v %v, want append %d", p, from, low, h, ok, err, i)
				}
			}
		})
	}
}

// Find walks the young entries and sorted blocks of the open segment.
func TestFindInOpenSegment(t *testing.T) {
	s, m := open(t, vfs.NewMem(), 1<<30), newMaker(2, 300)
	var want []Frame
	for range 5000 {
		fs := m.call(0)
		want = append(want, fs...)
		mustAppend(t, s, 1, fs)
	}
	if v := s.View(1); len(v.sorted) != len(want)/sortedBlock {
		t.Fatalf("%d sorted blocks for %d frames", len(v.sorted), len(want))
	}
	mustRead(t, s, 1, want)
}

func TestRefusals(t *testing.T) {
	s, m := open(t, vfs.NewMem(), 0), newMaker(1, 3)
	good := m.frame(5)
	mustAppend(t, s, 1, []Frame{good})
	for name, change := range map[string]func(f *Frame){
		"no records":      func(f *Frame) { f.Count = 0 },
		"stamp falls":     func(f *Frame) { f.TS-- },
		"negative base":   func(f *Frame) { f.Base = -1 },
		"base overflow":   func(f *Frame) { f.Base = math.MaxInt64 },
		"negative weight": func(f *Frame) { f.Weight = -1 },
		"unknown flag":    func(f *Frame) { f.Flags = 4 },
		"no body":         func(f *Frame) { f.Body = nil },
	} {
		bad := good
		change(&bad)
		if _, _, err := s.Append(1, []Frame{good, bad}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, tail, err := s.Append(1, nil); err != nil || tail != s.View(1).Tail() {
		t.Error("no frames:", tail, err)
	}
	mustRead(t, s, 1, []Frame{good})
}

func TestBodiesRefusals(t *testing.T) {
	fsys := vfs.NewMem()
	s, m := open(t, fsys, 500), newMaker(1, 3)
	for range 10 {
		mustAppend(t, s, 1, m.call(30))
	}
	if err := fsys.MkdirAll("data/segments/0000000000000002", 0o755); err != nil {
		t.Fatal(err)
	}
	putFile(t, fsys, "data/segments/0000000000000002/00000001.seg", readFile(t, fsys, dir1+"00000001.seg"))
	hs, err := headersOf(s.View(1).Headers(0, maxMicros))
	if err != nil {
		t.Fatal(err)
	}
	read := func(q stages.QueueID, h stages.Header) error {
		list := Pick(q, []stages.Header{h})
		return s.Bodies(t.Context(), &list, list.Appends, func(int, stages.Body) error { return nil })
	}
	for name, change := range map[string]func(h *stages.Header){
		"partition": func(h *stages.Header) { h.Partition++ },
		"stamp":     func(h *stages.Header) { h.TS++ },
		"base":      func(h *stages.Header) { h.Base++ },
		"count":     func(h *stages.Header) { h.Count++ },
		"weight":    func(h *stages.Header) { h.Weight++ },
		"flags":     func(h *stages.Header) { h.Flags ^= 1 },
		"place":     func(h *stages.Header) { h.Ref.Off++ },
		"length":    func(h *stages.Header) { h.Ref.Len-- },
		"segment":   func(h *stages.Header) { h.Ref.Seg = 99 },
	} {
		h := hs[2]
		change(&h)
		if err := read(1, h); !errors.Is(err, stages.ErrDamaged) || !strings.Contains(err.Error(), ".seg at byte") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := read(2, hs[0]); !errors.Is(err, stages.ErrDamaged) {
		t.Errorf("queue: %v", err)
	}
	h := hs[2]
	h.Ref.Gen++
	if err := read(1, h); !errors.Is(err, stages.ErrStaleRef) {
		t.Errorf("generation: %v", err)
	}
	list := Pick(1, hs)
	list.Parts[list.Appends[2].Part].ID++ // a sum that fits by chance does not make another partition's frame this one's
	if err := s.Bodies(t.Context(), &list, list.Appends[2:3], func(int, stages.Body) error { return nil }); !errors.Is(err, stages.ErrDamaged) {
		t.Errorf("another partition in the table: %v", err)
	}
	list = Pick(1, hs)
	stop := errors.New("stop")
	if err := s.Bodies(t.Context(), &list, list.Appends, func(i int, _ stages.Body) error { return stop }); err != stop {
		t.Errorf("the receiver's error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Bodies(ctx, &list, list.Appends, func(int, stages.Body) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A body with other than Count records has right checksums and is refused all the same, whether its records are read, or some, or none.
func TestBodyCount(t *testing.T) {
	for _, more := range []int32{1, -1} {
		s, m := open(t, vfs.NewMem(), 0), newMaker(1, 3)
		f := m.frame(5)
		for f.Count != 3 {
			f = m.frame(5)
		}
		f.Count += more
		mustAppend(t, s, 1, []Frame{f})
		hs, _ := headersOf(s.View(1).Headers(0, maxMicros))
		list := Pick(1, hs)
		for _, limit := range []int{0, 1, 10} {
			n := 0
			err := s.Bodies(t.Context(), &list, list.Appends, func(_ int, b stages.Body) error {
				for _, err := range b.Records() {
					if n == limit {
						break
					}
					if err != nil {
						return err
					}
					n++
				}
				return nil
			})
			if !errors.Is(err, stages.ErrDamaged) || !strings.Contains(err.Error(), "00000001.seg at byte 32") || n > int(f.Count) {
				t.Errorf("%+d, %d records read: %d, %v", more, limit, n, err)
			}
		}
	}
}

// failing is a disk that fails every operation of one kind on one file name.
type failing struct {
	kind errorfs.OpKind
	name string
	on   bool
}

func (*failing) String() string { return "failing" }

func (f *failing) MaybeError(op errorfs.Op) error {
	if f.on && op.Kind == f.kind && strings.HasSuffix(op.Path, f.name) {
		return errors.New("disk says no")
	}
	return nil
}

// After one failed write or fsync nothing more is taken, and no Sync says that all is well.
func TestFailureIsForEver(t *testing.T) {
	for _, c := range []struct {
		kind errorfs.OpKind
		name string
		sync bool
	}{
		{errorfs.OpFileWriteAt, "00000001.seg", false},
		{errorfs.OpCreate, ".idx.tmp", false},
		{errorfs.OpFileWrite, ".idx.tmp", false},
		{errorfs.OpFileSync, ".idx.tmp", false},
		{errorfs.OpRename, ".idx.tmp", false},
		{errorfs.OpFileSync, "00000001.seg", true},
		{errorfs.OpOpenDir, "0000000000000001", true},
	} {
		disk := &failing{kind: c.kind, name: c.name}
		s, m := open(t, errorfs.Wrap(vfs.NewMem(), disk), 300), newMaker(1, 2)
		mustAppend(t, s, 1, []Frame{m.frame(5)})
		disk.on = true
		var err error
		for range 10 {
			if c.sync {
				err = s.Sync()
			} else {
				_, _, err = s.Append(1, m.call(40))
			}
			if err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), "disk says no") {
			t.Errorf("%v %s: %v", c.kind, c.name, err)
		}
		disk.on = false
		if _, _, err := s.Append(1, m.call(5)); err == nil {
			t.Errorf("%v %s: append goes on", c.kind, c.name)
		}
		if err := s.Sync(); err == nil {
			t.Errorf("%v %s: sync goes on", c.kind, c.name)
		}
	}
}

// More queues than append files may be open: the oldest are synced and closed, and appended to again.
func TestManyQueues(t *testing.T) {
	fsys := vfs.NewMem()
	s, m := open(t, fsys, 0), newMaker(1, 3)
	const queues = maxAppendFiles + 100
	want := make(map[stages.QueueID][]Frame)
	for range 3 {
		for q := stages.QueueID(1); q <= queues; q++ {
			fs := m.call(5)
			want[q] = append(want[q], fs...)
			mustAppend(t, s, q, fs)
		}
	}
	if n := len(s.files); n > maxAppendFiles {
		t.Errorf("%d append files are open", n)
	}
	for q, fs := range want {
		mustRead(t, s, q, fs)
	}
	if n := len(s.handles.open); n > maxHandles {
		t.Errorf("%d files are open for reading", n)
	}
	mustSync(t, s)
	for f := range s.files {
		if f.dirty {
			t.Error("dirty after Sync:", f.path)
		}
	}
}

// Sealed segments leave the list of append files once they are durable.
func TestSyncClosesSealed(t *testing.T) {
	s, m := open(t, vfs.NewMem(), 1), newMaker(1, 3)
	for range 20 {
		mustAppend(t, s, 1, m.call(5))
	}
	mustSync(t, s)
	if len(s.files) != 0 {
		t.Errorf("%d append files are left", len(s.files))
	}
}

func TestForget(t *testing.T) {
	fsys := vfs.NewMem()
	s, m := open(t, fsys, 0), newMaker(1, 3)
	mustAppend(t, s, 1, m.call(5))
	kept := []Frame{m.frame(5)}
	tail := mustAppend(t, s, 2, kept)
	if err := fsys.MkdirAll("data/segments/not ours", 0o755); err != nil {
		t.Fatal(err)
	}
	s = open(t, fsys, 0)
	if ids, err := s.Queues(); err != nil || !slices.Equal(ids, []stages.QueueID{1, 2}) {
		t.Fatal(ids, err)
	}
	if err := s.attach(2, tail); err != nil {
		t.Fatal(err)
	}
	names, err := fsys.List("data/segments")
	slices.Sort(names)
	if err != nil || !slices.Equal(names, []string{"0000000000000002", "not ours"}) {
		t.Error(names, err)
	}
	mustAppend(t, s, 1, m.call(5)) // the queue is made again
	mustRead(t, s, 2, kept)
	if _, _, err := open(t, fsys, 0).Append(2, m.call(5)); err == nil {
		t.Error("appended to a file that was not attached")
	}
}

func TestClose(t *testing.T) {
	s, m := open(t, vfs.NewMem(), 0), newMaker(1, 3)
	mustAppend(t, s, 1, m.call(5))
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Append(1, m.call(5)); err == nil {
		t.Error("append after close")
	}
	if err := s.Sync(); err == nil {
		t.Error("sync after close")
	}
	if _, err := Open(Options{FS: vfs.NewMem()}); err == nil {
		t.Error("no folder is taken")
	}
	if _, err := vfs.NewMem().Stat("x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("this vfs does not tell a missing file:", err)
	}
}
