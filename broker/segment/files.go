package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/internal/durable"
	"queen/stages"
)

// writeCategory is the name under which a vfs counts our writes.
const writeCategory vfs.DiskWriteCategory = "queen-segment"

const (
	segmentExt = ".seg"
	indexExt   = ".idx"
	tempExt    = durable.TempExt
)

func segmentName(seg uint32) string { return fmt.Sprintf("%08x%s", seg, segmentExt) }
func indexName(seg uint32) string   { return fmt.Sprintf("%08x%s", seg, indexExt) }

func (s *Store) queueDir(queue stages.QueueID) string {
	return s.o.FS.PathJoin(s.o.Dir, fmt.Sprintf("%016x", uint64(queue)))
}

// parseName reads a file name of a queue's folder. ok is false for a name that is not ours.
func parseName(name string) (seg uint32, ext string, ok bool) {
	stem, ext, found := strings.Cut(name, ".")
	if !found || len(stem) != 8 {
		return 0, "", false
	}
	n, err := strconv.ParseUint(stem, 16, 32)
	if err != nil || n == 0 || stem != strings.ToLower(stem) {
		return 0, "", false
	}
	return uint32(n), "." + ext, true
}

// maxAppendFiles is how many segments may stand open for appending; each takes two descriptors.
const maxAppendFiles = 512

// appendFile is a segment that is appended to, or is sealed and not yet durable. It has two handles, since a vfs.File takes
// one Write or Sync at a time and Sync runs beside Append; the second is opened before the first write through the other,
// so it is told of every write-back error. The flags are guarded by Store.mu.
type appendFile struct {
	path  string
	w     vfs.File // the writer's
	sync  vfs.File // used under Store.syncing only
	dirty bool     // written to after the last fsync began
	done  bool     // sealed: close when durable
	used  uint64
	owner *queueLog
}

// writeOutBytes is after how many bytes of a segment the system is told to begin writing them. A sync comes after seconds only, and whatever
// it finds to write then, the raft log's own syncs wait for: the slowest hundredth of pushes took half as long again.
const writeOutBytes = 1 << 20

func (f *appendFile) close() error { return errors.Join(f.w.Close(), f.sync.Close()) }

// write puts buf at the tail and marks what became dirty. The folder and the file are made when they are missing.
func (s *Store) write(q *queueLog, tail Tail, buf []byte) error {
	if q.file == nil {
		if err := s.openForAppend(q, tail); err != nil {
			return err
		}
	}
	n, err := q.file.w.WriteAt(buf, tail.Len)
	if err == nil && n < len(buf) {
		err = fmt.Errorf("%d of %d bytes written", n, len(buf))
	}
	if from, end := tail.Len&^(writeOutBytes-1), (tail.Len+int64(n))&^(writeOutBytes-1); err == nil && from < end {
		err = durable.BeginWriting(q.file.w, from, end-from)
	}
	s.mu.Lock()
	s.uses++
	q.file.dirty, q.file.used = true, s.uses
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("write %s at byte %d: %w", q.file.path, tail.Len, err)
	}
	return nil
}

