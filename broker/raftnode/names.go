package raftnode

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft-wal/types"
)

// named is a file system for raft-wal on which a synced file keeps its name. raft-wal v0.4.2 syncs the folder at the first Sync of a
// file that it made; when the process stops before that, the file is opened instead of made by the next one, and its
// name is never synced: a power loss may then take the file with all that was acknowledged in it. So before the first bytes go to an opened
// file the folder is synced.
//
// It also keeps apart where a full disk is met. Before bytes are written, or while they are, it means that nothing was stored, and whoever asked may ask again (logs.go). What was written
// and not synced may be found by the next process, so that is no full disk, whatever the system calls it.
type named struct {
	types.VFS
	mu sync.Mutex // one folder sync at a time: they share a name
}

var _ types.VFS = (*named)(nil)

// Create makes a file.
func (n *named) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := n.VFS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	made := &namedFile{WritableFile: f, files: n, dir: dir}
	made.done.Store(true) // whoever made it syncs the folder at its first Sync
	return made, nil
}

// OpenWriter opens a file whose first WriteAt makes its name durable.
func (n *named) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := n.VFS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	return &namedFile{WritableFile: f, files: n, dir: dir}, nil
}

// folderTemp is made and removed to sync a folder: removing is the one operation of types.VFS that always syncs it.
const folderTemp = "sync.tmp"

func (n *named) syncFolder(dir string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	f, err := n.VFS.Create(dir, folderTemp, 0)
	if err == nil {
		err = f.Close()
	} else if errors.Is(err, fs.ErrExist) { // a process stopped between the two
		err = nil
	}
	if err != nil {
		return err
	}
	return n.Delete(dir, folderTemp)
}

type namedFile struct {
	types.WritableFile
	files *named
	dir   string
	done  atomic.Bool
}

// WriteAt writes, once the name is durable.
func (f *namedFile) WriteAt(p []byte, off int64) (int, error) {
	if !f.done.Load() {
		if err := f.files.syncFolder(f.dir); err != nil {
			return 0, err
		}
		f.done.Store(true)
	}
	return f.WritableFile.WriteAt(p, off)
}

// Sync makes the bytes durable.
func (f *namedFile) Sync() error {
	if err := f.WritableFile.Sync(); err != nil {
		return fmt.Errorf("after the bytes were written: %v", err) // %v: not even a full disk may be tried again
	}
	return nil
}
