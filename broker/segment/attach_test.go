package segment

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/stages"
)

func readFile(t testing.TB, fsys vfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

// putFile writes a file over what is there, durably.
func putFile(t testing.TB, fsys vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(slices.Clone(b))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

const dir1 = "data/segments/0000000000000001/"

// The file ends at every byte of the last frame, as a torn write leaves it: to the tail before it Attach cuts, to the tail behind
// it Attach says what is missing.
func TestTornTail(t *testing.T) {
	fsys := vfs.NewMem()
	s, m := open(t, fsys, 0), newMaker(1, 3)
	var want []Frame
	var tail Tail
	for range 5 {
		fs := m.call(10)
		want = append(want, fs...)
		tail = mustAppend(t, s, 1, fs)
	}
	next := []Frame{m.frame(30)}
	full := mustAppend(t, s, 1, next)
	whole := readFile(t, fsys, dir1+"00000001.seg")
	if int64(len(whole)) != full.Len {
		t.Fatalf("%d bytes, tail %v", len(whole), full)
	}
	for n := tail.Len; n < full.Len; n++ {
		fsys := vfs.NewMem()
		s := open(t, fsys, 0)
		if err := fsys.MkdirAll(dir1, 0o755); err != nil {
			t.Fatal(err)
		}
		putFile(t, fsys, dir1+"00000001.seg", whole[:n])
		err := s.attach(1, full)
		var short *ShortError
		if !errors.As(err, &short) || !errors.Is(err, ErrShort) || short.Wanted != full.Len || short.Found != n ||
			!strings.Contains(short.File, "00000001.seg") {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if err := s.attach(1, tail); err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if got := readFile(t, fsys, dir1+"00000001.seg"); int64(len(got)) != tail.Len {
			t.Fatalf("cut at %d: the file has %d bytes, want %d", n, len(got), tail.Len)
		}
		mustRead(t, s, 1, want)
		if got := mustAppend(t, s, 1, next); got != full {
			t.Fatalf("tail %v, want %v", got, full)
		}
		mustRead(t, s, 1, append(slices.Clone(want), next...))
		if got := readFile(t, fsys, dir1+"00000001.seg"); !slices.Equal(got, whole) {
			t.Fatalf("cut at %d: the file differs after the append was applied again", n)
		}
	}
}

// Attach to every tail there ever was, on memory and on the file system of this machine: files are cut, higher segments go.
func TestAttachToEveryTail(t *testing.T) {
	for _, kind := range []string{"memory", "disk"} {
		t.Run(kind, func(t *testing.T) {
			fresh := func() (vfs.FS, string) {
				if kind == "disk" {
					return vfs.Default, filepath.Join(t.TempDir(), "segments")
				}
				return vfs.NewMem(), "/segments"
			}
			type step struct {
				frames []Frame
				tail   Tail
			}
			steps := []step{{}}
			build := func(fsys vfs.FS, dir string) {
				m := newMaker(1, 3)
				s, err := Open(Options{FS: fsys, Dir: dir, SealBytes: 900})
				if err != nil {
					t.Fatal(err)
				}
				steps = steps[:1]
				var all []Frame
				for range 14 {
					all = append(all, m.call(40)...)
					last := steps[len(steps)-1]
					tail := mustAppend(t, s, 1, all[len(last.frames):])
					steps = append(steps, step{slices.Clip(all), tail})
				}
				mustSync(t, s)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			build(fresh())
			if last := steps[len(steps)-1].tail; last.Seg < 3 {
				t.Fatalf("tail %v: too few segments", last)
			}
			for _, st := range steps {
				fsys, dir := fresh()
				build(fsys, dir)
				putFile(t, fsys, fsys.PathJoin(dir, "0000000000000001", "00000002.seg.tmp"), []byte("rest"))
				checkAttach(t, fsys, dir, st.tail, st.frames, steps[len(steps)-1].frames)
			}
		})
	}
}

func checkAttach(t *testing.T, fsys vfs.FS, dir string, tail Tail, want, all []Frame) {
	t.Helper()
	s, err := Open(Options{FS: fsys, Dir: dir, SealBytes: 900})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.attach(1, tail); err != nil {
		t.Fatalf("%v: %v", tail, err)
	}
	mustRead(t, s, 1, want)
	names, err := fsys.List(fsys.PathJoin(dir, "0000000000000001"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		seg, ext, ok := parseName(name)
		sealedHere := seg < tail.Seg || seg == tail.Seg && tail.Len >= 900
		if !ok || seg > tail.Seg || ext == indexExt && !sealedHere || ext != indexExt && ext != segmentExt {
			t.Errorf("%v: %s is left", tail, name)
		}
	}
	if rest := all[len(want):]; len(rest) > 0 {
		mustAppend(t, s, 1, rest)
	}
	mustRead(t, s, 1, all)
	mustSync(t, s)
	if err := s.attach(1, tail); err == nil {
		t.Error("attached twice")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAttachNamesWhatIsMissing(t *testing.T) {
	fsys := vfs.NewMem()
	s, m := open(t, fsys, 600), newMaker(1, 3)
	var tail Tail
	for range 12 {
		tail = mustAppend(t, s, 1, m.call(40))
	}
	if tail.Seg < 3 {
		t.Fatal(tail)
	}
	attach := func() error { return open(t, fsys, 600).attach(1, tail) }
	whole := readFile(t, fsys, dir1+"00000001.seg")
	putFile(t, fsys, dir1+"00000001.seg", whole[:len(whole)-1])
	var short *ShortError
	if err := attach(); !errors.As(err, &short) || short.Wanted != int64(len(whole)) || short.Found != short.Wanted-1 ||
		!strings.HasSuffix(short.File, "00000001.seg") {
		t.Errorf("a sealed segment is shorter than its index says: %v", err)
	}
	if err := fsys.Remove(dir1 + "00000001.idx"); err != nil {
		t.Fatal(err)
	}
	if err := attach(); !errors.Is(err, ErrShort) {
		t.Errorf("a sealed segment ends in a frame, no index: %v", err)
	}
	putFile(t, fsys, dir1+"00000001.seg", append(slices.Clone(whole), 1))
	if err := attach(); !errors.Is(err, ErrShort) && !errors.Is(err, stages.ErrDamaged) {
		t.Errorf("a sealed segment has bytes behind its last frame: %v", err)
	}
	if err := fsys.Remove(dir1 + "00000001.seg"); err != nil {
		t.Fatal(err)
	}
	if err := attach(); !errors.As(err, &short) || short.Found != 0 || !strings.HasSuffix(short.File, "00000001.seg") {
		t.Errorf("a sealed segment is missing: %v", err)
	}
	putFile(t, fsys, dir1+"00000001.seg", whole)
	if err := attach(); err != nil {
		t.Errorf("all is there again, the index is rebuilt: %v", err)
	}
	if err := open(t, fsys, 600).attach(7, Tail{Seg: 1, Len: 200}); !errors.Is(err, ErrShort) {
		t.Errorf("no folder: %v", err)
	}
	if tail.Len < 600 {
		bad := tail
		bad.Len--
		err := open(t, fsys, 600).attach(1, bad)
		if !errors.Is(err, stages.ErrDamaged) {
			t.Errorf("a tail inside a frame: %v", err)
		}
		if got := readFile(t, fsys, dir1+segmentName(tail.Seg)); int64(len(got)) != tail.Len {
			t.Errorf("a refused Attach cut the file to %d", len(got))
		}
	}
}

// An index that is from another life of the segment (same name, other frames) is not believed.
func TestStaleIndexIsRebuilt(t *testing.T) {
	a, b := vfs.NewMem(), vfs.NewMem()
	sa, ma := open(t, a, 600), newMaker(1, 3)
	sb, mb := open(t, b, 600), newMaker(2, 3)
	var want []Frame
	for {
		fs := ma.call(40)
		want = append(want, fs...)
		if mustAppend(t, sa, 1, fs).Len >= 600 {
			break
		}
	}
	for mustAppend(t, sb, 1, mb.call(40)).Len < 600 {
	}
	putFile(t, a, dir1+"00000001.idx", readFile(t, b, dir1+"00000001.idx"))
	s := open(t, a, 600)
	if err := s.attach(1, sa.View(1).Tail()); err != nil {
		t.Fatal(err)
	}
	mustRead(t, s, 1, want)
}

// Attach alone changes nothing: whether the log holds what lies behind the tails is asked between Attach and Settle. What goes
// then is the temporary file, the lost index comes back, the file behind the tail is cut, and the queue nobody knows is gone.
func TestAttachChangesNothing(t *testing.T) {
	fsys := vfs.NewMem()
	s, m := open(t, fsys, 600), newMaker(1, 3)
	var want []Frame
	var tail Tail
	for tail.Seg < 3 || tail.Len >= 600 {
		fs := m.call(40)
		tail = mustAppend(t, s, 1, fs)
		want = append(want, fs...)
	}
	mustAppend(t, s, 1, m.call(40))
	mustAppend(t, s, 7, m.call(40))
	if err := fsys.Remove(dir1 + "00000002.idx"); err != nil {
		t.Fatal(err)
	}
	putFile(t, fsys, dir1+"00000001.idx.tmp", []byte("rest"))
	before := fsys.String()
	s = open(t, fsys, 600)
	if err := s.Attach(1, tail, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.Last(1); got != want[len(want)-1].TS {
		t.Errorf("last stamp %d", got)
	}
	if after := fsys.String(); after != before {
		t.Errorf("Attach changed the disk from\n%s\nto\n%s", before, after)
	}
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	mustRead(t, s, 1, want)
	names, err := fsys.List(dir1)
	slices.Sort(names)
	var wanted []string
	for seg := uint32(1); seg < tail.Seg; seg++ {
		wanted = append(wanted, indexName(seg), segmentName(seg))
	}
	if wanted = append(wanted, segmentName(tail.Seg)); err != nil || !slices.Equal(names, wanted) {
		t.Errorf("left %v %v", names, err)
	}
	if ids, err := s.Queues(); err != nil || len(ids) != 1 {
		t.Errorf("queues %v %v", ids, err)
	}
}
