// Package dedup remembers transaction ids, so that a producer may repeat a push: per partition, for a window on the log clock,
// in buckets of an hour of which whole ones are dropped (docs/formats.md section 5, table D).
//
// It is pure over a small Tx. It decides nothing about a push: broker/state/push.go asks for each record and stores what was
// not found. Ids are kept on disk behind filters in RAM (filter.go), not in a map: an hour of traffic can hold hundreds of
// millions.
package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"queen/stages"
)

const (
	table      = 'D'
	rowVersion = 1
	span       = stages.Micros(3600) * second // of a bucket
	second     = stages.Micros(1_000_000)

	// minHorizon is the least time for which an id is kept, in seconds: an ack finds its message by it too.
	minHorizon = 900
)

// Sizes of a row, in bytes.
const (
	KeySize   = 1 + 8 + 4 + 8 + 16
	ValueSize = 1 + 8 + 8 + 16
)

// Key is the key of a row: queue, bucket, partition, hash.
type Key [KeySize]byte

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

// Tx is what this package needs of the state. Reads see earlier writes.
type Tx interface {
	// Get returns a row, nil when there is none; it is valid until the next call. Keys have KeySize bytes.
	Get(key []byte) ([]byte, error)
	Set(key, value []byte) error
	// DeleteRange removes the rows with lower <= key < upper.
	DeleteRange(lower, upper []byte) error
}

// Index is what RAM knows of the ids of one queue: which buckets hold rows, and filters in front of them. It is derived from
// the rows and decides nothing: without filters the same ids are found.
type Index struct {
	queue   stages.QueueID
	memory  *Memory
	buckets []bucket // in rising order
}

type bucket struct {
	number uint32
	filter *filter // nil = there is none
}

// NewIndex returns the index of a queue without ids.
func NewIndex(queue stages.QueueID, memory *Memory) *Index {
	return &Index{queue: queue, memory: memory}
}

// Find looks for an id among what was stored less than window ago; a record exactly as old as the window is outside.
func (x *Index) Find(tx Tx, p stages.PartitionID, h Hash, now, window stages.Micros) (Record, bool, error) {
	oldest := BucketOf(max(now-window, 0))
	for i := len(x.buckets) - 1; i >= 0 && x.buckets[i].number >= oldest; i-- {
		b := &x.buckets[i]
		if b.filter != nil && !b.filter.has(p, h) {
			continue
		}
		key := rowKey(x.queue, b.number, p, h)
		row, err := tx.Get(key[:])
		if err != nil {
			return Record{}, false, fmt.Errorf("dedup row %x: %w", key, err)
		}
		if row == nil {
			continue
		}
		r, err := decode(row)
		if err != nil {
			return Record{}, false, fmt.Errorf("dedup row %x: %w", key, err)
		}
		return r, now-r.Stamp < window, nil // older buckets hold only older records
	}
	return Record{}, false, nil
}

// Insert stores an id with the record that it came with, which is the newest of the queue. When the record begins a bucket,
// buckets that ended at least a horizon ago are dropped. Nothing but an insert opens or drops a bucket, so the set of
// buckets can always be read off the rows.
func (x *Index) Insert(tx Tx, p stages.PartitionID, h Hash, r Record, horizon stages.Micros) error {
	b, err := x.open(tx, r.Stamp, horizon)
	if err != nil {
		return err
	}
	if b.filter != nil && !b.filter.add(x.memory, p, h) {
		b.filter.release(x.memory)
		b.filter = nil
	}
	key := rowKey(x.queue, b.number, p, h)
	var value [ValueSize]byte
	value[0] = rowVersion
	binary.BigEndian.PutUint64(value[1:], uint64(r.Offset))
	binary.BigEndian.PutUint64(value[9:], uint64(r.Stamp))
	copy(value[17:], r.ID[:])
	return tx.Set(key[:], value[:])
}

