package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"queen/stages"
)

// attachment is one queue at boot. Attach verifies everything below the tail and changes nothing on the disk; Settle does the
// rest, once the caller knows that the log holds what is about to go. Each step of it leaves a folder that the next boot with
// the same tail brings to the same end:
//
//	temporary files go             nobody reads them
//	missing indexes are rebuilt    each is written to a temporary name, synced, renamed
//	indexes behind the tail go, folder synced    before the cut, so that no index outlives the frames it names
//	higher segments go, last is cut, folder synced
type attachment struct {
	s        *Store
	q        *queueLog
	to       Tail
	dropped  Dropped
	segments map[uint32]int64 // number -> length of the .seg file
	indexes  map[uint32]bool
	temps    []string  // names of temporary files
	lost     []lost    // indexes that have to be written again
	behind   []string  // names that go
	free     sync.Pool // buffers of index files
}

// lost is a sealed segment without a usable index.
type lost struct {
	seg uint32
	end int64 // of its frames
}

// Attach takes over the files of a queue at boot: `to` and `dropped` are what the state stores. Files may hold more, which Settle removes from
// the disk for good, and so may segments that were dropped; but not less (ErrShort). Damage below the tail in anything that is scanned, and a tail that is not the
// end of a frame, wraps stages.ErrDamaged and names file and place. Nothing on the disk is changed. Between Attach and Settle
// the queue's last stamp can be read, and nothing else.
func (s *Store) Attach(queue stages.QueueID, to Tail, dropped Dropped) error {
	s.mu.Lock()
	known, err := s.queues[queue], s.usable()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if known != nil {
		return fmt.Errorf("attach queue %d: it is attached already", queue)
	}
	a := &attachment{s: s, q: s.newLog(queue), to: to, dropped: dropped, segments: make(map[uint32]int64), indexes: make(map[uint32]bool)}
	if err := a.list(); err != nil {
		return fmt.Errorf("attach queue %d: %w", queue, err)
	}
	if err := a.verify(); err != nil {
		return fmt.Errorf("attach queue %d: %w", queue, err)
	}
	a.q.tail, a.q.dropped = to, dropped
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[queue] = a.q
	s.unsettled = append(s.unsettled, a)
	return nil
}

// Last returns the stamp of the last frame of an attached queue, stages.Beginning when it has none.
func (s *Store) Last(queue stages.QueueID) stages.Micros {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[queue]; q != nil {
		return q.last
	}
	return stages.Beginning
}

// Settle brings the disk to what was attached: for each such queue everything behind its tail goes, and indexes that were
// missing are written; the folders of all other queues go too, since they were made by entries that the state will apply
// again. Call it once, after the last Attach and before the first Append.
func (s *Store) Settle() error {
	if err := s.makeDir(s.o.Dir); err != nil {
		return err
	}
	for _, a := range s.unsettled {
		if err := a.settle(); err != nil {
			return fmt.Errorf("settle queue %d: %w", a.q.id, err)
		}
	}
	s.unsettled = nil
	return s.forget()
}

func (a *attachment) settle() error {
	if !a.q.made {
		return nil
	}
	a.s.markDir(a.s.o.Dir)
	for _, name := range a.temps {
		if err := a.s.o.FS.Remove(a.path(name)); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
		a.s.markDir(a.q.dir)
	}
	for _, l := range a.lost {
		if err := a.rebuild(l); err != nil {
			return err
		}
	}
	return a.cut()
}

