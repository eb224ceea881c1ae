// Package crashwal is a disk in memory for github.com/hashicorp/raft-wal that can crash: it knows of every byte and every
// directory entry whether it was synced, and CrashClone gives the disk that a machine would find after a power cut.
//
// It is for tests of the raft log in one process (the broker's simulation): no files, no fsync, any moment as the crash. It is
// not a store: production opens raft-wal on its own fs package and on the meta file of broker/raftnode (raft/meta); what a sync
// makes durable with those is what is kept here. It does not play read errors or a full disk.
//
// Read FS, then CrashClone; broker/raftnode is who uses it.
package crashwal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// Dir is the one folder of the disk, and SegmentSize the length in bytes at which Open's log starts a new segment: small, so
// that tests meet rotation, and because every byte of it is RAM.
const (
	Dir         = "raft"
	SegmentSize = 256 << 10
)

// Op is what happens to the disk at a moment.
type Op string

// The operations of which a hook is told.
const (
	Create    Op = "create"
	Write     Op = "write"
	Sync      Op = "sync"
	Delete    Op = "delete"
	CommitSet Op = "commit state" // raft-wal's own state
	SetStable Op = "set stable"   // raft's term and vote
)

// Event is a moment at which a machine may stop: just before (Done false) and just after an operation.
type Event struct {
	Op   Op
	Name string // file, or stable key
	Done bool
}

// FS is the disk: a types.VFS, with its MetaStore beside it. It is safe for many goroutines.
//
// What is durable, as raft-wal's fs package on a journalling file system has it:
//
//	bytes of a file     after Sync of any handle that can write; until then each 512-byte sector may be there or not
//	length of a file    with its bytes: a file that was preallocated and never synced may be empty
//	a new name          after the first Sync of the handle from Create, or a Delete: both sync the folder, with all its names.
//	                    Sync of a handle from OpenWriter does not
//	a deleted name      when Delete returns
//	meta store          when the call returns; before that either the old or the new state, never a mixture
type FS struct {
	hook func(Event)

	mu    sync.Mutex
	live  map[string]*file // names that a reader sees
	saved map[string]*file // names that are on the disk for good
	meta  meta
}

var (
	_ types.VFS          = (*FS)(nil)
	_ types.WritableFile = (*writer)(nil)
	_ types.ReadableFile = (*reader)(nil)
)

// New returns an empty disk. hook, when it is not nil, is called at every moment at which a machine may stop, from the goroutine
// that is about to change the disk, without a lock: it may call CrashClone.
func New(hook func(Event)) *FS {
	return &FS{hook: hook, live: make(map[string]*file), saved: make(map[string]*file), meta: newMeta()}
}

// Open opens the raft log on the disk, as a process does at its start.
func Open(disk *FS) (*wal.WAL, error) {
	w, err := wal.Open(Dir,
		wal.WithSegmentFiler(segment.NewFiler(Dir, disk)),
		wal.WithMetaStore(disk.Meta()),
		wal.WithSegmentSize(SegmentSize),
		wal.WithLogger(hclog.NewNullLogger()))
	if err != nil {
		return nil, fmt.Errorf("open raft log: %w", err)
	}
	return w, nil
}

// file is one file's bytes. All of it is guarded by FS.mu.
type file struct {
	data    []byte   // what a reader sees
	saved   []byte   // what is on the disk for good
	unsaved []extent // what was written since the last Sync, in order
}

type extent struct{ off, end int }

func (f *file) save() {
	for len(f.saved) < len(f.data) {
		f.saved = append(f.saved, make([]byte, len(f.data)-len(f.saved))...)
	}
	for _, e := range f.unsaved {
		copy(f.saved[e.off:e.end], f.data[e.off:e.end])
	}
	f.unsaved = nil
}

// step runs one change between its two events.
func (d *FS) step(op Op, name string, change func() error) error {
	d.tell(Event{Op: op, Name: name})
	d.mu.Lock()
	err := change()
	d.mu.Unlock()
	d.tell(Event{Op: op, Name: name, Done: true})
	return err
}

func (d *FS) tell(e Event) {
	if d.hook != nil {
		d.hook(e)
	}
}

// saveNames makes the folder durable. It needs mu.
func (d *FS) saveNames() {
	clear(d.saved)
	for name, f := range d.live {
		d.saved[name] = f
	}
}

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

func checkDir(op, dir string) error {
	if dir != Dir {
		return pathError(op, dir, fs.ErrNotExist)
	}
	return nil
}

