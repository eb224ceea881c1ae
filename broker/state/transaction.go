package state

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"queen/broker/kv"
	"queen/broker/segment"
	"queen/stages"
)

// transaction collects the effects of one entry: rows for one pebble batch, frames for the segments. RAM is changed in place,
// under the write lock; if anything fails the state is at its end, so there is no way back to keep.
type transaction struct {
	s     *State
	rows  *pebble.Batch
	docs  *pebble.Batch // rows of documents, indexed so that they can be read back; nil until one is needed
	frame map[*queue][]segment.Frame
	order []*queue // keys of frame, by first use

	touched []*queue // whose ids may have to become rows
}

func (s *State) begin() *transaction {
	return &transaction{s: s, rows: s.db.NewBatch()}
}

// now is the stamp of the command that is being applied.
func (tx *transaction) now() stages.Micros { return tx.s.meta.now }

// set puts a row into the batch.
func (tx *transaction) set(key, value []byte) error { return tx.rows.Set(key, value, nil) }

// addFrame notes a frame for the log of a queue. Stamps of a queue rise from frame to frame or stay.
func (tx *transaction) addFrame(q *queue, f segment.Frame) {
	if tx.frame == nil {
		tx.frame = make(map[*queue][]segment.Frame)
	}
	if _, again := tx.frame[q]; !again {
		tx.order = append(tx.order, q)
	}
	tx.frame[q] = append(tx.frame[q], f)
}

// appendFrames appends the frames that were noted since it was called last to the segments and puts the new tails into the batch.
func (tx *transaction) appendFrames() error {
	for _, q := range tx.order {
		frames := tx.frame[q]
		refs, tail, err := tx.s.segments.Append(q.row.ID, frames)
		if err != nil {
			return fmt.Errorf("append to queue %d: %w", q.row.ID, err)
		}
		q.tail, q.last = tail, frames[len(frames)-1].TS
		for _, r := range refs {
			tx.s.noteRecent(q, int64(r.Len))
		}
		if err := tx.set(queueKey(tableTail, q.row.ID), appendTail(q.tail, q.last)); err != nil {
			return err
		}
	}
	tx.touched = append(tx.touched, tx.order...)
	tx.frame, tx.order = nil, nil
	return nil
}

// commit writes all rows of the entry as one batch. It is not synced: what is lost in a crash, raft replays.
func (tx *transaction) commit() error {
	if tx.docs != nil {
		if err := tx.rows.Apply(tx.docs, nil); err != nil {
			return err
		}
	}
	if err := tx.set([]byte{tableMeta}, tx.s.meta.append(nil)); err != nil {
		return err
	}
	return tx.rows.Commit(pebble.NoSync)
}

// close releases the batches, committed or not.
func (tx *transaction) close() {
	_ = tx.rows.Close() // a batch that is closed twice or was committed has nothing left to fail
	if tx.docs != nil {
		_ = tx.docs.Close()
	}
}

// documentTx is the transaction as package kv sees it, for one command.
type documentTx struct {
	*transaction
	ordered bool             // many rows may be looked up, in the order of their keys; then it has to be left
	gets    int              // since the last write
	reader  *pebble.Iterator // of the rows as they are since then; nil until there were many
}

var _ kv.Tx = (*documentTx)(nil)

// manyGets is how many rows are looked up one by one before an iterator is worth its making. A batch looks up its keys in order, so that
// each is a few rows from the one before, which costs less than looking for it in every level.
const manyGets = 8

// documents returns the transaction for changes of documents.
func (tx *transaction) documents() *documentTx {
	if tx.docs == nil {
		tx.docs = tx.s.db.NewIndexedBatch()
	}
	return &documentTx{transaction: tx}
}

// leave ends what Get has begun.
func (t *documentTx) leave() (err error) {
	if t.reader != nil {
		err = damage(t.reader.Close())
	}
	t.gets, t.reader = 0, nil
	return err
}

// Get implements kv.Tx.
func (t *documentTx) Get(key []byte) (row []byte, err error) {
	if t.gets++; !t.ordered || t.gets <= manyGets {
		return get(t.docs, key)
	}
	if t.reader == nil {
		if t.reader, err = t.docs.NewIter(nil); err != nil {
			return nil, damage(err)
		}
	}
	if !t.reader.SeekGE(key) || !bytes.Equal(t.reader.Key(), key) {
		return nil, damage(t.reader.Error())
	}
	v, err := t.reader.ValueAndErr()
	if err != nil {
		return nil, damage(err)
	}
	return append([]byte{}, v...), nil
}

// Set implements kv.Tx.
func (t *documentTx) Set(key, value []byte) error {
	return errors.Join(t.leave(), t.docs.Set(key, value, nil))
}

// Delete implements kv.Tx.
func (t *documentTx) Delete(key []byte) error { return errors.Join(t.leave(), t.docs.Delete(key, nil)) }

func (t *documentTx) Scan(lower, upper []byte, fn func(key, value []byte) bool) error {
	return scan(t.docs, lower, upper, fn)
}

func (t *documentTx) NextVersion() uint64 { return t.s.meta.nextVersion }

func (t *documentTx) SetNextVersion(v uint64) { t.s.meta.nextVersion = v }
