package dedup

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"queen/stages"
)

const (
	tableGroup  = 'I'
	tableSingle = 'D' // written by earlier builds
	rowVersion  = 1

	recordSize      = 1 + 8 + 16 + 8 + 8 + 16
	groupKeySize    = 1 + 8 + 4 + 1 + 4
	singleKeySize   = 1 + 8 + 4 + 8 + 16
	singleValueSize = 1 + 8 + 8 + 16

	firstLevelIDs = 64   // up to so many ids of a bucket go to level 0, and to each later level four times as many
	groupIDs      = 1024 // a level has a row for so many of them
)

// levelOf returns the level to which ids go that fill a bucket up to so many.
func levelOf(ids uint64) (number uint8) {
	for number < 18 && levelIDs(number) < ids {
		number++
	}
	return number
}

// levelIDs is up to how many ids of a bucket go to a level.
func levelIDs(number uint8) uint64 { return firstLevelIDs << (2 * number) }

// groupBits is how many bits the ids in a row of a level share: a row for every groupIDs.
func groupBits(number uint8) int { return max(0, 2*int(number)-4) }

// group returns the row of a level in which an id is.
func (at place) group(level uint8) uint32 { return uint32(at.high >> (64 - groupBits(level))) }

// Pending returns how many ids are in RAM alone, and whether they have to be stored before the entry ends.
func (x *Index) Pending() (ids int, begun bool) { return len(x.recent.entries), x.begun }

// Stored returns how many ids of the newest bucket are in rows. Load needs it again.
func (x *Index) Stored() uint64 {
	if n := len(x.buckets); n > 0 {
		return x.buckets[n-1].stored
	}
	return 0
}

// Store moves the ids that are in RAM alone to rows.
func (x *Index) Store(tx Tx) error {
	entries := x.recent.entries
	for i := range x.buckets { // those of dropped buckets are left out
		b := &x.buckets[i]
		from, _ := slices.BinarySearchFunc(entries, int64(b.number), compareBucket)
		end, _ := slices.BinarySearchFunc(entries, int64(b.number)+1, compareBucket)
		if from == end {
			continue
		}
		if err := x.storeIn(tx, b, entries[from:end]); err != nil {
			return fmt.Errorf("store ids of queue %d: %w", x.queue, err)
		}
	}
	x.shared.recent -= len(entries)
	x.recent.clear(len(entries) > keepEntries && len(entries) <= mostKept)
	x.begun = false
	return nil
}

// Drop removes all ids of a queue that is deleted.
func (x *Index) Drop(tx Tx) error {
	for _, table := range []byte{tableGroup, tableSingle} {
		if err := tx.DeleteRange(bucketKey(table, x.queue, 0), bucketKey(table, x.queue+1, 0)); err != nil {
			return fmt.Errorf("drop ids of queue %d: %w", x.queue, err)
		}
	}
	for i := range x.buckets {
		x.buckets[i].release(x.shared)
	}
	x.shared.recent -= len(x.recent.entries)
	x.buckets, x.recent, x.begun = nil, recent{}, false
	return nil
}

// keepEntries is how many ids a queue must have had in RAM to keep their memory: it is so busy that it needs it again at once. Few
// queues can be.
const keepEntries = 4 << 10

// mostKept is how many ids' memory is kept at most: one huge push must not leave it to a queue that then falls silent.
const mostKept = 32 << 10

func compareBucket(e entry, number int64) int {
	return cmp.Compare(int64(BucketOf(e.record.Stamp)), number)
}

// storeIn writes the rows of a bucket.
func (x *Index) storeIn(tx Tx, b *bucket, entries []entry) error {
	l := x.levelFor(b, uint64(len(entries)))
	var row []byte
	order := byGroup(entries, l.number)
	for i, o := range order {
		e := &entries[uint32(o)]
		row = appendRecord(row, e)
		if l.filter != nil {
			l.filter.add(e.at)
		}
		if l.refill != nil {
			l.refill.beside(e.at)
		}
		if i+1 < len(order) && order[i+1]>>32 == o>>32 {
			continue
		}
		if err := tx.Append(groupKey(x.queue, b.number, l.number, uint32(o>>32)), row); err != nil {
			return err
		}
		row = row[:0]
	}
	b.stored += uint64(len(entries))
	return nil
}

