package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// Which cluster a part of a data folder is taken from.
const (
	partMissing = iota
	partMine
	partOther
)

// partFolders makes the folders of two clusters with one workload, so that their files have the same names and lengths: as they
// were when the node was killed, and closed.
func partFolders(t *testing.T) map[string][2]folder {
	t.Helper()
	out := make(map[string][2]folder)
	for which := range 2 {
		live, killed := filepath.Join(t.TempDir(), "live"), filepath.Join(t.TempDir(), "killed")
		b := start(t, damageOptions(live, zerolog.Nop(), func(err error) { t.Error("fatal:", err) }))
		want := expected{pushes: make(map[uint64]acked)}
		for n := range 40 {
			a := acked{queue: fmt.Sprint("q", n%2), partition: "p", first: uint64(n) * 1000, count: damageCount}
			r := mustPush(t, b, a.queue, a.partition, a.first, a.count)
			a.stamp, a.base = r.Stamp, r.Appends[0].Base
			want.pushes[a.first] = a
			if n%13 == 12 {
				if err := b.flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		copyQuiet(t, b, live, killed)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		for name, dir := range map[string]string{"closed": live, "killed": killed} {
			pair := out[name]
			pair[which] = folder{dir, want}
			out[name] = pair
		}
	}
	return out
}

// assemble makes a data folder of parts of two others.
func assemble(dir string, pair [2]folder, from map[string]int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, lockFile), nil, 0o600); err != nil {
		return err
	}
	for part, which := range from {
		if which == partMissing {
			continue
		}
		source := filepath.Join(pair[which-partMine].dir, part)
		if part == formatFile {
			text, err := os.ReadFile(source)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, part), text, 0o600)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(source)); err != nil {
			return err
		}
	}
	return nil
}

// fingerprint is every name and byte below a folder.
func fingerprint(dir string) (map[string]string, error) {
	print := make(map[string]string)
	return print, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			print[path] = "folder"
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		print[path] = fmt.Sprintf("%d bytes, %x", len(text), sha256.Sum256(text))
		return err
	})
}

// tryParts starts a node in a folder. It is refused with one line and nothing on the disk is changed, or it holds what is expected.
func tryParts(dir string, want map[uint64]acked) (refusal string, err error) {
	before, err := fingerprint(dir)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var fatal firstError
	b, err := New(damageOptions(dir, zerolog.Nop(), fatal.set))
	if err != nil {
		return "", err
	}
	if err := b.Open(ctx); err != nil {
		after, failed := fingerprint(dir)
		switch {
		case failed != nil:
			return "", failed
		case !maps.Equal(before, after):
			return "", fmt.Errorf("refused (%w), but the folder is another: before\n%v\nafter\n%v", err, before, after)
		case strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir):
			return "", fmt.Errorf("a refusal that is not one line, or names no folder: %w", err)
		}
		return err.Error(), nil
	}
	err = readRecords(ctx, b, want)
	if err == nil {
		_, err = push(ctx, b, "q0", "p", 77_000_000, 1, 10)
	}
	return "", errors.Join(err, b.Close(), fatal.get())
}