// list reads the folder, and notes what lies behind the tail.
func (a *attachment) list() error {
	fsys, dir := a.s.o.FS, a.q.dir
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	a.q.made = true
	slices.Sort(names)
	for _, name := range names {
		seg, ext, ok := parseName(name)
		switch {
		case !ok:
		case a.dropped.Has(seg) && (ext == segmentExt || ext == indexExt):
			a.behind = append(a.behind, name)
		case ext == segmentExt && seg <= a.to.Seg:
			info, err := fsys.Stat(fsys.PathJoin(dir, name))
			if err != nil {
				return fmt.Errorf("stat %s: %w", name, err)
			}
			a.segments[seg] = info.Size()
		case ext == indexExt && seg <= a.to.Seg:
			a.indexes[seg] = true
		case ext == segmentExt || ext == indexExt:
			a.behind = append(a.behind, name)
		case ext == segmentExt+tempExt || ext == indexExt+tempExt:
			a.temps = append(a.temps, name)
		}
	}
	return nil
}

func (a *attachment) path(name string) string { return a.s.o.FS.PathJoin(a.q.dir, name) }

// verify fills the log with what lies below the tail. Sealed segments are looked at beside each other: there may be thousands, and a start
// waits for them.
func (a *attachment) verify() error {
	found := make([]attached, a.to.Seg)
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for seg := uint32(1); seg <= a.to.Seg; seg++ {
		if a.dropped.Has(seg) {
			continue
		}
		work.Go(func() (err error) {
			found[seg-1], err = a.look(seg)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	for _, x := range found {
		if x.seg == 0 { // dropped
			continue
		}
		if x.first < a.q.last {
			return damaged(a.path(segmentName(x.seg)), segmentHeaderLen, fmt.Errorf("stamp %d after %d", x.first, a.q.last))
		}
		a.take(x)
	}
	return nil
}

// attached is what was found of one segment.
type attached struct {
	seg         uint32
	first, last stages.Micros
	sealed      *sealed // nil: it takes appends
	lost        bool    // and its index has to be written again
	end         int64   // of its frames
	entries     []byte  // of the one that takes appends
}

// take adds a segment to the log, in rising order.
func (a *attachment) take(x attached) {
	a.q.last = x.last
	if x.sealed == nil {
		a.q.open, a.q.entries, a.q.sorted = true, x.entries, sortBlocks(nil, x.entries)
		if a.indexes[x.seg] {
			a.behind = append(a.behind, indexName(x.seg))
		}
		return
	}
	a.q.sealed = append(a.q.sealed, x.sealed)
	if x.lost {
		a.lost = append(a.lost, lost{x.seg, x.end})
	}
}

// look reads one segment, and changes nothing: it runs beside others.
func (a *attachment) look(seg uint32) (attached, error) {
	size, ok := a.segments[seg]
	wanted := int64(segmentHeaderLen + frameHeaderLen)
	if seg == a.to.Seg {
		wanted = max(wanted, a.to.Len)
	}
	if !ok || size < wanted {
		return attached{}, &ShortError{File: a.path(segmentName(seg)), Wanted: wanted, Found: size}
	}
	if seg < a.to.Seg || a.to.Len >= a.s.o.SealBytes {
		return a.lookSealed(seg, size)
	}
	return a.lookLast(seg)
}

// lookSealed takes a sealed segment by its index, or by scanning it when the index is no use.
func (a *attachment) lookSealed(seg uint32, size int64) (attached, error) {
	end := size
	if seg == a.to.Seg {
		end = a.to.Len
	}
	x, err := a.readIndex(seg)
	if err != nil {
		return attached{}, err
	}
	if x != nil && x.size > size {
		return attached{}, &ShortError{File: a.path(segmentName(seg)), Wanted: x.size, Found: size}
	}
	missing := x == nil || x.size != end || end != size
	if missing {
		entries, err := a.scan(seg, end)
		if err != nil {
			return attached{}, err
		}
		x = newSealed(seg, a.index(seg, entries))
	} else if err := a.checkHeader(seg); err != nil {
		return attached{}, err
	}
	return attached{seg: seg, first: x.first, last: x.last, sealed: x, lost: missing, end: end}, nil
}

// readIndex returns nil when there is no usable index.
func (a *attachment) readIndex(seg uint32) (*sealed, error) {
	if !a.indexes[seg] {
		return nil, nil
	}
	path := a.path(indexName(seg))
	f, err := a.s.o.FS.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	b, readErr := a.read(f)
	defer a.free.Put(&b)
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("close %s: %w", path, err)
	}
	if readErr != nil {
		return nil, nil // unreadable is as good as missing
	}
	x, err := decodeIndex(b, a.q.id, seg)
	if err != nil {
		return nil, nil
	}
	return x, nil
}

// read reads a whole file into a buffer that is used again: there are thousands, of megabytes each.
func (a *attachment) read(f vfs.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var b []byte
	if old, ok := a.free.Get().(*[]byte); ok {
		b = *old
	}
	if n := int(info.Size()); cap(b) < n {
		b = make([]byte, n)
	} else {
		b = b[:n]
	}
	_, err = io.ReadFull(io.NewSectionReader(f, 0, info.Size()), b)
	return b, err
}

func (a *attachment) checkHeader(seg uint32) error {
	path := a.path(segmentName(seg))
	f, err := a.s.o.FS.Open(path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	b := make([]byte, segmentHeaderLen)
	if err := errors.Join(readFull(f, path, b, 0), f.Close()); err != nil {
		return err
	}
	if err := checkSegmentHeader(b, a.q.id, seg); err != nil {
		return damaged(path, 0, err)
	}
	return nil
}

func (a *attachment) scan(seg uint32, end int64) ([]byte, error) {
	return scan(a.s.o.FS, a.path(segmentName(seg)), end, a.q.id, seg)
}

func (a *attachment) index(seg uint32, entries []byte) []byte {
	return encodeIndex(a.q.id, seg, entries, sortedPositions(entries))
}

// rebuild writes the index of a sealed segment again. The segment is scanned once more: all indexes of a log that lost
// them would take too much memory from Attach to here.
func (a *attachment) rebuild(l lost) error {
	entries, err := a.scan(l.seg, l.end)
	if err != nil {
		return err
	}
	return a.s.writeFile(a.q, indexName(l.seg), a.index(l.seg, entries))
}

// lookLast takes the open segment up to the tail.
func (a *attachment) lookLast(seg uint32) (attached, error) {
	path := a.path(segmentName(seg))
	entries, err := a.scan(seg, a.to.Len)
	if err != nil {
		var short *ShortError
		if errors.As(err, &short) { // the file is long enough: the tail is not the end of a frame
			return attached{}, damaged(path, a.to.Len, errors.New("the tail that the state stores lies inside a frame"))
		}
		return attached{}, err
	}
	return attached{seg: seg, first: entryTS(entries), last: entryTS(entryAt(entries, len(entries)/entryLen-1)), entries: entries}, nil
}

// cut removes what lies behind the tail and makes that, and the rebuilt indexes, durable.
func (a *attachment) cut() error {
	slices.SortFunc(a.behind, func(x, y string) int { return compareNames(y, x) }) // indexes first, highest number first
	for i, name := range a.behind {
		if i > 0 && isIndex(a.behind[i-1]) && !isIndex(name) {
			if err := a.s.syncDir(a.q.dir); err != nil {
				return err
			}
		}
		if err := a.s.o.FS.Remove(a.path(name)); err != nil {
			return fmt.Errorf("remove %s: %w", a.path(name), err)
		}
	}
	if err := a.s.syncDir(a.q.dir); err != nil {
		return err
	}
	if size := a.segments[a.to.Seg]; size > a.to.Len && !a.dropped.Has(a.to.Seg) {
		return a.s.truncate(a.q.dir, a.path(segmentName(a.to.Seg)), a.to.Len)
	}
	return nil
}

func isIndex(name string) bool {
	_, ext, _ := parseName(name)
	return ext == indexExt
}

// compareNames orders segments before indexes, then by number.
func compareNames(a, b string) int {
	if isIndex(a) != isIndex(b) {
		if isIndex(a) {
			return 1
		}
		return -1
	}
	return slices.Compare([]byte(a), []byte(b))
}
