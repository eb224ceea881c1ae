package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

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
//
// FlushBegin can't refuse a flush, and a sync that failed ends the process but not at once. So from that moment pebble gets no
// new file (gate): a flush has to write its rows into one. It waits there until the process ends, or until Close, which
// then loses what was not flushed before: raft replays it.

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
	return s.flushRows()
}

// flushRows flushes pebble.
func (s *State) flushRows() error {
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return s.stop(fmt.Errorf("flush state: %w", err))
	}
	select {
	case <-flushed:
		return nil
	case <-s.unsynced:
		return s.stop(s.cause)
	}
}

// queueHeads are heads of a queue that count every frame below a place.
type queueHeads struct {
	queue stages.QueueID
	row   heads
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
		t := queueHeads{queue: q.row.ID, row: heads{q.tail, q.removed.Below}, heads: make([]Partition, len(q.dirty))}
		for i, p := range q.dirty {
			t.heads[i], p.dirty = p.Partition, false
		}
		q.heads, q.dirty, q.soiled = t.row, nil, false
		taken = append(taken, t)
	}
	s.dirty = nil
	s.goneMu.Lock()
	defer s.goneMu.Unlock()
	clear(s.gone)
	return taken, nil
}

// writeHeads puts R rows and the H rows that say what they count into one batch.
func (s *State) writeHeads(taken []queueHeads) error {
	if len(taken) == 0 {
		return nil
	}
	rows := s.db.NewBatch()
	defer rows.Close()
	s.goneMu.Lock() // until they are committed: a queue that is purged in between removes them again
	defer s.goneMu.Unlock()
	for _, t := range taken {
		if s.gone[t.queue] {
			continue
		}
		for i := range t.heads {
			if err := rows.Set(partitionKey(t.queue, t.heads[i].ID), t.heads[i].append(nil), nil); err != nil {
				return err
			}
		}
		if err := rows.Set(queueKey(tableHeads, t.queue), t.row.append(), nil); err != nil {
			return err
		}
	}
	return rows.Commit(pebble.NoSync)
}

// syncBeforeFlush is pebble's FlushBegin.
func (s *State) syncBeforeFlush(pebble.FlushInfo) {
	err := s.segments.Sync()
	if err == nil {
		return
	}
	s.unsync1.Do(func() {
		s.cause = fmt.Errorf("state: sync segments before a flush of the state: %w", err)
		close(s.unsynced)
	})
	s.fatal(s.cause)
}

// gate is the disk as pebble sees it: it makes no file any more once the segments could not be synced.
type gate struct {
	vfs.FS
	unsynced, closing <-chan struct{}
}

var _ vfs.FS = gate{}

// Create makes a file, or fails when the state closes. pebble holds no lock when it makes the file of a flush.
func (g gate) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	select {
	case <-g.unsynced:
		<-g.closing
		return nil, errors.New("the segments could not be synced")
	default:
		return g.FS.Create(name, category)
	}
}

// Unwrap returns the disk itself.
func (g gate) Unwrap() vfs.FS { return g.FS }

// stop ends the state and the process.
func (s *State) stop(err error) error {
	s.mu.Lock()
	err = s.fail(err)
	s.mu.Unlock()
	s.fatal(err)
	return err
}

// Close flushes and closes the state; calling it again does nothing. Nobody applies or reads meanwhile or afterwards. The
// segment store stays open.
func (s *State) Close() error {
	if s.broken() {
		s.unblock1.Do(func() { close(s.closing) }) // first: pebble may wait there with a flush that an Apply waits for
	}
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
	if s.begun && failed == nil && !s.broken() {
		err = s.flush()
	}
	s.unblock1.Do(func() { close(s.closing) })
	s.mu.Lock()
	s.fail(errors.New("closed")) // no Apply begins to make filters any more
	s.mu.Unlock()
	s.refills.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	return err
}
