// Package dedup remembers transaction ids, so that a producer may repeat a push: per partition, for a window on the log clock,
// in buckets of an hour of which whole ones are dropped (docs/formats.md section 5, tables I, U and D).
//
// It is pure over a small Tx. It decides nothing about a push: broker/state/push.go asks for each record and stores what was
// not found. Read this file, then recent.go (ids that are in RAM alone), store.go (how they become rows), filter.go (what
// spares look-ups), memory.go (where that lies), load.go (boot) and refill.go (behind it).
//
// A row an id would cost more than all else that is done for a record. So the newest ids of all queues, some thousands, are
// in RAM alone: the frames of the segments say them, and a boot reads them again. Now and then they all become rows, and rows
// hold many ids: those whose hashes begin with the same bits. When a bucket has grown, later ids go to rows that share
// more bits, so a row stays small however many ids there are (hundreds of millions an hour do not fit a map).
package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"queen/stages"
)

const (
	span   = stages.Micros(3600) * second // of a bucket
	second = stages.Micros(1_000_000)

	// minHorizon is the least time for which an id is kept, in seconds: an ack finds its message by it too.
	minHorizon = 900
)

// Hash is the first half of SHA-256 of a transaction id.
type Hash [16]byte

// HashOf returns the hash of a transaction id.
func HashOf(txID []byte) Hash {
	sum := sha256.Sum256(txID)
	return Hash(sum[:16])
}

// Record is the message that an id was first seen with.
type Record struct {
	Offset int64
	Stamp  stages.Micros
	ID     [16]byte // message id
}

// Tx is what this package needs of the state.
type Tx interface {
	// Get calls read with the row of a key as it was before the entry that is being applied; not when there is none.
	Get(key []byte, read func(row []byte) error) error
	// Append appends to the row of a key, or begins it.
	Append(key, value []byte) error
	// DeleteRange removes the rows with lower <= key < upper.
	DeleteRange(lower, upper []byte) error
}

// Shared is what the indexes of all queues of a state have in common. Its fields are set before the first id comes.
type Shared struct {
	Seed [16]byte // of the cluster: who chooses ids must not choose which rows they go to
	Left int64    // bytes that filters may still take. Ids whose filter would not fit have none

	recent int // ids that are in RAM alone
}

// Recent returns how many ids of all queues are in RAM alone.
func (s *Shared) Recent() int { return s.recent }

// Index finds the ids of one queue.
//
// Invariants: an id is in recent or in a row, and what is in recent is newer than any row. Between two entries, the ids in
// recent are all of the newest bucket, and are those of the frames behind the place in the queue's U row; broker/state
// stores them in the entry that begins a bucket. Nothing but an insert begins or drops a bucket, so the buckets can be read off
// the rows. Filters decide nothing: without them the same ids are found.
type Index struct {
	queue   stages.QueueID
	shared  *Shared
	buckets []bucket // in rising order
	recent  recent
	begun   bool // a bucket was begun since the last Store
}

type bucket struct {
	number uint32
	stored uint64  // ids in its levels; known of the newest bucket only
	levels []level // in rising order, which is the order in which they were filled
	single *level  // rows of one id each, older than the levels; nil = there are none
}

// level is rows that share the same number of bits.
type level struct {
	number uint8
	filter filter  // nil = there is none
	refill *Refill // nil, or what makes one: it is told of all ids that are stored meanwhile
}

// NewIndex returns the index of a queue without ids.
func NewIndex(queue stages.QueueID, shared *Shared) *Index {
	return &Index{queue: queue, shared: shared}
}

// Find looks for an id among what was stored less than window ago; a record exactly as old as the window is outside. Of
// records with one id the newest counts.
func (x *Index) Find(tx Tx, p stages.PartitionID, h Hash, now, window stages.Micros) (Record, bool, error) {
	at := x.shared.placeOf(p, h)
	if r, found := x.recent.find(id{at, p, h}); found {
		kept := BucketOf(r.Stamp) >= x.buckets[0].number // false when this very entry dropped its bucket
		return r, kept && now-r.Stamp < window, nil
	}
	oldest := BucketOf(max(now-window, 0))
	for i := len(x.buckets) - 1; i >= 0 && x.buckets[i].number >= oldest; i-- {
		r, found, err := x.inBucket(tx, &x.buckets[i], at, p, h)
		if err != nil || found {
			return r, found && now-r.Stamp < window, err // older rows hold only older records
		}
	}
	return Record{}, false, nil
}

