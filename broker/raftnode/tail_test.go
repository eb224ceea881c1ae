package raftnode

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
	"github.com/rs/zerolog"
)

const smallFile = 4 << 10 // so that a few entries fill it

// brokenOff is a file system on which no second file can be made: a file that is full stays the newest, as after a power loss
// before the next one was begun.
type brokenOff struct {
	types.VFS
	made int
}

func (b *brokenOff) Create(dir, name string, size uint64) (types.WritableFile, error) {
	if strings.HasSuffix(name, ".wal") {
		b.made++
	}
	if b.made > 1 && strings.HasSuffix(name, ".wal") {
		return nil, errors.New("power is off")
	}
	return b.VFS.Create(dir, name, size)
}

// deaf is a meta store that loses the state written when a file is full.
type deaf struct{ types.MetaStore }

func (d deaf) CommitState(s types.PersistentState) error {
	if len(s.Segments) > 1 {
		return errors.New("power is off")
	}
	return d.MetaStore.CommitState(s)
}

func walEntry(i uint64) *raft.Log {
	return &raft.Log{Index: i, Term: 1, Type: raft.LogCommand, Data: bytes.Repeat([]byte{byte(i)}, 500)}
}

// fullLog makes a folder whose log has one file: full, when n entries fill it, and not followed by another. It returns the file.
func fullLog(t *testing.T, dir string, n uint64) string {
	t.Helper()
	w, err := OpenWAL(dir, &brokenOff{VFS: fs.New()}, deaf{&metaFile{fs: vfs.Default}}, smallFile, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= n; i++ {
		if err := w.StoreLog(walEntry(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	return names[0]
}

func reopen(dir string) (Store, error) {
	return OpenWAL(dir, fs.New(), &metaFile{fs: vfs.Default}, smallFile, zerolog.Nop())
}

// checkLog finds entries 1..n in the log, appends more over a file boundary, and finds all of them after another opening.
func checkLog(t *testing.T, dir string, n uint64) {
	t.Helper()
	w, err := reopen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if last, _ := w.LastIndex(); last != n {
		t.Fatalf("the log ends at entry %d, want %d", last, n)
	}
	for i := n + 1; i <= n+20; i++ {
		if err := w.StoreLog(walEntry(i)); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w, err = reopen(dir); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := uint64(1); i <= n+20; i++ {
		var e raft.Log
		if err := w.GetLog(i, &e); err != nil || !bytes.Equal(e.Data, walEntry(i).Data) {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
}

// filling is the number of entries that fill a file: the batch of the last one ends with the index.
const filling = 8

func TestFilling(t *testing.T) {
	for n, full := range map[uint64]bool{filling - 1: false, filling: true} {
		f, err := os.Open(fullLog(t, t.TempDir(), n))
		if err != nil {
			t.Fatal(err)
		}
		tail, err := scanTail(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if tail.entries != n || (tail.indexStart > 0) != full {
			t.Errorf("a file of %d entries scans as %+v", n, tail)
		}
	}
}

func TestFullFileThatWasNotFollowed(t *testing.T) {
	dir := t.TempDir()
	fullLog(t, dir, filling)
	checkLog(t, dir, filling)
}

// The same bytes are a torn batch when nobody was told of it, and damage when its entry was acknowledged.
func TestTornBatchOfAFullFile(t *testing.T) {
	for _, where := range []string{"in the entry", "in the commit"} {
		t.Run(where, func(t *testing.T) {
			dir := t.TempDir()
			name := fullLog(t, dir, filling)
			end, before := wholeEnd(t, name), wholeEnd(t, fullLog(t, t.TempDir(), filling-1))
			damage := map[string]int64{"in the entry": before + 100, "in the commit": end - 2}[where]
			flip(t, name, damage)
			mustRefuse(t, dir, name, "ends with entry 7 but entry 8 was acknowledged")
			setMark(t, dir, filling-1)
			checkLog(t, dir, filling-1)
		})
	}
}

func TestRestOfATornBatchIsCleared(t *testing.T) {
	dir := t.TempDir()
	name := fullLog(t, dir, 3)
	end := wholeEnd(t, name)
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{frameIndex, 0, 0, 0, 4, 0, 0, 0, 9, 9, 9, 9, 0, 0, 0, 0}, end); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	checkLog(t, dir, 3)
}

func TestDamageBelowWholeBatchesIsNamed(t *testing.T) {
	dir := t.TempDir()
	name := fullLog(t, dir, 4)
	flip(t, name, wholeEnd(t, fullLog(t, t.TempDir(), 1))+100) // in entry 2
	_, err := reopen(dir)
	if err == nil || !errors.Is(err, types.ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Errorf("opened with %v", err)
	}
}

func TestEmptyAndNewLogs(t *testing.T) {
	dir := t.TempDir()
	fullLog(t, dir, 0)
	checkLog(t, dir, 0)
	checkLog(t, t.TempDir(), 0)
}

func wholeEnd(t *testing.T, name string) int64 {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	tail, err := scanTail(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return tail.end
}

func flip(t *testing.T, name string, at int64) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text[at] ^= 0x10
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whatever a file holds, scanning it ends, and what it calls whole lies inside it.
func FuzzScanTail(f *testing.F) {
	f.Add([]byte{})
	f.Add(append(make([]byte, walHeader), frameCommit, 0, 0, 0, 1, 2, 3, 4))
	f.Add(append(make([]byte, walHeader), frameEntry, 0, 0, 0, 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, file []byte) {
		tail, err := scanTail(bytes.NewReader(file))
		if err != nil && !errors.Is(err, types.ErrCorrupt) {
			t.Fatal(err)
		}
		if tail.end > int64(len(file)) || tail.end == 0 && tail.entries != 0 || int64(tail.indexStart) > tail.end {
			t.Fatal(fmt.Sprintf("%+v of %d bytes", tail, len(file)))
		}
	})
}

func TestLostLogIsRefused(t *testing.T) {
	s := newMemStore()
	if err := s.SetUint64([]byte(currentTerm), 1); err != nil { // power went between the two writes of the beginning
		t.Fatal(err)
	}
	n := open(t, &tape{}, on(s))
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	last, err := s.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteRange(1, last); err != nil {
		t.Fatal(err)
	}
	s.InmemStore = withTerm(t, s)
	if _, err := tryOpen(&tape{}, on(s)); err == nil || !strings.Contains(err.Error(), "the log is lost") {
		t.Errorf("an empty log in a later term: %v", err)
	}
}

// withTerm is a store with nothing but the term of another.
func withTerm(t *testing.T, of *memStore) *raft.InmemStore {
	t.Helper()
	term, err := of.GetUint64([]byte(currentTerm))
	if err != nil {
		t.Fatal(err)
	}
	s := raft.NewInmemStore()
	if err := s.SetUint64([]byte(currentTerm), term); err != nil {
		t.Fatal(err)
	}
	return s
}