func (s *Store) openForAppend(q *queueLog, tail Tail) error {
	if err := s.makeRoom(); err != nil {
		return err
	}
	if !q.made {
		if err := s.makeDir(q.dir); err != nil {
			return err
		}
		q.made = true
	}
	path := s.o.FS.PathJoin(q.dir, segmentName(tail.Seg))
	if tail.Len == 0 {
		// A file that is there already was never cut to the state's tail: writing over it would mix two histories.
		if _, err := s.o.FS.Stat(path); err == nil {
			return fmt.Errorf("create %s: it is there already and was not attached", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("create %s: %w", path, err)
		}
	}
	f := &appendFile{path: path, owner: q}
	var err error
	if f.w, err = s.o.FS.OpenReadWrite(path, writeCategory); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	if f.sync, err = s.o.FS.Open(path); err != nil {
		return errors.Join(fmt.Errorf("open %s: %w", path, err), f.w.Close())
	}
	if tail.Len == 0 {
		s.markDir(q.dir)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[f] = struct{}{}
	q.file = f
	return nil
}

// makeRoom keeps the number of open append files bounded: it closes the one unused for longest. A dirty file stays open
// until it is durable, because a handle opened later would miss its write-back errors; so when all are dirty, all are synced.
func (s *Store) makeRoom() error {
	s.mu.Lock()
	full := len(s.files) >= maxAppendFiles
	s.mu.Unlock()
	if !full {
		return nil
	}
	if ok, err := s.closeOldest(); ok || err != nil {
		return err
	}
	if err := s.Sync(); err != nil {
		return err
	}
	_, err := s.closeOldest()
	return err
}

func (s *Store) closeOldest() (bool, error) {
	s.syncing.Lock() // no Sync is using a handle
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *appendFile
	for f := range s.files {
		if !f.dirty && (oldest == nil || f.used < oldest.used) {
			oldest = f
		}
	}
	if oldest == nil {
		return false, nil
	}
	delete(s.files, oldest)
	if oldest.owner.file == oldest {
		oldest.owner.file = nil
	}
	return true, oldest.close()
}

// makeDir makes a folder of the store, or the store's own. Both names up from there may be new. What a Sync finds to do before that is nothing.
func (s *Store) makeDir(dir string) error {
	if err := s.o.FS.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	s.markDir(s.o.FS.PathDir(s.o.Dir))
	s.markDir(s.o.Dir)
	return nil
}

// markDir notes that names in dir changed. Call it after the change: a Sync beside it that took the mark before would sync the
// folder without the new name, and no later Sync would know.
func (s *Store) markDir(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.dirtyDirs, dir) {
		s.dirtyDirs = append(s.dirtyDirs, dir)
	}
}

// Sync makes durable everything that Append wrote before the call: files first, then the folders that name them. It may run
// beside Append; what is appended meanwhile belongs to the next Sync. An error is for ever, see Store.failed.
func (s *Store) Sync() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return err
	}
	var files []*appendFile
	for f := range s.files {
		if f.dirty {
			f.dirty = false
			files = append(files, f)
		}
	}
	dirs := s.dirtyDirs
	s.dirtyDirs = nil
	s.mu.Unlock()

	slices.SortFunc(files, func(a, b *appendFile) int { return strings.Compare(a.path, b.path) })
	for _, f := range files {
		if err := f.sync.Sync(); err != nil {
			return s.fail(fmt.Errorf("sync %s: %w", f.path, err))
		}
	}
	for _, dir := range dirs {
		if err := s.syncDir(dir); err != nil {
			return s.fail(err)
		}
	}
	return s.closeDone()
}

// closeDone closes sealed segments that are durable now. It needs syncing.
func (s *Store) closeDone() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for f := range s.files {
		if f.done && !f.dirty {
			delete(s.files, f)
			errs = append(errs, f.close())
		}
	}
	return errors.Join(errs...)
}

func (s *Store) syncDir(dir string) error { return durable.SyncDir(s.o.FS, dir) }

// writeFile writes a whole file of the queue's folder so that after a crash it is there with all its bytes, or not at all;
// the folder is left to the next Sync.
func (s *Store) writeFile(q *queueLog, name string, data []byte) error {
	if err := durable.Replace(s.o.FS, q.dir, name, data, writeCategory); err != nil {
		return err
	}
	s.markDir(q.dir)
	return nil
}

// Queues returns the ids of the queues that have a folder on the disk, attached or not, in rising order.
func (s *Store) Queues() ([]stages.QueueID, error) {
	names, err := s.o.FS.List(s.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list %s: %w", s.o.Dir, err)
	}
	slices.Sort(names)
	var ids []stages.QueueID
	for _, name := range names {
		id, err := strconv.ParseUint(name, 16, 64)
		if err == nil && name == s.o.FS.PathBase(s.queueDir(stages.QueueID(id))) {
			ids = append(ids, stages.QueueID(id))
		}
	}
	return ids, nil
}

// forget removes the folders of queues that are not attached.
func (s *Store) forget() error {
	ids, err := s.Queues()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if s.queues[id] != nil {
			continue
		}
		if err := s.o.FS.RemoveAll(s.queueDir(id)); err != nil {
			return fmt.Errorf("remove the folder of queue %d: %w", id, err)
		}
	}
	return s.syncDir(s.o.Dir)
}
