package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"queen/broker/segment"
	"queen/stages"
)

// Crash order. pebble runs without its own log, so it keeps what was flushed and nothing else. Rows name places in segments
// (T), so before rows go to disk the frames below those places have to be there:
//
//	Flush:       sync segments -> put R and H rows -> flush pebble
//	FlushBegin:  sync segments
//
// pebble calls FlushBegin when it has fixed what goes into a flush and has written none of it, also for flushes that it
// starts by itself. Frames are written before the rows that name them are committed, so the sync there covers every row of
// the flush. It holds back commits while it runs; the first sync of Flush, outside all locks, is what keeps it short.

// Flush makes everything durable that is applied when it is called. What is applied meanwhile may be durable or not; a crash
// leaves the state at some applied index at or above the one it had here. It may run beside Apply.
func (s *State) Flush() error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	if s.closed {
		return errors.New("flush state: closed")
	}
	return s.flush()
}

func (s *State) flush() error {
	if err := s.segments.Sync(); err != nil {
		return s.stop(fmt.Errorf("sync segments: %w", err))
	}
	heads, err := s.takeDirty()
	if err != nil {
		return err
	}
	if err := s.writeHeads(heads); err != nil {
		return s.stop(fmt.Errorf("write heads: %w", err))
	}
	if err := s.db.Flush(); err != nil {
		return s.stop(fmt.Errorf("flush state: %w", err))
	}
	if err := s.unsynced.Load(); err != nil {
		return s.stop(*err)
	}
	return nil
}

// queueHeads are heads of a queue that count every frame below a place.
type queueHeads struct {
	queue stages.QueueID
	below segment.Tail
	heads []Partition
}

// takeDirty returns the heads that moved since the last flush and marks them clean.
func (s *State) takeDirty() ([]queueHeads, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return nil, s.failed
	}
	s.unflushed.Store(0)
	taken := make([]queueHeads, 0, len(s.dirty))
	for _, q := range s.dirty {
		t := queueHeads{queue: q.row.ID, below: q.tail, heads: make([]Partition, len(q.dirty))}
		for i, p := range q.dirty {
			t.heads[i], p.dirty = p.Partition, false
		}
		q.heads, q.dirty = q.tail, nil
		taken = append(taken, t)
	}
	s.dirty = nil
	return taken, nil
}

// writeHeads puts R rows and the H rows that say what they count into one batch.
func (s *State) writeHeads(taken []queueHeads) error {
	if len(taken) == 0 {
		return nil
	}
	rows := s.db.NewBatch()
	defer rows.Close()
	for _, t := range taken {
		for i := range t.heads {
			if err := rows.Set(partitionKey(t.queue, t.heads[i].ID), t.heads[i].append(nil), nil); err != nil {
				return err
			}
		}
		if err := rows.Set(queueKey(tableHeads, t.queue), appendHeads(t.below), nil); err != nil {
			return err
		}
	}
	return rows.Commit(pebble.NoSync)
}

// syncBeforeFlush is pebble's FlushBegin. It can't refuse the flush, so a sync that fails has to end the process.
func (s *State) syncBeforeFlush(pebble.FlushInfo) {
	if err := s.segments.Sync(); err != nil {
		err = fmt.Errorf("sync segments before a flush of the state: %w", err)
		s.unsynced.CompareAndSwap(nil, &err)
		s.opts.Fatal(err)
	}
}

// stop ends the state and the process.
func (s *State) stop(err error) error {
	s.mu.Lock()
	err = s.fail(err)
	s.mu.Unlock()
	s.opts.Fatal(err)
	return err
}

// Close flushes and closes the state; calling it again does nothing. Nobody applies or reads meanwhile or afterwards. The
// segment store stays open.
func (s *State) Close() error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.mu.RLock()
	failed := s.failed
	s.mu.RUnlock()
	var err error
	if failed == nil {
		err = s.flush()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(errors.New("closed"))
	return errors.Join(err, s.db.Close())
}
