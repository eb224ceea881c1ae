// Package crashdisk is pebble's disk in memory that can be copied as a crash leaves it, for tests that copy it while others use it. The disk of the raft log,
// which is no vfs, is package crashwal.
//
// pebble's own (v2.1) takes its lock twice for reading in Link and in Lock, and CrashClone takes it for writing: when one comes between, nobody goes on.
package crashdisk

import (
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is such a disk.
type FS struct {
	*vfs.MemFS
	twice sync.Mutex // over what takes the lock twice, and copies
}

// New returns an empty one.
func New() *FS { return &FS{MemFS: vfs.NewCrashableMem()} }

// Link is that of vfs.FS.
func (f *FS) Link(oldname, newname string) error {
	f.twice.Lock()
	defer f.twice.Unlock()
	return f.MemFS.Link(oldname, newname)
}

// Lock is that of vfs.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	f.twice.Lock()
	defer f.twice.Unlock()
	return f.MemFS.Lock(name)
}

// CrashClone returns what a crash at this moment leaves. It stands still while operations go on, and the other way round.
func (f *FS) CrashClone(cfg vfs.CrashCloneCfg) *FS {
	f.twice.Lock()
	defer f.twice.Unlock()
	return &FS{MemFS: f.MemFS.CrashClone(cfg)}
}