// TestPartsOfTheFolder: FORMAT, raft, state and segments are each there, gone, or another cluster's. A start holds everything, or
// says no and leaves what is there as it is.
func TestPartsOfTheFolder(t *testing.T) {
	parts := []string{formatFile, raftDir, stateDir, segmentsDir}
	for end, pair := range partFolders(t) {
		var work errgroup.Group
		work.SetLimit(4)
		for n := range 81 {
			from, name := make(map[string]int), end+":"
			for i, k := 0, n; i < len(parts); i, k = i+1, k/3 {
				from[parts[i]] = k % 3
				name += " " + parts[i] + []string{" missing", "", " of another cluster"}[k%3] + ","
			}
			work.Go(func() error {
				dir := t.TempDir()
				if err := assemble(dir, pair, from); err != nil {
					return err
				}
				owner := from[formatFile]
				same := func(part string, orMissing bool) bool {
					return from[part] == owner || orMissing && from[part] == partMissing
				}
				none := from[raftDir]+from[stateDir]+from[segmentsDir] == 0
				// A state that is gone is made again from the log, and so are the segments: without a state nothing is expected of them.
				whole := owner != partMissing && same(raftDir, false) && same(stateDir, true) && same(segmentsDir, from[stateDir] == partMissing)
				want := map[uint64]acked{}
				if whole && !none {
					want = pair[owner-partMine].want.pushes
				}
				refusal, err := tryParts(dir, want)
				switch {
				case err != nil:
					t.Errorf("%s %v", name, err)
				case (refusal == "") != (none || whole):
					t.Errorf("%s %q", name, refusal)
				}
				return nil
			})
		}
		if err := work.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFilesOfAnotherQueue: single files and folders inside the parts are gone or from elsewhere.
func TestFilesOfAnotherQueue(t *testing.T) {
	const one, two = "segments/0000000000000001", "segments/0000000000000002"
	pair := partFolders(t)["closed"]
	replace := func(dir, part, by string) error {
		return errors.Join(os.RemoveAll(filepath.Join(dir, part)), os.CopyFS(filepath.Join(dir, part), os.DirFS(by)))
	}
	for name, c := range map[string]struct {
		change func(dir string) error
		want   string // in the refusal; empty: everything is there
	}{
		"a queue of another cluster": {func(dir string) error { return replace(dir, one, filepath.Join(pair[1].dir, one)) }, "queue 1"},
		"another queue":              {func(dir string) error { return replace(dir, one, filepath.Join(pair[0].dir, two)) }, "queue 1"},
		"no queue":                   {func(dir string) error { return os.RemoveAll(filepath.Join(dir, two)) }, "queue 2"},
		"no raft/FORMAT":             {func(dir string) error { return os.Remove(filepath.Join(dir, "raft/FORMAT")) }, "raft holds"},
		"no segments/FORMAT":         {func(dir string) error { return os.Remove(filepath.Join(dir, "segments/FORMAT")) }, "segments holds"},
		"no files of the state but its lock": {func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "state")), os.Mkdir(filepath.Join(dir, "state"), 0o755))
		}, ""},
		"a folder that is nobody's": {func(dir string) error { return os.Mkdir(filepath.Join(dir, "segments", "0000000000000077"), 0o755) }, ""},
	} {
		dir := t.TempDir()
		if err := assemble(dir, pair, map[string]int{formatFile: partMine, raftDir: partMine, stateDir: partMine, segmentsDir: partMine}); err != nil {
			t.Fatal(err)
		}
		if err := c.change(dir); err != nil {
			t.Fatal(err)
		}
		refusal, err := tryParts(dir, pair[0].want.pushes)
		if err != nil || (refusal == "") != (c.want == "") || !strings.Contains(refusal, c.want) {
			t.Errorf("%s: refused with %q, %v", name, refusal, err)
		}
		t.Logf("%s: %q", name, refusal)
	}
}

// TestSegmentsWithoutALog: what a folder held whose raft log and state were gone is not removed, and the same folder is refused
// again and again; a folder with nothing in it begins a log, and says so.
func TestSegmentsWithoutALog(t *testing.T) {
	pair := partFolders(t)["closed"]
	dir := t.TempDir()
	if err := assemble(dir, pair, map[string]int{formatFile: partMine, segmentsDir: partMine}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		refusal, err := tryParts(dir, nil)
		if err != nil || !strings.Contains(refusal, "segments holds the records of 2 queues but raft and state hold nothing") {
			t.Errorf("%q, %v", refusal, err)
		}
	}
	var lines lockedBuffer
	b := start(t, damageOptions(t.TempDir(), zerolog.New(&lines), func(err error) { t.Error(err) }))
	mustPush(t, b, "q", "p", 0, 1)
	if !bytes.Contains([]byte(lines.String()), []byte("a new log begins")) {
		t.Errorf("no line of the new log in\n%s", lines.String())
	}
}
