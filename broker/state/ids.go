package state

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"queen/broker/dedup"
	"queen/broker/segment"
	"queen/stages"
)

// Transaction ids. The newest ones of all queues are in RAM alone (package dedup): the U row of a queue says up to which place of
// its log they are in rows. The frames behind it are read again at boot, and then the same ids are in RAM as before. When they
// become rows follows from the entries alone, so every node has the same rows at the same index:
//
//   - those of a queue, at the end of the entry that begins a bucket for it, or that removes the last of its records: the frames that they
//     are read from may go (reclaim.go);
//   - all, at the end of the entry with which there are more than maxRecent, or maxRecentBytes of frames to read at boot.

// Bounds of what is in RAM alone at the end of an entry.
const (
	maxRecent      = 16 << 10 // ids, 1 MB: pushes wait while they become rows, some milliseconds
	maxRecentBytes = 64 << 20 // of the frames that they are of
)

// idPlace says which ids of a queue are in rows.
type idPlace struct {
	below  segment.Tail // of the frames below this place
	stored uint64       // and how many of them are of the newest bucket; 0 where an earlier build wrote them
}

func (p idPlace) append() []byte {
	return binary.BigEndian.AppendUint64(appendPlace(p.below), p.stored)
}

func decodeIDPlace(row []byte) (p idPlace, err error) {
	r, err := versioned(row)
	if err != nil {
		return p, err
	}
	p = idPlace{below: segment.Tail{Seg: r.U32(), Len: r.I64()}, stored: r.U64()}
	return p, r.End()
}

// idTx is the transaction as package dedup sees it.
type idTx struct{ *transaction }

var _ dedup.Tx = idTx{}

func (t idTx) Get(key []byte, read func(row []byte) error) error {
	v, done, err := t.s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return damage(err)
	}
	return errors.Join(read(v), done.Close())
}

// Append relies on pebble's own merger, which puts values behind each other.
func (t idTx) Append(key, value []byte) error { return t.rows.Merge(key, value, nil) }

func (t idTx) DeleteRange(lower, upper []byte) error { return t.rows.DeleteRange(lower, upper, nil) }

// noteRecent counts frames of a queue whose ids are in RAM alone.
func (s *State) noteRecent(q *queue, bytes int64) {
	q.recentBytes += bytes
	s.recentBytes += bytes
	if !q.unstored {
		q.unstored = true
		s.unstored = append(s.unstored, q)
	}
}

// storeIDs moves ids from RAM to rows where it is due. The frames of the entry are in the segments.
func (tx *transaction) storeIDs() error {
	s := tx.s
	if s.ids.Recent() > s.maxRecent || s.recentBytes > s.maxRecentBytes {
		for _, q := range s.unstored {
			q.unstored = false
			if err := tx.storeIDsOf(q); err != nil {
				return err
			}
		}
		s.unstored = s.unstored[:0]
		return nil
	}
	for _, q := range tx.touched {
		if _, begun := q.ids.Pending(); (begun || q.dead()) && s.queues[q.row.ID] == q {
			if err := tx.storeIDsOf(q); err != nil {
				return err
			}
			s.startRefill([]stages.QueueID{q.row.ID}) // an hour of ids may have gone, and left memory for what had none
		}
	}
	return nil
}

func (tx *transaction) storeIDsOf(q *queue) error {
	if n, _ := q.ids.Pending(); n == 0 {
		return nil
	}
	if err := q.ids.Store(idTx{tx}); err != nil {
		return err
	}
	tx.s.recentBytes -= q.recentBytes
	q.recentBytes = 0
	q.idsBelow = &idPlace{below: q.tail, stored: q.ids.Stored()}
	return tx.set(queueKey(tableIDs, q.row.ID), q.idsBelow.append())
}

func (s *State) loadIDPlace(key, row []byte) error {
	q, err := s.owner(key)
	if err == nil {
		q.idsBelow = new(idPlace)
		*q.idsBelow, err = decodeIDPlace(row)
	}
	return err
}

// storedIDs is how many ids of the newest bucket are in rows, at boot.
func (q *queue) storedIDs() uint64 {
	if q.idsBelow == nil {
		return 0
	}
	return q.idsBelow.stored
}

// loadIDs reads which ids of a queue are remembered; budget is a number of ids over all queues.
func (s *State) loadIDs(q *queue, budget *int) error {
	id := q.row.ID
	if q.idsBelow == nil {
		q.idsBelow = &idPlace{below: q.tail}
		if q.tail != (segment.Tail{}) { // an earlier build wrote a row for every id
			if err := s.db.Set(queueKey(tableIDs, id), q.idsBelow.append(), pebble.NoSync); err != nil {
				return err
			}
		}
	}
	place := *q.idsBelow
	var err error
	if q.ids, err = dedup.Load(id, &s.ids, s.rows, s.meta.now-q.idTimes().window, budget, place.stored); err != nil {
		return err
	}
	var frames []stages.Header
	for h, err := range s.segments.View(id).After(place.below) {
		if err != nil {
			return err
		}
		frames = append(frames, h)
	}
	list := segment.Pick(id, frames)
	return s.segments.Bodies(context.Background(), &list, list.Appends, func(i int, b stages.Body) error {
		s.noteRecent(q, int64(frames[i].Ref.Len))
		return recall(q, frames[i], b)
	})
}

// recall remembers the ids of a frame.
func recall(q *queue, h stages.Header, b stages.Body) error {
	offset := h.Base
	var scratch [36]byte
	for m, err := range segment.MessagesOf(b) {
		if err != nil {
			return err
		}
		r := dedup.Record{Offset: offset, Stamp: h.TS, ID: m.ID}
		if err := q.ids.Recall(h.Partition, dedup.HashOf(segment.TxText(m, scratch[:0])), r); err != nil {
			return fmt.Errorf("partition %d, offset %d: %w", h.Partition, offset, err)
		}
		offset++
	}
	return nil
}

// rows hands rows to fn until it returns false.
func (s *State) rows(lower, upper []byte, fn func(key, value []byte) bool) error {
	return scan(s.db, lower, upper, fn)
}
