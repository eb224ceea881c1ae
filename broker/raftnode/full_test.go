package raftnode

import (
	"errors"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
	"github.com/rs/zerolog"
)

// full is a disk on which, once on is set, no file can be made (names), or that is found full when what was written is synced.
type full struct {
	types.VFS
	names bool
	on    *bool
}

func (d full) Create(dir, name string, size uint64) (types.WritableFile, error) {
	if d.names && *d.on {
		return nil, syscall.ENOSPC
	}
	f, err := d.VFS.Create(dir, name, size)
	return fullFile{f, d}, err
}

func (d full) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := d.VFS.OpenWriter(dir, name)
	return fullFile{f, d}, err
}

type fullFile struct {
	types.WritableFile
	of full
}

func (f fullFile) Sync() error {
	if *f.of.on && !f.of.names {
		return syscall.ENOSPC
	}
	return f.WritableFile.Sync()
}

// TestAFullDiskTookNothing: an entry for which the disk is full is one that may be pushed again, so it must not be in the log that the next process reads. One whose bytes were written
// and could not be synced may be, so that is no full disk: the node ends.
func TestAFullDiskTookNothing(t *testing.T) {
	for _, names := range []bool{true, false} {
		dir, on := t.TempDir(), false
		fullLog(t, dir, 1)
		s, err := OpenWAL(dir, full{fs.New(), names, &on}, &metaFile{fs: vfs.Default}, smallFile, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		on = true
		err = s.StoreLog(walEntry(2))
		if err == nil {
			t.Error("it is stored")
		}
		took := errors.Is(err, syscall.ENOSPC)
		on = false
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = OpenDisk(dir, smallFile, zerolog.Nop()); err != nil {
			t.Fatal(err)
		}
		if last, err := s.LastIndex(); err != nil || last > 1 && took {
			t.Errorf("no file can be made: %v: the disk was full, and the log ends with entry %d: %v", names, last, err)
		}
		if names != took {
			t.Errorf("no file can be made: %v, so the disk is full: %v", names, took)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
