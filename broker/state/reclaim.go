package state

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"queen/broker/segment"
	"queen/stages"
)

// Files of what was removed. Removing is a matter of rows, the same on every node; this node's files follow when they can. A segment goes when
// nothing in it is there for anybody any more, and when no boot would read it: the heads count its frames, and its transaction ids are in rows.
//
//	Reclaim:  note its number in the F row -> take it out of the log in RAM -> flush the rows
//	Remove:   (package segment) remove the files, a while later
//
// A crash before the flush leaves the files and a state that knows them; one after it leaves files that the next boot removes, since the F row
// names them. What of the rows before the F row was committed (W, H, U) is on the disk with it. All of a segment goes or nothing does: what is removed
// is a stretch of the log, so at most one segment at each end of it, and of each open window, is dead in part.

// reclaimable notes that files of a queue may go.
func (s *State) reclaimable(q *queue) {
	if !q.reclaim {
		q.reclaim = true
		s.reclaim = append(s.reclaim, q)
	}
}

// Reclaiming reports whether files wait to be removed: that may need a flush.
func (s *State) Reclaiming() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.reclaim)+len(s.purged) > 0
}

// Reclaim returns files that nothing on this node's disk refers to any more; the caller removes them (segment.Store.Remove). It
// runs beside Apply, not beside Flush and Checkpoint.
func (s *State) Reclaim() ([]segment.Gone, error) {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	if s.closed {
		return nil, errors.New("reclaim: closed")
	}
	gone, err := s.drop()
	if err != nil || len(gone) == 0 {
		return nil, err
	}
	if err := s.flushRows(); err != nil {
		return nil, err
	}
	for _, g := range gone {
		if g.Segments == nil {
			s.segments.Forget(g.Queue)
		}
	}
	return gone, nil
}

// drop takes dead segments out of the logs.
func (s *State) drop() (gone []segment.Gone, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return nil, s.failed
	}
	for _, id := range s.purged {
		gone = append(gone, segment.Gone{Queue: id})
	}
	s.purged = nil
	rows := s.db.NewBatch()
	defer rows.Close()
	wait := s.reclaim[:0]
	for _, q := range s.reclaim {
		if s.queues[q.row.ID] != q { // deleted
			continue
		}
		segs, more := q.deadSegments(s.segments.View(q.row.ID))
		if q.reclaim = more; more {
			wait = append(wait, q)
		}
		if len(segs) == 0 {
			continue
		}
		q.dropped = q.dropped.With(segs...)
		if err := rows.Set(queueKey(tableDropped, q.row.ID), appendDropped(q.dropped), nil); err != nil {
			return nil, err
		}
		s.segments.Drop(q.row.ID, segs)
		gone = append(gone, segment.Gone{Queue: q.row.ID, Segments: segs})
	}
	s.reclaim = wait
	return gone, rows.Commit(pebble.NoSync)
}

// deadSegments returns the segments that may go now; more says that there are others, which a boot would read as things are.
func (q *queue) deadSegments(v segment.View) (segs []uint32, more bool) {
	below := q.heads.below
	if n, _ := q.ids.Pending(); n > 0 {
		ids := segment.Tail{}
		if q.idsBelow != nil {
			ids = q.idsBelow.below
		}
		if ids.Seg < below.Seg || ids.Seg == below.Seg && ids.Len < below.Len {
			below = ids
		}
	}
	live := func(first, last stages.Micros) bool { return len(q.removed.Live(first, last+1)) > 0 }
	all := v.Dead(q.tail, live)
	segs = v.Dead(below, func(first, last stages.Micros) bool { return last >= q.heads.removed || live(first, last) })
	return segs, len(segs) < len(all)
}
