package segment

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/stages"
)

// Options says where a store lives.
type Options struct {
	FS         vfs.FS
	Dir        string // holds one folder per queue; Settle makes it when it is missing
	SealBytes  int64  // length from which on a segment is sealed; 0 = DefaultSealBytes. It may differ from boot to boot
	Generation uint32 // goes into every Ref; new at each boot, restore and rewrite
}

// Tail is the end of a queue's log: the number of its last segment and that file's length in bytes. The zero Tail is an empty log.
type Tail struct {
	Seg uint32
	Len int64
}

// Frame is one append to be stored. Body is a record block (AppendMessage) of Count records.
type Frame struct {
	Partition stages.PartitionID
	TS        stages.Micros
	Base      int64 // offset of the first record
	Count     int32 // records, at least 1
	Weight    int32 // bytes, see stages.RecordWeight
	Flags     uint32
	Body      []byte
}

// ErrShort says that the files of a queue hold less than its tail says. ShortError carries the numbers.
var ErrShort = errors.New("segment files are shorter than the state says")

// ShortError names a file that is missing (Found 0) or too short. It matches ErrShort.
type ShortError struct {
	File          string
	Wanted, Found int64 // bytes; Wanted is a lower bound where the file is missing
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("%s: holds %d bytes, %d are wanted", e.File, e.Found, e.Wanted)
}

// Unwrap returns ErrShort.
func (e *ShortError) Unwrap() error { return ErrShort }

// damaged names the file and the byte where stored data is not what was written.
func damaged(file string, off int64, why error) error {
	return fmt.Errorf("%s at byte %d: %w: %w", file, off, why, stages.ErrDamaged)
}

// Store is the segment logs of all queues of one node.
//
// One goroutine, the state machine, calls Attach, Settle and Append; Sync, View, Bodies and everything on a View may run
// beside it from any goroutine. mu guards what those share: the map of queues, and of each log the fields that View copies.
// The writer reads these fields without mu, since only it changes them.
//
//	Append:  encode all frames -> one WriteAt -> mark the file dirty -> publish entries and tail under mu -> seal when due
//	Sync:    take the dirty lists under mu -> fsync files -> fsync folders -> close what was sealed
//	View:    copy slice headers under mu
type Store struct {
	o       Options
	handles handles
	maps    maps
	buffers buffers

	syncing sync.Mutex // one Sync at a time: a second one must not return before the first one's files are durable

	unsettled []*attachment // at boot: attached, and the disk is still as it was

	mu        sync.Mutex
	queues    map[stages.QueueID]*queueLog
	files     map[*appendFile]struct{} // open for appending, or sealed and not yet durable
	dirtyDirs []string                 // in the order they became dirty
	uses      uint64                   // counts uses of append files, for closing the oldest
	failed    error                    // first failed write or fsync: the store takes nothing more
	closed    bool

	buf []byte // the writer's own
}

// queueLog is the log of one queue. Slices only grow, or are replaced (Drop); a View holds shorter copies of them.
type queueLog struct {
	id      stages.QueueID
	dir     string
	made    bool      // dir exists
	sealed  []*sealed // segments 1..n without those dropped
	dropped Dropped
	open    bool   // segment tail.Seg takes appends
	entries []byte // of the open segment, one of entryLen bytes per frame, in file order
	sorted  [][]uint32
	last    stages.Micros // stamp of the last frame; stages.Beginning when there is none
	tail    Tail
	file    *appendFile // of the open segment; nil until it is appended to
}

// Open changes nothing on the disk and reads nothing: Attach reads a queue, and Settle makes the disk ready for appends.
func Open(o Options) (*Store, error) {
	if o.FS == nil || o.Dir == "" {
		return nil, errors.New("segment store: file system or folder is not set")
	}
	if o.SealBytes < 0 {
		return nil, fmt.Errorf("segment store: seal at %d bytes", o.SealBytes)
	}
	if o.SealBytes == 0 {
		o.SealBytes = DefaultSealBytes
	}
	s := &Store{
		o:       o,
		handles: handles{fs: o.FS, open: make(map[string]*handle)},
		maps:    maps{fs: o.FS, open: make(map[mapKey]*mapping)},
		queues:  make(map[stages.QueueID]*queueLog),
		files:   make(map[*appendFile]struct{}),
	}
	return s, nil
}

