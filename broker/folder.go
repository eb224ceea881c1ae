package broker

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/internal/durable"
)

// Names in the data folder (docs/formats.md section 1).
const (
	formatFile  = "FORMAT"
	formatTemp  = formatFile + durable.TempExt
	lockFile    = "LOCK"
	raftDir     = "raft"
	stateDir    = "state"
	segmentsDir = "segments"

	snapshotsDir = "snapshots"
	restoreFile  = "RESTORE"
	fromLeader   = "from leader" // its second line when the snapshot came from another node: the raft log goes on from there

	formatWhole  = "queen data 1" // the raft log begins with its first entry
	formatCut    = "queen data 2" // it may begin later, where a snapshot stands
	formatMember = "queen data 3" // the same, and it is of one node of several
	noSeed       = "seed -"       // of a node that has not heard of its cluster's founding yet
)

// seedOf reads FORMAT, or makes it with a seed from random when the folder has none. The seed of a cluster is made once: one of several
// nodes makes none, but waits for the log to tell it, and has zeros until then.
func seedOf(disk vfs.FS, dir string, random io.Reader, several bool) (seed [16]byte, err error) {
	text, err := readFile(disk, filepath.Join(dir, formatFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := mustBeNew(disk, dir); err != nil {
			return seed, err
		}
		if several {
			return seed, writeFormat(disk, dir, formatMember, seed)
		}
		if _, err := io.ReadFull(random, seed[:]); err != nil {
			return seed, fmt.Errorf("cluster seed: %w", err)
		}
		return seed, writeFormat(disk, dir, formatWhole, seed)
	case err != nil:
		return seed, fmt.Errorf("data folder: %w", err)
	}
	if seed, err = parseFormat(dir, text); err == nil && seed == [16]byte{} && !several {
		err = fmt.Errorf("data folder %s is of a node that waits for its cluster: start it as a member again (QUEEN_RAFT_PEERS or QUEEN_RAFT_JOIN), or use another folder", dir)
	}
	return seed, err
}

// ownParts are the parts that hold a copy of FORMAT: nothing else in them says whose they are. The state has its seed in a row.
func ownParts() []string { return []string{raftDir, segmentsDir} }

// sameCluster refuses a folder whose parts are not of the cluster with this seed, or do not say so. It changes nothing.
func sameCluster(disk vfs.FS, dir string, seed [16]byte) error {
	for _, part := range ownParts() {
		text, err := readFile(disk, filepath.Join(dir, part, formatFile))
		if errors.Is(err, fs.ErrNotExist) {
			inside, err := contents(disk, filepath.Join(dir, part))
			if err != nil {
				return err
			}
			if len(inside) > 0 {
				return fmt.Errorf("data folder %s: %s holds %s but no %s, so it cannot be told whose it is: restore the folder from one copy", dir, part, inside[0], formatFile)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
		have, err := parseFormat(filepath.Join(dir, part), text)
		if err != nil {
			return err
		}
		if have != seed && seed != [16]byte{} && have != [16]byte{} { // zeros: a process stopped while it wrote the seed that it had heard
			return twoClusters(dir, part, have, seed)
		}
	}
	return nil
}

func twoClusters(dir, part string, have, seed [16]byte) error {
	return fmt.Errorf("data folder %s: %s has the seed %x but %s is of the cluster with the seed %x: its parts come from two clusters, restore the folder from one copy",
		dir, formatFile, seed, part, have)
}

// contents lists what a part holds beside its FORMAT. A part that is missing holds nothing.
func contents(disk vfs.FS, dir string) ([]string, error) {
	names, err := disk.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == formatFile || name == formatTemp })
	slices.Sort(names)
	return names, nil
}

// mustBeNew refuses a folder that lost its FORMAT: a second seed would give every id another UUID.
func mustBeNew(disk vfs.FS, dir string) error {
	for _, name := range []string{raftDir, stateDir, segmentsDir, snapshotsDir} {
		inside, err := disk.List(filepath.Join(dir, name))
		if err == nil && len(inside) > 0 {
			return fmt.Errorf("data folder %s holds %s but no %s: restore that file from a copy, or choose an empty folder", dir, name, formatFile)
		}
	}
	return nil
}

func parseFormat(dir, text string) (seed [16]byte, err error) {
	first, rest, _ := strings.Cut(text, "\n")
	if first != formatWhole && first != formatCut && first != formatMember {
		return seed, fmt.Errorf("data folder %s has the format %q, this binary reads %q, %q and %q: use the binary that wrote it, or a newer one; if no binary writes this, %s is damaged, restore it from a copy",
			dir, first, formatWhole, formatCut, formatMember, formatFile)
	}
	if first == formatMember && rest == noSeed+"\n" {
		return seed, nil
	}
	word, found := strings.CutPrefix(strings.TrimSuffix(rest, "\n"), "seed ")
	if n, err := hex.Decode(seed[:], []byte(word)); !found || len(word) != 32 || err != nil || n != 16 {
		return seed, fmt.Errorf("data folder %s: %s is damaged (%q), restore it from a copy", dir, formatFile, text)
	}
	return seed, nil
}

// writeFormat puts FORMAT in place so that a crash leaves the whole file or what was there before.
func writeFormat(disk vfs.FS, dir, line string, seed [16]byte) error {
	if seed == [16]byte{} {
		return durable.WriteFile(disk, dir, formatFile, []byte(line+"\n"+noSeed+"\n"))
	}
	return durable.WriteFile(disk, dir, formatFile, fmt.Appendf(nil, "%s\nseed %x\n", line, seed))
}

// sayLogIsCut marks the folder for binaries that need the whole raft log, before it is cut for the first time: the copies first.
func sayLogIsCut(disk vfs.FS, dir string) error {
	for _, part := range append(ownParts(), "") {
		part = filepath.Join(dir, part)
		text, err := readFile(disk, filepath.Join(part, formatFile))
		if err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
		seed, err := parseFormat(part, text)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(text, formatWhole+"\n") {
			continue
		}
		if err := writeFormat(disk, part, formatCut, seed); err != nil {
			return err
		}
	}
	return nil
}

// sayMember marks the folder as that of one node of several, with the seed of its cluster: the copies first.
func sayMember(disk vfs.FS, dir string, seed [16]byte) error {
	for _, part := range append(ownParts(), "") {
		part = filepath.Join(dir, part)
		text, err := readFile(disk, filepath.Join(part, formatFile))
		if err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
		if have, err := parseFormat(part, text); err != nil || strings.HasPrefix(text, formatMember+"\n") && have == seed {
			if err != nil {
				return err
			}
			continue
		}
		if err := writeFormat(disk, part, formatMember, seed); err != nil {
			return err
		}
	}
	return nil
}

func readFile(disk vfs.FS, name string) (string, error) {
	f, err := disk.Open(name)
	if err != nil {
		return "", err
	}
	const most = 4096 // FORMAT has two lines
	text, err := io.ReadAll(io.LimitReader(f, most))
	return string(text), errors.Join(err, f.Close())
}

// makeFolder makes the data folder itself, durably.
func makeFolder(disk vfs.FS, dir string) error {
	if _, err := disk.Stat(dir); err == nil {
		return nil
	}
	if err := disk.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return durable.SyncDir(disk, filepath.Dir(dir))
}

// makeParts makes the folders inside it and the copies of FORMAT in them, durably: a raft log that is synced in a folder whose own
// entry is not could vanish as a whole.
func makeParts(disk vfs.FS, dir, line string, seed [16]byte) error {
	for _, name := range []string{raftDir, stateDir, segmentsDir} {
		if err := disk.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
	}
	if err := durable.SyncDir(disk, dir); err != nil {
		return err
	}
	for _, part := range ownParts() {
		if _, err := disk.Stat(filepath.Join(dir, part, formatFile)); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("data folder: %w", err)
		}
		if err := writeFormat(disk, filepath.Join(dir, part), line, seed); err != nil {
			return err
		}
	}
	return nil
}

// lock is a flock held on LOCK for as long as the node runs. The kernel drops it with the process, however that ends.
type lock struct{ file *os.File }

// takeLock locks the data folder, or says who is in the way.
func takeLock(dir string) (*lock, error) {
	name := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &lock{file: f}, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("data folder %s is in use by another process: stop that process, or start this one with another folder", dir)
	} else {
		err = fmt.Errorf("lock %s: %w", name, err)
	}
	return nil, errors.Join(err, f.Close())
}

func (l *lock) release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
