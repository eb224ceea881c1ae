package raftnode

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
	"github.com/rs/zerolog"
)

// setMark makes the mark of a folder say that nothing above index was acknowledged, as an older one does after a power loss.
func setMark(t *testing.T, dir string, index uint64) {
	t.Helper()
	text := make([]byte, markSlots*markSpacing)
	for i := range markSlots {
		copy(text[i*markSpacing:], encodeMark(index))
	}
	if err := os.WriteFile(filepath.Join(dir, markFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// content is every file of a folder.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// mustRefuse opens a folder and finds all words in the error, which is one line, and the files as they were.
func mustRefuse(t *testing.T, dir string, words ...string) {
	t.Helper()
	before := content(t, dir)
	s, err := reopen(dir)
	if err == nil {
		t.Fatal("opened", s.Close())
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("refused with %q, which does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
	after := content(t, dir)
	if len(after) != len(before) {
		t.Errorf("the refusal left %d files of %d", len(after), len(before))
	}
	for name, text := range before {
		if after[name] != text {
			t.Errorf("the refusal changed %s", name)
		}
	}
}

func TestTheMarkFollowsTheLog(t *testing.T) {
	dir := t.TempDir()
	s, err := reopen(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= 30; i++ {
		if err := s.StoreLog(walEntry(i)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, markFile)) // not closed, not synced: as a kill leaves it
		if err != nil {
			t.Fatal(err)
		}
		var got [markSlots]uint64
		for k := range got {
			if got[k], err = decodeMark(text[k*markSpacing:][:markLen]); err != nil {
				t.Fatal(err)
			}
		}
		if max(got[0], got[1]) != i || min(got[0], got[1]) != i-1 {
			t.Fatalf("after entry %d the records say %v", i, got)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkLog(t, dir, 30)
}

// Every bit of the last batch: an end that was acknowledged is refused, or right.
func TestEveryBitOfTheLastBatch(t *testing.T) {
	dir := t.TempDir()
	name := fullLog(t, dir, 3)
	from, to := wholeEnd(t, fullLog(t, t.TempDir(), 2)), wholeEnd(t, name)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for at := from; at < to; at++ {
		if at > from+40 && at < to-40 && at%16 != 0 {
			continue // data
		}
		bad := bytes.Clone(whole)
		bad[at] ^= 1 << (at % 8)
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := reopen(dir)
		if err != nil {
			if !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "ends with entry 2 but entry 3 was acknowledged") {
				t.Fatalf("byte %d: %v", at, err)
			}
			refused++
			continue
		}
		var e raft.Log
		if err := s.GetLog(3, &e); err != nil || !bytes.Equal(e.Data, walEntry(3).Data) {
			t.Fatalf("byte %d is neither refused nor right: %v", at, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if refused < 50 {
		t.Errorf("only %d places refused", refused)
	}
}

func TestLostFilesAreRefused(t *testing.T) {
	for _, lost := range []string{markFile, metaName, "*.wal"} {
		t.Run(lost, func(t *testing.T) {
			dir := t.TempDir()
			fullLog(t, dir, 3)
			names, err := filepath.Glob(filepath.Join(dir, lost))
			if err != nil || len(names) != 1 {
				t.Fatal(names, err)
			}
			if err := os.Remove(names[0]); err != nil {
				t.Fatal(err)
			}
			mustRefuse(t, dir, names[0], " missing")
		})
	}
}

func TestHeadOfAFullFile(t *testing.T) {
	dir := t.TempDir()
	fullLog(t, dir, filling)
	checkLog(t, dir, filling) // begins the next files
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	for at := range int64(walHeader) {
		flip(t, names[0], at)
		mustRefuse(t, dir, names[0], "its header is not the one it was made with")
		flip(t, names[0], at)
	}
}

func TestDamagedMark(t *testing.T) {
	dir := t.TempDir()
	fullLog(t, dir, 3)
	name := filepath.Join(dir, markFile)
	for slot := range int64(markSlots) {
		for at := range int64(markLen) {
			flip(t, name, slot*markSpacing+at)
			var lines bytes.Buffer
			s, err := OpenWAL(dir, fs.New(), &metaFile{fs: vfs.Default}, smallFile, zerolog.New(&lines))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(lines.String(), name) || !strings.Contains(lines.String(), "is damaged") {
				t.Fatalf("slot %d, byte %d: not named in %q", slot, at, lines.String())
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for k := range markSlots {
				if _, err := decodeMark(text[k*markSpacing:][:markLen]); err != nil {
					t.Fatalf("slot %d was not mended: %v", k, err)
				}
			}
		}
	}
	flip(t, name, 9)
	flip(t, name, markSpacing+9)
	mustRefuse(t, dir, name, "slot 0", "2 damaged", "restore the folder from a copy")
	checkLog(t, func() string { d := t.TempDir(); fullLog(t, d, 3); return d }(), 3)
}

// A power loss while the folder is made leaves a mark without records beside an empty log: that is a beginning, not damage.
func TestBlankMarkOfAnEmptyLog(t *testing.T) {
	for _, size := range []int{0, markSlots * markSpacing} {
		dir := t.TempDir()
		fullLog(t, dir, 0)
		if err := os.WriteFile(filepath.Join(dir, markFile), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		checkLog(t, dir, 0)
	}
}

func TestAcknowledgedEntriesAreNotRemoved(t *testing.T) {
	s, err := reopen(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := uint64(1); i <= 5; i++ {
		if err := s.StoreLog(walEntry(i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range [][2]uint64{{5, 5}, {4, 9}, {1, 5}} {
		if err := s.DeleteRange(r[0], r[1]); err == nil || !strings.Contains(err.Error(), "entry 5 was acknowledged") {
			t.Errorf("entries %v: %v", r, err)
		}
	}
	if err := s.DeleteRange(1, 2); err != nil {
		t.Error(err)
	}
	if first, err := s.FirstIndex(); first != 3 || err != nil {
		t.Error(first, err)
	}
}

// noMark is a file system on which the mark cannot be written.
type noMark struct{ types.VFS }

func (n noMark) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := n.VFS.OpenWriter(dir, name)
	if err == nil && name == markFile {
		f = noWrite{f}
	}
	return f, err
}

type noWrite struct{ types.WritableFile }

func (noWrite) WriteAt([]byte, int64) (int, error) { return 0, syscall.ENOSPC }

// Entries that are stored but not noted are not answered, and are not tried again: they are in the log.
func TestAMarkThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	fullLog(t, dir, 1)
	s, err := OpenWAL(dir, noMark{fs.New()}, &metaFile{fs: vfs.Default}, smallFile, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StoreLog(walEntry(2)); err == nil || errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), markFile) {
		t.Errorf("stored with %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkLog(t, dir, 2)
}