// levelFor returns the level for so many more ids of a bucket, which is the newest one or becomes it.
func (x *Index) levelFor(b *bucket, more uint64) *level {
	number := levelOf(b.stored + more)
	n := len(b.levels)
	begins := n == 0 || b.levels[n-1].number < number
	if begins {
		b.levels = append(b.levels, level{number: number})
	}
	l := &b.levels[len(b.levels)-1]
	if begins || l.filter != nil { // a filter that lacks ids would be none
		l.filter.grow(x.shared, l.number, more, levelIDs(l.number)-min(b.stored, levelIDs(l.number)))
	}
	return l
}

// byGroup returns the groups of entries, shifted by 32 bits, with the places of the entries behind them, in the order of the groups.
// Entries of one group stay in their order.
func byGroup(entries []entry, level uint8) []uint64 {
	order, next := make([]uint64, len(entries)), make([]uint64, len(entries))
	for i := range entries {
		order[i] = uint64(entries[i].at.group(level))<<32 | uint64(i)
	}
	for done, bits := 0, groupBits(level); done < bits; done += 8 { // a pass for each byte of the groups
		shift := 32 + done
		var ends [257]uint32
		for _, o := range order {
			ends[o>>shift&0xff+1]++
		}
		for i := range 256 {
			ends[i+1] += ends[i]
		}
		for _, o := range order {
			next[ends[o>>shift&0xff]] = o
			ends[o>>shift&0xff]++
		}
		order, next = next, order
	}
	return order
}

func appendRecord(dst []byte, e *entry) []byte {
	dst = append(dst, rowVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.partition))
	dst = append(dst, e.hash[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.record.Offset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.record.Stamp))
	return append(dst, e.record.ID[:]...)
}

func recordAt(b []byte) (p stages.PartitionID, h Hash) {
	return stages.PartitionID(binary.BigEndian.Uint64(b[1:])), Hash(b[9:25])
}

// checkGroup refuses a row that is not records of the known version.
func checkGroup(row []byte) error {
	if len(row) == 0 || len(row)%recordSize != 0 {
		return fmt.Errorf("%d bytes, not a multiple of %d", len(row), recordSize)
	}
	for i := 0; i < len(row); i += recordSize {
		if row[i] != rowVersion {
			return fmt.Errorf("version %d is unknown", row[i])
		}
	}
	return nil
}

// newestIn finds the last record of an id in a row: rows grow at their end.
func newestIn(row []byte, p stages.PartitionID, h Hash) (r Record, found bool, err error) {
	if err := checkGroup(row); err != nil {
		return r, false, err
	}
	for i := len(row) - recordSize; i >= 0; i -= recordSize {
		b := row[i : i+recordSize]
		if q, g := recordAt(b); q != p || g != h {
			continue
		}
		return Record{
			Offset: int64(binary.BigEndian.Uint64(b[25:])),
			Stamp:  stages.Micros(binary.BigEndian.Uint64(b[33:])),
			ID:     [16]byte(b[41:]),
		}, true, nil
	}
	return r, false, nil
}

// decodeSingle reads a row of one id.
func decodeSingle(row []byte) (Record, error) {
	if len(row) != singleValueSize {
		return Record{}, fmt.Errorf("%d bytes, not %d", len(row), singleValueSize)
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

func bucketKey(table byte, queue stages.QueueID, bucket uint32) []byte {
	b := binary.BigEndian.AppendUint64([]byte{table}, uint64(queue))
	return binary.BigEndian.AppendUint32(b, bucket)
}

func groupKey(queue stages.QueueID, bucket uint32, level uint8, group uint32) []byte {
	key := append(make([]byte, 0, groupKeySize), bucketKey(tableGroup, queue, bucket)...)
	return binary.BigEndian.AppendUint32(append(key, level), group)
}

func singleKey(queue stages.QueueID, bucket uint32, p stages.PartitionID, h Hash) []byte {
	key := append(make([]byte, 0, singleKeySize), bucketKey(tableSingle, queue, bucket)...)
	return append(binary.BigEndian.AppendUint64(key, uint64(p)), h[:]...)
}
