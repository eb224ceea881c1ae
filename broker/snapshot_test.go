package broker

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// snapLife is a node on the disk that was pushed to, took a snapshot, was pushed to again, and was closed.
type snapLife struct {
	folder
	index uint64 // of the snapshot
	old   string // copy of state/ from before the snapshot
}

// path returns a path in the folder.
func (l snapLife) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

// snap returns a path in its snapshot.
func (l snapLife) snap(parts ...string) string {
	return l.path(append([]string{snapshotsDir, fmt.Sprintf("%016x", l.index)}, parts...)...)
}

func pushSome(t *testing.T, b *Broker, want expected, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		a := acked{queue: fmt.Sprint("q", n%damageQueues), partition: fmt.Sprint("p", n/damageQueues%5), first: uint64(n) * 1000, count: damageCount}
		r, err := push(t.Context(), b, a.queue, a.partition, a.first, a.count, 10)
		if err != nil {
			t.Fatal(err)
		}
		a.stamp, a.base = r.Stamp, r.Appends[0].Base
		want.pushes[a.first] = a
	}
}

func buildSnapLife(t *testing.T) snapLife {
	t.Helper()
	l := snapLife{folder: folder{filepath.Join(t.TempDir(), "data"), expected{pushes: make(map[uint64]acked)}}}
	l.old = filepath.Join(t.TempDir(), "state")
	b := start(t, damageOptions(l.dir, zerolog.Nop(), func(err error) { t.Error("fatal:", err) }))
	pushSome(t, b, l.want, 0, 40)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(l.old, os.DirFS(l.path(stateDir))); err != nil {
		t.Fatal(err)
	}
	b = start(t, damageOptions(l.dir, zerolog.Nop(), func(err error) { t.Error("fatal:", err) }))
	pushSome(t, b, l.want, 40, 120)
	if err := b.snapshot(); err != nil {
		t.Fatal(err)
	}
	l.index = b.snaps.newest.Applied
	if first := b.Status().FirstLog; first != l.index {
		t.Fatalf("the log begins at entry %d, the snapshot stands at %d", first, l.index)
	}
	pushSome(t, b, l.want, 120, 160)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return l
}

// reopen opens the folder as it is, reads all records back, and takes a snapshot; with last it also pushes everything again. It
// returns the log's lines.
func (l snapLife) reopen(t *testing.T, last bool) (string, error) {
	t.Helper()
	var lines lockedBuffer
	var fatal firstError
	b, err := New(damageOptions(l.dir, zerolog.New(&lines), fatal.set))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Open(t.Context()); err != nil {
		return lines.String(), err
	}
	for _, unfinished := range []string{"new", "trial"} {
		if _, err := os.Stat(l.path(snapshotsDir, unfinished)); err == nil {
			t.Errorf("snapshots/%s is still there", unfinished)
		}
	}
	err = readRecords(t.Context(), b, l.want.pushes)
	if last {
		err = errors.Join(err, pushAgain(t.Context(), b, l.want.pushes))
	}
	if took := b.snapshot(); took != nil {
		t.Error(took)
	}
	if _, err := os.Stat(l.path(restoreFile)); err == nil {
		t.Error("RESTORE is still there")
	}
	if names, _ := os.ReadDir(l.path(snapshotsDir)); len(names) != 1 {
		t.Errorf("snapshots/ holds %v", names)
	}
	if err := errors.Join(err, b.Close(), fatal.get()); err != nil {
		t.Fatal(err)
	}
	return lines.String(), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotTakesThePlaceOfTheLog: after a snapshot the log begins where it stands, and the folder opens as before; one whose state or
// segments are lost or old is put right from the snapshot and the rest of the log.
func TestSnapshotTakesThePlaceOfTheLog(t *testing.T) {
	damages := map[string]struct {
		do       func(t *testing.T, l snapLife)
		replaced bool
	}{
		"nothing":     {func(*testing.T, snapLife) {}, false},
		"no state":    {func(t *testing.T, l snapLife) { must(t, os.RemoveAll(l.path(stateDir))) }, true},
		"no segments": {func(t *testing.T, l snapLife) { must(t, os.RemoveAll(l.path(segmentsDir))) }, true},
		"neither": {func(t *testing.T, l snapLife) {
			must(t, os.RemoveAll(l.path(stateDir)))
			must(t, os.RemoveAll(l.path(segmentsDir)))
		}, true},
		"no segment":      {func(t *testing.T, l snapLife) { must(t, os.Remove(l.segment(t, 0))) }, true},
		"a short segment": {func(t *testing.T, l snapLife) { must(t, os.Truncate(l.segment(t, -1), l.lengthInSnapshot(t)+1)) }, true},
		"an old state": {func(t *testing.T, l snapLife) {
			must(t, os.RemoveAll(l.path(stateDir)))
			must(t, os.CopyFS(l.path(stateDir), os.DirFS(l.old)))
		}, true},
		"a restore that had begun": {func(t *testing.T, l snapLife) {
			must(t, os.WriteFile(l.path(restoreFile), fmt.Appendf(nil, "%016x\n", l.index), 0o600))
			must(t, os.RemoveAll(l.path(segmentsDir, "FORMAT")))
		}, true},
		"unfinished work": {func(t *testing.T, l snapLife) {
			must(t, os.MkdirAll(l.path(snapshotsDir, "new", "state"), 0o700))
			must(t, os.MkdirAll(l.path(snapshotsDir, "trial", "state"), 0o700))
		}, false},
	}
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		t.Run(name, func(t *testing.T) {
			l := buildSnapLife(t)
			damages[name].do(t, l)
			lines, err := l.reopen(t, false)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(lines, "are replaced from a snapshot"); got != damages[name].replaced {
				t.Errorf("replaced %v, want %v", got, damages[name].replaced)
			}
			if lines, err := l.reopen(t, true); err != nil || strings.Contains(lines, "replaced") {
				t.Errorf("the start after it: %v, %s", err, lines)
			}
		})
	}
}

