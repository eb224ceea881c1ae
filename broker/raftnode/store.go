package raftnode

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"github.com/rs/zerolog"
)

// segmentBytes is the size of the files of the raft log. They are preallocated, so a small log takes this much of the disk.
const segmentBytes = 64 << 20

// Store keeps the raft log and the few values (term, vote) that raft must not lose. StoreLogs returns when all is durable.
type Store interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// syncer is a Store that also keeps something which only has to be durable now and then.
type syncer interface{ Sync() error }

var (
	_ Store                  = (*store)(nil)
	_ raft.MonotonicLogStore = (*store)(nil)
	_ syncer                 = (*store)(nil)
	_ measured               = (*store)(nil)
	_ tailCutter             = (*store)(nil)
)

// store is raft-wal with the mark beside it.
type store struct {
	*wal.WAL
	mark  *mark
	bytes atomic.Int64 // of its full files
}

// OpenDisk opens the log in a folder of the disk, and makes the folder (its parent exists) when it is missing. fileBytes is the
// size of new files of the log, 0: 64 MiB.
func OpenDisk(dir string, fileBytes int, log zerolog.Logger) (Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if fileBytes == 0 {
		fileBytes = segmentBytes
	}
	return OpenWAL(dir, fs.New(), &metaFile{fs: vfs.Default}, fileBytes, log)
}

// OpenWAL opens raft-wal in a folder that exists, on any file system and meta store, with files of the given size. It repairs
// what a power loss may have left (repairing), and refuses a log that lost what was acknowledged (mark); a refusal
// leaves the files as they were.
func OpenWAL(dir string, files types.VFS, meta types.MetaStore, fileBytes int, log zerolog.Logger) (Store, error) {
	files = &named{VFS: files}
	m, err := openMark(dir, files, log)
	if err != nil {
		return nil, fmt.Errorf("open raft log: %w", err)
	}
	s := &store{mark: m}
	meta = sizing{repairing{MetaStore: meta, files: files, mark: m}, &s.bytes}
	w, err := unpanicked(func() (*wal.WAL, error) {
		return wal.Open(dir, wal.WithLogger(logger(log, nil).Named("wal")), wal.WithSegmentSize(fileBytes),
			wal.WithSegmentFiler(segment.NewFiler(dir, files)), wal.WithMetaStore(meta))
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open raft log %s: %w", dir, err), meta.Close(), m.close())
	}
	s.WAL = w
	last, err := w.LastIndex()
	if err == nil {
		err = m.check(dir, last)
	}
	if err == nil {
		err = m.begin(dir, files)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open raft log: %w", err), w.Close(), m.close())
	}
	return s, nil
}

// unpanicked runs raft-wal, which takes what it reads for right and may panic on what is not.
func unpanicked[T any](run func() (T, error)) (got T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the files are damaged, restore the folder from a copy: %v", p)
		}
	}()
	return run()
}

// StoreLog stores one entry.
func (s *store) StoreLog(e *raft.Log) error { return s.StoreLogs([]*raft.Log{e}) }

// StoreLogs stores entries with one fsync, and notes the last one before anybody can be answered.
func (s *store) StoreLogs(entries []*raft.Log) error {
	if err := s.WAL.StoreLogs(entries); err != nil || len(entries) == 0 {
		return err
	}
	if err := s.mark.note(entries[len(entries)-1].Index); err != nil {
		return fmt.Errorf("after the entries were stored: %v", err) // %v: not even a full disk may be tried again
	}
	return nil
}

// DeleteRange removes entries from either end of the log, but none that was acknowledged last: nothing may take that back.
func (s *store) DeleteRange(from, to uint64) error {
	if noted := s.mark.index.Load(); from <= noted && noted <= to {
		return fmt.Errorf("raft log: entries %d to %d may not be removed, entry %d was acknowledged", from, to, noted)
	}
	return s.WAL.DeleteRange(from, to)
}

// CutTail removes the entries from this index to the end, which were stored here and never committed.
func (s *store) CutTail(from uint64) error {
	last, err := s.WAL.LastIndex()
	if err != nil || from > last {
		return err
	}
	first, err := s.WAL.FirstIndex()
	if err != nil {
		return err
	}
	left := from - 1
	if from <= first {
		left = 0 // it will be empty
	}
	if err := s.mark.lower(left); err != nil {
		return err
	}
	return s.WAL.DeleteRange(from, last)
}

// Bytes returns the size of the full files of the log.
func (s *store) Bytes() int64 { return s.bytes.Load() }

// Sync makes the mark durable, which is not synced with each entry.
func (s *store) Sync() error { return s.mark.sync() }

// Close closes the log.
func (s *store) Close() error {
	return errors.Join(s.WAL.Close(), s.mark.sync(), s.mark.close())
}

// logFile names a file of the log.
func logFile(dir string, info types.SegmentInfo) string {
	return filepath.Join(dir, segment.FileName(info))
}