// ListDir implements types.VFS.
func (d *FS) ListDir(dir string) ([]string, error) {
	if err := checkDir("open", dir); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make([]string, 0, len(d.live))
	for name := range d.live {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Create implements types.VFS. The file has its whole size at once, as a preallocated one has.
func (d *FS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	if err := checkDir("open", dir); err != nil {
		return nil, err
	}
	var f *file
	err := d.step(Create, name, func() error {
		if d.live[name] != nil {
			return pathError("open", name, fs.ErrExist)
		}
		f = &file{data: make([]byte, size)}
		d.live[name] = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &writer{reader: reader{d: d, f: f}, name: name, created: true}, nil
}

// Delete implements types.VFS. Like the real one it syncs the folder.
func (d *FS) Delete(dir, name string) error {
	if err := checkDir("remove", dir); err != nil {
		return err
	}
	return d.step(Delete, name, func() error {
		if d.live[name] == nil {
			return pathError("remove", name, fs.ErrNotExist)
		}
		delete(d.live, name)
		d.saveNames()
		return nil
	})
}

func (d *FS) find(dir, name string) (*file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.live[name]
	if f == nil || dir != Dir {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	return f, nil
}

// OpenReader implements types.VFS.
func (d *FS) OpenReader(dir, name string) (types.ReadableFile, error) {
	f, err := d.find(dir, name)
	if err != nil {
		return nil, err
	}
	return &reader{d: d, f: f}, nil
}

// OpenWriter implements types.VFS.
func (d *FS) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := d.find(dir, name)
	if err != nil {
		return nil, err
	}
	return &writer{reader: reader{d: d, f: f}, name: name}, nil
}

type reader struct {
	d *FS
	f *file
}

func (r *reader) Close() error { return nil }

func (r *reader) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if off >= int64(len(r.f.data)) {
		return 0, io.EOF
	}
	n := copy(b, r.f.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

type writer struct {
	reader
	name    string
	created bool // from Create: the first Sync makes the folder durable too
}

func (w *writer) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	return len(b), w.d.step(Write, w.name, func() error {
		f, end := w.f, int(off)+len(b)
		if grow := end - len(f.data); grow > 0 {
			f.data = append(f.data, make([]byte, grow)...)
		}
		copy(f.data[off:], b)
		f.unsaved = append(f.unsaved, extent{int(off), end})
		return nil
	})
}

func (w *writer) Sync() error {
	return w.d.step(Sync, w.name, func() error {
		w.f.save()
		if w.created {
			w.created = false
			w.d.saveNames()
		}
		return nil
	})
}

// sector is what a disk writes whole or not at all, bytes.
const sector = 512

// CrashClone returns the disk that a machine finds when it stops now: all that is durable, and of the rest each name, each
// sector and a state just being committed with a chance of percent in 100 (rng may be nil when that is 0). The old disk is not
// changed and may be used on. hook is that of the new disk.
func (d *FS) CrashClone(percent int, rng *rand.Rand, hook func(Event)) *FS {
	keep := func() bool { return percent > 0 && rng.IntN(100) < percent }
	d.mu.Lock()
	defer d.mu.Unlock()
	c := New(hook)
	c.meta = d.meta.clone(keep)
	names := make([]string, 0, len(d.live)+len(d.saved))
	for name := range d.live {
		names = append(names, name)
	}
	for name := range d.saved {
		names = append(names, name)
	}
	slices.Sort(names) // a seed gives the same clone each time
	for _, name := range slices.Compact(names) {
		f := d.saved[name]
		if f == nil {
			if f = d.live[name]; !keep() {
				continue
			}
		}
		c.live[name] = f.clone(keep)
	}
	c.saveNames()
	return c
}

func (f *file) clone(keep func() bool) *file {
	data := slices.Clone(f.saved)
	if len(f.data) > len(data) && keep() { // the length is there without the bytes
		data = append(data, make([]byte, len(f.data)-len(data))...)
	}
	for _, e := range f.unsaved {
		for off := e.off; off < e.end; off = (off/sector + 1) * sector {
			end := min((off/sector+1)*sector, e.end)
			if !keep() {
				continue
			}
			if grow := end - len(data); grow > 0 {
				data = append(data, make([]byte, grow)...)
			}
			copy(data[off:end], f.data[off:end])
		}
	}
	return &file{data: data, saved: slices.Clone(data)}
}