// inBucket looks for an id in the rows of a bucket. Nearly always the filters say that there is none.
func (x *Index) inBucket(tx Tx, b *bucket, at place, p stages.PartitionID, h Hash) (Record, bool, error) {
	for i := len(b.levels) - 1; i >= 0; i-- {
		l := &b.levels[i]
		if l.filter != nil && !l.filter.has(at) {
			continue
		}
		if r, found, err := inRow(tx, groupKey(x.queue, b.number, l.number, at.group(l.number)), p, h); found || err != nil {
			return r, found, err
		}
	}
	if b.single == nil || b.single.filter != nil && !b.single.filter.has(at) {
		return Record{}, false, nil
	}
	return inRow(tx, singleKey(x.queue, b.number, p, h), p, h)
}

// inRow looks for an id in a row of either table.
func inRow(tx Tx, key []byte, p stages.PartitionID, h Hash) (r Record, found bool, err error) {
	err = tx.Get(key, func(row []byte) (err error) {
		if key[0] == tableGroup {
			r, found, err = newestIn(row, p, h)
			return err
		}
		r, err = decodeSingle(row)
		found = err == nil
		return err
	})
	if err != nil {
		return Record{}, false, fmt.Errorf("dedup row %x: %w", key, err)
	}
	return r, found, nil
}

// Insert remembers an id with the record that it came with, which is the newest of the queue. When the record begins a bucket,
// buckets that ended at least a horizon ago are dropped.
func (x *Index) Insert(tx Tx, p stages.PartitionID, h Hash, r Record, horizon stages.Micros) error {
	if err := x.begin(tx, r.Stamp, horizon); err != nil {
		return err
	}
	x.remember(p, h, r)
	return nil
}

func (x *Index) remember(p stages.PartitionID, h Hash, r Record) {
	x.recent.add(entry{id{x.shared.placeOf(p, h), p, h}, r})
	x.shared.recent++
}

// Recall remembers an id of a frame that was stored in an earlier life and that no row has yet. The index was loaded, and the
// bucket is the newest one.
func (x *Index) Recall(p stages.PartitionID, h Hash, r Record) error {
	if n := len(x.buckets); n == 0 || x.buckets[n-1].number != BucketOf(r.Stamp) {
		return fmt.Errorf("ids of a frame at %d are in no row, and their bucket is not the newest: %w", r.Stamp, stages.ErrDamaged)
	}
	x.remember(p, h, r)
	return nil
}

// begin makes the bucket of now the newest one.
func (x *Index) begin(tx Tx, now, horizon stages.Micros) error {
	current := BucketOf(now)
	if n := len(x.buckets); n > 0 && x.buckets[n-1].number == current {
		return nil
	}
	keep := BucketOf(max(now-horizon, 0))
	gone := 0
	for gone < len(x.buckets) && x.buckets[gone].number < keep {
		x.buckets[gone].release(x.shared)
		gone++
	}
	if gone > 0 {
		for _, table := range []byte{tableGroup, tableSingle} {
			if err := tx.DeleteRange(bucketKey(table, x.queue, 0), bucketKey(table, x.queue, keep)); err != nil {
				return fmt.Errorf("drop dedup buckets of queue %d: %w", x.queue, err)
			}
		}
	}
	x.buckets = append(slices.Clone(x.buckets[gone:]), bucket{number: current})
	x.begun = true
	return nil
}

// release gives back what the filters of a bucket take.
func (b *bucket) release(shared *Shared) {
	for i := range b.levels {
		l := &b.levels[i]
		l.filter.release(shared)
		if l.refill != nil {
			l.refill.filter.release(shared)
		}
		l.filter, l.refill = nil, nil
	}
	if b.single != nil {
		b.single.filter.release(shared)
	}
}

// place says where an id goes: its high bits choose rows and the block of a filter, both words the bits in the block.
type place struct{ high, low uint64 }

// placeOf mixes a partition and a hash with the seed: 128-bit products, both halves xored.
func (s *Shared) placeOf(p stages.PartitionID, h Hash) place {
	a := binary.BigEndian.Uint64(h[:8]) ^ binary.BigEndian.Uint64(s.Seed[:8])
	b := binary.BigEndian.Uint64(h[8:]) ^ binary.BigEndian.Uint64(s.Seed[8:]) ^ uint64(p)*0x9e3779b97f4a7c15
	return place{fold(a^0x2d358dccaa6c78a5, b^0x8bb84b93962eacc9), fold(a^0x4b33a62ed433d4a3, b^0x4d5a2da51de1aa47)}
}

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// Horizon returns for how long ids of a queue are kept, given two of its options in seconds.
func Horizon(dedupWindow, completedRetention int64) stages.Micros {
	return Seconds(max(dedupWindow, completedRetention, minHorizon))
}

// Seconds returns a span that an option gives in seconds; negative ones count as 0, and it never overflows.
func Seconds(n int64) stages.Micros {
	const most = int64(1) << 62 / int64(second)
	return stages.Micros(min(max(n, 0), most)) * second
}

// BucketOf returns the bucket of a stamp, which is not negative.
func BucketOf(stamp stages.Micros) uint32 { return uint32(stamp / span) }