// segment returns a live segment of the first queue.
func (l snapLife) segment(t *testing.T, i int) string {
	t.Helper()
	names, err := filepath.Glob(l.path(segmentsDir, "0000000000000001", "*.seg"))
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	return names[(i+len(names))%len(names)]
}

// lengthInSnapshot returns what the snapshot has of the live segment that is newest.
func (l snapLife) lengthInSnapshot(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(l.snap("SNAPSHOT"))
	must(t, err)
	length := int64(0)
	for line := range strings.SplitSeq(string(text), "\n") {
		var n int64
		var word, name string
		if _, err := fmt.Sscanf(line, "file %d %s %s", &n, &word, &name); err == nil && strings.HasSuffix(name, "0000000000000001-"+filepath.Base(l.segment(t, -1))) {
			length = n
		}
	}
	return length
}

// TestBrokenSnapshot: a snapshot that does not check out is named. While state and log are whole the node starts and takes another;
// when it is needed the node does not start, says which file is at fault, and has changed nothing.
func TestBrokenSnapshot(t *testing.T) {
	damages := map[string]func(t *testing.T, l snapLife) (file string){
		"cut list": func(t *testing.T, l snapLife) string {
			info, err := os.Stat(l.snap("SNAPSHOT"))
			must(t, err)
			must(t, os.Truncate(l.snap("SNAPSHOT"), info.Size()-20))
			return "SNAPSHOT"
		},
		"no list": func(t *testing.T, l snapLife) string { must(t, os.Remove(l.snap("SNAPSHOT"))); return "SNAPSHOT" },
		"another's list": func(t *testing.T, l snapLife) string {
			must(t, os.Rename(l.snap(), l.path(snapshotsDir, "00000000000fffff")))
			return "SNAPSHOT"
		},
		"no segment": func(t *testing.T, l snapLife) string {
			name := "0000000000000001-00000001.seg"
			must(t, os.Remove(l.snap(segmentsDir, name)))
			return name
		},
		"a short segment": func(t *testing.T, l snapLife) string {
			name := "0000000000000002-00000001.seg"
			text, err := os.ReadFile(l.snap(segmentsDir, name))
			must(t, err)
			must(t, os.Remove(l.snap(segmentsDir, name))) // not the live one, which is the same file
			must(t, os.WriteFile(l.snap(segmentsDir, name), text[:len(text)-1], 0o600))
			return name
		},
		"no table": func(t *testing.T, l snapLife) string {
			names, err := filepath.Glob(l.snap(stateDir, "*.sst"))
			must(t, err)
			must(t, os.Remove(names[0]))
			return filepath.Base(names[0])
		},
		"changed manifest of pebble": func(t *testing.T, l snapLife) string {
			names, err := filepath.Glob(l.snap(stateDir, "MANIFEST*"))
			must(t, err)
			text, err := os.ReadFile(names[0])
			must(t, err)
			text[len(text)/2] ^= 4
			must(t, os.WriteFile(names[0], text, 0o600))
			return filepath.Base(names[0])
		},
	}
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		t.Run(name, func(t *testing.T) {
			l := buildSnapLife(t)
			file := damages[name](t, l)
			aside := filepath.Join(t.TempDir(), "state")
			must(t, os.Rename(l.path(stateDir), aside)) // it is needed
			before := listing(t, l.dir)
			_, err := l.reopen(t, false)
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "restore the folder from a copy") {
				t.Errorf("opened, or not refused with one line that names %s: %v", file, err)
			}
			if after := listing(t, l.dir); after != before {
				t.Errorf("the refusal changed the folder from\n%s\nto\n%s", before, after)
			}
			must(t, os.Rename(aside, l.path(stateDir))) // it is not needed
			lines, err := l.reopen(t, false)
			if err != nil || !strings.Contains(lines, "a snapshot is broken and is not used") || !strings.Contains(lines, file) {
				t.Errorf("%v, log: %s", err, lines)
			}
			if lines, err = l.reopen(t, true); err != nil || strings.Contains(lines, "broken") {
				t.Errorf("after another was taken: %v, %s", err, lines)
			}
		})
	}
}