// open returns the bucket of now, which is the newest one or becomes it.
func (x *Index) open(tx Tx, now, horizon stages.Micros) (*bucket, error) {
	current := BucketOf(now)
	if n := len(x.buckets); n > 0 && x.buckets[n-1].number == current {
		return &x.buckets[n-1], nil
	}
	keep := BucketOf(max(now-horizon, 0))
	gone := 0
	for gone < len(x.buckets) && x.buckets[gone].number < keep {
		x.buckets[gone].filter.release(x.memory)
		gone++
	}
	if gone > 0 {
		if err := tx.DeleteRange(bucketKey(x.queue, 0), bucketKey(x.queue, keep)); err != nil {
			return nil, fmt.Errorf("drop dedup buckets of queue %d: %w", x.queue, err)
		}
	}
	x.buckets = append(slices.Clone(x.buckets[gone:]), bucket{number: current, filter: &filter{}})
	return &x.buckets[len(x.buckets)-1], nil
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

// Rows reads the state at boot: it calls fn for the keys with lower <= key < upper, in byte order, until fn returns false.
type Rows func(lower, upper []byte, fn func(key []byte) bool) error

// Load returns the index of a queue as the rows have it. Buckets that are younger than a window get their filters back while
// budget, a number of rows over all queues, lasts.
func Load(queue stages.QueueID, memory *Memory, rows Rows, since stages.Micros, budget *int) (*Index, error) {
	x := NewIndex(queue, memory)
	end := bucketKey(queue+1, 0)
	for next := uint64(0); next <= math.MaxUint32; {
		found := false
		err := rows(bucketKey(queue, uint32(next)), end, func(key []byte) bool {
			if found = len(key) == KeySize; found {
				next = uint64(binary.BigEndian.Uint32(key[9:]))
			}
			return false
		})
		if err != nil {
			return nil, fmt.Errorf("dedup buckets of queue %d: %w", queue, err)
		}
		if !found {
			break
		}
		x.buckets = append(x.buckets, bucket{number: uint32(next)})
		next++
	}
	for i := len(x.buckets) - 1; i >= 0 && x.buckets[i].number >= BucketOf(max(since, 0)); i-- {
		if err := x.loadFilter(&x.buckets[i], rows, budget); err != nil {
			return nil, fmt.Errorf("dedup bucket %d of queue %d: %w", x.buckets[i].number, queue, err)
		}
	}
	return x, nil
}

// loadFilter builds the filter of a bucket of its rows.
func (x *Index) loadFilter(b *bucket, rows Rows, budget *int) error {
	f, complete := &filter{}, true
	err := rows(bucketKey(x.queue, b.number), rowKeyEnd(x.queue, b.number), func(key []byte) bool {
		*budget--
		complete = *budget >= 0 && len(key) == KeySize &&
			f.add(x.memory, stages.PartitionID(binary.BigEndian.Uint64(key[13:])), Hash(key[21:]))
		return complete
	})
	if err == nil && complete {
		b.filter = f
	} else {
		f.release(x.memory)
	}
	return err
}

// rowKeyEnd returns the first key behind the rows of a bucket.
func rowKeyEnd(queue stages.QueueID, bucket uint32) []byte {
	if bucket == math.MaxUint32 {
		return bucketKey(queue+1, 0)
	}
	return bucketKey(queue, bucket+1)
}

func bucketKey(queue stages.QueueID, bucket uint32) []byte {
	b := binary.BigEndian.AppendUint64([]byte{table}, uint64(queue))
	return binary.BigEndian.AppendUint32(b, bucket)
}

func rowKey(queue stages.QueueID, bucket uint32, p stages.PartitionID, h Hash) (key Key) {
	key[0] = table
	binary.BigEndian.PutUint64(key[1:], uint64(queue))
	binary.BigEndian.PutUint32(key[9:], bucket)
	binary.BigEndian.PutUint64(key[13:], uint64(p))
	copy(key[21:], h[:])
	return key
}

func decode(row []byte) (Record, error) {
	if len(row) != ValueSize {
		return Record{}, fmt.Errorf("%d bytes, not %d", len(row), ValueSize)
	}
	if row[0] != rowVersion {
		return Record{}, fmt.Errorf("version %d is unknown", row[0])
	}
	return Record{
		Offset: int64(binary.BigEndian.Uint64(row[1:])),
		Stamp:  stages.Micros(binary.BigEndian.Uint64(row[9:])),
		ID:     [16]byte(row[17:]),
	}, nil
}
