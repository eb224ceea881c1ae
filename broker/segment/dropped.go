package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"

	"queen/stages"
)

// Run is the segments From to To, both included.
type Run struct{ From, To uint32 }

// Dropped is the segments of a queue that are not there any more, in rising order, no two runs touching.
type Dropped []Run

// Has says whether a segment was dropped.
func (d Dropped) Has(seg uint32) bool {
	return slices.ContainsFunc(d, func(r Run) bool { return r.From <= seg && seg <= r.To })
}

// With returns d with these segments too.
func (d Dropped) With(segs ...uint32) Dropped {
	var all Dropped
	all = append(all, d...)
	for _, seg := range segs {
		all = append(all, Run{seg, seg})
	}
	slices.SortFunc(all, func(a, b Run) int { return int(int64(a.From) - int64(b.From)) })
	out := all[:0]
	for _, r := range all {
		if n := len(out); n > 0 && uint64(r.From) <= uint64(out[n-1].To)+1 {
			out[n-1].To = max(out[n-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Gone is files that Remove removes: segments of a queue, or all of it.
type Gone struct {
	Queue    stages.QueueID
	Segments []uint32 // nil = the whole folder
}

// Dead returns the segments of a queue that hold no append of a stamp for which live says true, and lie below a place; the open one is among
// them when all of it does. live is asked for the first and the last stamp of each: it says whether there is one between.
func (v View) Dead(below Tail, live func(first, last stages.Micros) bool) (segs []uint32) {
	for _, x := range v.sealed {
		if (x.seg < below.Seg || x.seg == below.Seg && x.size <= below.Len) && !live(x.first, x.last) {
			segs = append(segs, x.seg)
		}
	}
	if n := len(v.entries) / entryLen; n > 0 && below == v.tail && !live(entryTS(v.entries), entryTS(entryAt(v.entries, n-1))) {
		segs = append(segs, v.tail.Seg)
	}
	return segs
}

// Drop takes segments out of a queue's log: views that are made from now on do not show them. The open one is sealed by it, without an index.
// Nobody appends meanwhile. The files stay until Remove.
func (s *Store) Drop(queue stages.QueueID, segs []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[queue]
	if q == nil {
		return
	}
	q.dropped = q.dropped.With(segs...)
	q.sealed = slices.DeleteFunc(slices.Clone(q.sealed), func(x *sealed) bool { return slices.Contains(segs, x.seg) })
	if q.open && slices.Contains(segs, q.tail.Seg) {
		if q.file != nil {
			q.file.done = true
		}
		q.open, q.entries, q.sorted, q.file = false, nil, nil, nil
	}
}

// Forget takes a deleted queue out of the store. The caller has seen to it that no state on the disk knows it, and removes its folder with Remove.
func (s *Store) Forget(queue stages.QueueID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[queue]; q != nil && q.file != nil {
		q.file.done = true
	}
	delete(s.queues, queue)
}

// Remove removes files of segments that were dropped, or of queues that were forgotten, and that no state on the disk names. Who reads one
// reads on: a file that is open or mapped stays whole. Who opens one later gets stages.ErrStaleRef. After a crash some may be left, which
// the next Settle removes.
func (s *Store) Remove(gone []Gone) error {
	for _, g := range gone {
		dir := s.queueDir(g.Queue)
		if g.Segments == nil {
			if err := s.o.FS.RemoveAll(dir); err != nil {
				return fmt.Errorf("remove the folder of queue %d: %w", g.Queue, err)
			}
			s.forgetFiles(g.Queue)
			s.mu.Lock()
			s.dirtyDirs = slices.DeleteFunc(s.dirtyDirs, func(d string) bool { return d == dir })
			s.mu.Unlock()
			s.markDir(s.o.Dir)
			continue
		}
		for _, seg := range g.Segments {
			for _, name := range []string{indexName(seg), segmentName(seg)} {
				path := s.o.FS.PathJoin(dir, name)
				if err := s.o.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("remove %s: %w", path, err)
				}
				s.handles.forget(path) // after that nobody opens it again
			}
			s.maps.forget(mapKey{g.Queue, seg})
		}
		s.markDir(dir)
	}
	return nil
}

// forgetFiles lets go of what readers keep open of a queue.
func (s *Store) forgetFiles(queue stages.QueueID) {
	s.maps.mu.Lock()
	for key, x := range s.maps.open {
		if key.queue == queue {
			s.maps.drop(x)
		}
	}
	s.maps.mu.Unlock()
	dir := s.queueDir(queue)
	s.handles.mu.Lock()
	var paths []string
	for path := range s.handles.open {
		if s.o.FS.PathDir(path) == dir {
			paths = append(paths, path)
		}
	}
	s.handles.mu.Unlock()
	for _, path := range paths {
		s.handles.forget(path)
	}
}

// Gone says whether a segment was dropped, or its queue forgotten.
func (s *Store) Gone(queue stages.QueueID, seg uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[queue]
	return q == nil || q.dropped.Has(seg)
}

// stale tells the absence of a file that was dropped, while a view or a listing still named it, from damage.
func (s *Store) stale(queue stages.QueueID, seg uint32, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !s.Gone(queue, seg) {
		return err
	}
	return fmt.Errorf("segment %d of queue %d was removed meanwhile: %w", seg, queue, stages.ErrStaleRef)
}

// Oldest returns the stamp of the first append at or above from. It reads one chunk of an index file at most.
func (v View) Oldest(from stages.Micros) (stages.Micros, bool, error) {
	i := sort.Search(len(v.sealed), func(i int) bool { return v.sealed[i].last >= from })
	if i < len(v.sealed) {
		x := v.sealed[i]
		if x.first >= from {
			return x.first, true, nil
		}
		c := sort.Search(len(x.chunks), func(c int) bool { return x.chunks[c].first >= from })
		oldest := x.last
		if c < len(x.chunks) {
			oldest = x.chunks[c].first
		}
		_, err := v.eachPiece(x, c-1, c, func(part []byte) (bool, error) {
			for ; len(part) > 0; part = part[entryLen:] {
				if ts := entryTS(part); ts >= from {
					oldest = min(oldest, ts)
					return false, nil
				}
			}
			return true, nil
		})
		return oldest, err == nil, err
	}
	if e := v.openBetween(from, maxStamp); len(e) > 0 {
		return entryTS(e), true, nil
	}
	return 0, false, nil
}

// maxStamp is above every stamp.
const maxStamp = stages.Micros(1<<63 - 1)