// TestTrial: what the list of files cannot tell is found before anything is changed.
func TestTrial(t *testing.T) {
	l := buildSnapLife(t)
	names, err := filepath.Glob(l.snap(stateDir, "*.sst"))
	must(t, err)
	for _, name := range names {
		info, err := os.Stat(name)
		must(t, err)
		must(t, os.Remove(name)) // not the live one, which is the same file
		must(t, os.WriteFile(name, make([]byte, info.Size()), 0o600))
	}
	must(t, os.RemoveAll(l.path(stateDir)))
	must(t, os.CopyFS(l.path(stateDir), os.DirFS(l.old)))
	before := listing(t, l.dir)
	if _, err := l.reopen(t, false); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), ".sst") || !strings.Contains(err.Error(), l.snap()) {
		t.Errorf("opened, or not refused with one line that names table and snapshot: %v", err)
	}
	if after := listing(t, l.dir); after != before {
		t.Errorf("the refusal changed the folder from\n%s\nto\n%s", before, after)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			info, err := e.Info()
			must(t, err)
			fmt.Fprintln(&b, path, info.Size())
		}
		return err
	}))
	return b.String()
}

// TestOldFolder: a folder with its whole log, as an earlier build left it, opens; FORMAT says that the log is cut from the moment
// before it is, so that such a build refuses it.
func TestOldFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	fatal := func(err error) { t.Error("fatal:", err) }
	b := start(t, damageOptions(dir, zerolog.Nop(), fatal))
	want := expected{pushes: make(map[uint64]acked)}
	pushSome(t, b, want, 0, 20)
	formats := func() (all string) {
		for _, part := range []string{"", raftDir, segmentsDir} {
			text, err := os.ReadFile(filepath.Join(dir, part, formatFile))
			must(t, err)
			line, _, _ := strings.Cut(string(text), "\n")
			all += line + ";"
		}
		return all
	}
	if got := formats(); got != strings.Repeat(formatWhole+";", 3) {
		t.Errorf("a new folder: %s", got)
	}
	must(t, b.Close())
	must(t, os.RemoveAll(filepath.Join(dir, snapshotsDir)))
	b = start(t, damageOptions(dir, zerolog.Nop(), fatal))
	must(t, b.snapshot())
	if got := formats(); got != strings.Repeat(formatCut+";", 3) {
		t.Errorf("a cut log: %s", got)
	}
	must(t, readBack(t.Context(), b, want))
	must(t, b.Close())
}

// TestSnapshotsBoundTheLog: bytes of the log decide when the flush loop takes one, also bytes from before a restart, and full files go.
func TestSnapshotsBoundTheLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	o := damageOptions(dir, zerolog.Nop(), func(err error) { t.Error("fatal:", err) })
	o.SnapshotBytes = 4 * damageWALFile
	b := start(t, o)
	want := expected{pushes: make(map[uint64]acked)}
	for n := 0; b.Node().LogBytes() < o.SnapshotBytes; n++ {
		if due, err := b.snapshotDue(true); due || err != nil {
			t.Fatalf("due %v, %v, with %d bytes", due, err, b.Node().LogBytes())
		}
		pushSome(t, b, want, n, n+1)
	}
	must(t, b.Close())
	b = start(t, o)
	if due, err := b.snapshotDue(true); !due || err != nil {
		t.Fatalf("after a restart: due %v, %v, with %d bytes", due, err, b.Node().LogBytes())
	}
	b.trySnapshot(true)
	if left := b.Node().LogBytes(); left > damageWALFile {
		t.Errorf("%d bytes of the log are left", left)
	}
	if names, err := filepath.Glob(filepath.Join(dir, raftDir, "*.wal")); err != nil || len(names) > 2 {
		t.Errorf("files of the log: %v, %v", names, err)
	}
	must(t, readBack(t.Context(), b, want))
	must(t, b.Close())
}

// TestNoHardLinks: on a file system without them nothing is copied: no snapshot is taken, the log stays whole, and the node goes on.
func TestNoHardLinks(t *testing.T) {
	c := newCuts(1)
	c.on = false
	b := start(t, onMemory(noLinks{c.disk}, c.wal, func(err error) { t.Error("fatal:", err) }))
	mustPush(t, b, "q", "p", 0, 5)
	if err := b.snapshot(); err == nil || !strings.Contains(err.Error(), "no hard links") {
		t.Errorf("%v", err)
	}
	if first := b.Status().FirstLog; first != 1 {
		t.Errorf("the log begins at entry %d", first)
	}
	b.snaps.wanted = true
	b.trySnapshot(true)
	if due, err := b.snapshotDue(true); due || err != nil {
		t.Errorf("tried again at once: %v, %v", due, err)
	}
	mustPush(t, b, "q", "p", 100, 5)
}