// Append writes the frames of one call, in order, into one segment of the queue, and returns where each went and the new
// tail. The bytes are in the file but not durable until Sync. Stamps never fall within a queue. An error of the file system is
// for ever: this and every later call fails. A frame that breaks a rule is refused before anything is written.
func (s *Store) Append(queue stages.QueueID, frames []Frame) ([]stages.Ref, Tail, error) {
	s.mu.Lock()
	q, err := s.queues[queue], s.usable()
	s.mu.Unlock()
	if err != nil {
		return nil, Tail{}, err
	}
	if q == nil {
		q = s.newLog(queue)
	}
	if len(frames) == 0 {
		return nil, q.tail, nil
	}
	if err := q.check(frames); err != nil {
		return nil, Tail{}, fmt.Errorf("append to queue %d: %w", queue, err)
	}
	tail, entries := q.tail, q.entries
	buf := s.buf[:0]
	if !q.open {
		tail = Tail{Seg: q.tail.Seg + 1}
		entries = nil
		buf = appendSegmentHeader(buf, queue, tail.Seg)
	}
	if size := tail.Len + int64(len(buf)) + framesLen(frames); size > maxSegment {
		return nil, Tail{}, fmt.Errorf("append to queue %d: segment %d would have %d bytes", queue, tail.Seg, size)
	}
	refs := make([]stages.Ref, len(frames))
	for i, f := range frames {
		off := tail.Len + int64(len(buf))
		buf = appendFrame(buf, queue, f)
		length := tail.Len + int64(len(buf)) - off
		refs[i] = stages.Ref{Gen: s.o.Generation, Seg: tail.Seg, Off: uint32(off), Len: uint32(length)}
		h := head{partition: f.Partition, ts: f.TS, base: f.Base, count: f.Count, weight: f.Weight, flags: f.Flags}
		entries = appendEntry(entries, h, refs[i].Off, refs[i].Len)
	}
	if err := s.write(q, tail, buf); err != nil {
		return nil, Tail{}, s.fail(err)
	}
	if s.buf = buf; cap(buf) > keepBuffer {
		s.buf = nil
	}
	tail.Len += int64(len(buf))
	sorted := sortBlocks(q.sortedFor(tail.Seg), entries)
	s.mu.Lock()
	s.queues[queue] = q
	q.open, q.entries, q.sorted, q.tail, q.last = true, entries, sorted, tail, frames[len(frames)-1].TS
	s.mu.Unlock()
	if tail.Len >= s.o.SealBytes {
		if err := s.seal(q); err != nil {
			return nil, Tail{}, s.fail(err)
		}
	}
	return refs, tail, nil
}

// keepBuffer is how large a write buffer, or a read buffer in the pool, may be to be kept for the next call.
const keepBuffer = 4 << 20

func (s *Store) newLog(queue stages.QueueID) *queueLog {
	return &queueLog{id: queue, dir: s.queueDir(queue), last: stages.Beginning}
}

func framesLen(frames []Frame) (n int64) {
	for i := range frames {
		n += frameLen(len(frames[i].Body))
	}
	return n
}

// sortedFor returns the sorted blocks to grow when frames go into this segment.
func (q *queueLog) sortedFor(seg uint32) [][]uint32 {
	if q.tail.Seg != seg {
		return nil
	}
	return q.sorted
}

func (q *queueLog) check(frames []Frame) error {
	last := q.last
	for i := range frames {
		f := &frames[i]
		if f.TS < last {
			return fmt.Errorf("stamp %d is below %d", f.TS, last)
		}
		last = f.TS
		if err := checkNumbers(f.Base, f.Count, f.Weight, f.Flags); err != nil {
			return err
		}
		if len(f.Body) == 0 || len(f.Body) > maxBody {
			return fmt.Errorf("body of %d bytes", len(f.Body))
		}
	}
	return nil
}

// seal writes the index of the open segment and moves it to the sealed ones.
func (s *Store) seal(q *queueLog) error {
	positions := sortedPositions(q.entries)
	index := encodeIndex(q.id, q.tail.Seg, q.entries, positions)
	x := newSealed(q.tail.Seg, index)
	if err := s.writeFile(q, indexName(q.tail.Seg), index); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.file != nil {
		q.file.done = true
	}
	q.sealed = append(q.sealed, x)
	q.open, q.entries, q.sorted, q.file = false, nil, nil, nil
	return nil
}

// usable needs mu.
func (s *Store) usable() error {
	if s.closed {
		return errors.New("segment store is closed")
	}
	if s.failed != nil {
		return fmt.Errorf("segment store has failed before: %w", s.failed)
	}
	return nil
}

func (s *Store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
	return err
}

// View returns what the queue's log holds now. It is a small copy that stays valid and unchanged while the log grows.
func (s *Store) View(queue stages.QueueID) View {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := View{s: s, queue: queue}
	if q := s.queues[queue]; q != nil {
		v.dir, v.tail = q.dir, q.tail
		v.sealed = slices.Clip(q.sealed)
		v.entries = slices.Clip(q.entries)
		v.sorted = slices.Clip(q.sorted)
	}
	return v
}

// Close closes all files; those that a reader has under way go when it is done with them. It does not sync: what was not synced may be gone after a crash, as with any other stop. It is safe twice.
func (s *Store) Close() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if !s.closed {
		s.closed = true
		for f := range s.files {
			errs = append(errs, f.close())
		}
		s.files, s.dirtyDirs = nil, nil
	}
	s.handles.close()
	s.maps.close()
	return errors.Join(errs...)
}
