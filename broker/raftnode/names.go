package raftnode

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft-wal/types"
)

// named is a file system for raft-wal on which a synced file keeps its name. raft-wal v0.4.2 syncs the folder at the first Sync of a
// file that it made; when the process stops before that, the file is opened instead of made by the next one, and its
// name is never synced: a power loss may then take the file with all that was acknowledged in it. So the first Sync of an opened
// file syncs the folder too.
type named struct {
	types.VFS
	mu sync.Mutex // one folder sync at a time: they share a name
}

var _ types.VFS = (*named)(nil)

// OpenWriter opens a file whose first Sync makes its name durable.
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
	f, err := n.Create(dir, folderTemp, 0)
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

// Sync makes the bytes durable, and once the name.
func (f *namedFile) Sync() error {
	if err := f.WritableFile.Sync(); err != nil || f.done.Load() {
		return err
	}
	if err := f.files.syncFolder(f.dir); err != nil {
		return err
	}
	f.done.Store(true)
	return nil
}
