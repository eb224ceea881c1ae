package state

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/broker/dedup"
	"queen/broker/segment"
	"queen/stages"
)

// Sizes of pebble. Rows are small and most look-ups are for transaction ids that are not there, which filters answer.
const (
	cacheBytes    = 32 << 20
	memTableBytes = 32 << 20
	filterBits    = 10 // per key: one look-up in a hundred reads a block in vain

	// For the filters in RAM of transaction ids. They take 2 to 4 bytes an id that was pushed in the last hour or two, and less when that does not
	// fit. Without one every id that is pushed is looked for on disk, and a push takes many times as long.
	defaultFilters = 512 << 20
	loadFilters    = 4 << 20 // ids that are read at boot to have them again. More would take seconds: they follow while the node serves (refill.go)
)

// Open is Load and Begin.
func Open(o Options) (*State, error) {
	s, err := Load(o)
	if err != nil {
		return nil, err
	}
	if err := s.Begin(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Load reads the state in a folder and verifies that the segments hold what it names. It changes nothing on the disk: Begin
// removes for good what the state does not know, so the caller looks first whether the raft log has it (Applied, Seed). A
// folder without a state is an empty state.
func Load(o Options) (*State, error) {
	if o.Dir == "" || o.Segments == nil || o.Fatal == nil {
		return nil, errors.New("open state: Dir, Segments and Fatal have to be set")
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Filters == 0 {
		o.Filters = defaultFilters
	}
	s := &State{
		opts: o, segments: o.Segments,
		meta: meta{nextQueue: 1, nextPartition: 1, nextVersion: 1},
		ids:  dedup.Shared{Left: o.Filters}, maxRecent: maxRecent, maxRecentBytes: maxRecentBytes, loadFilters: loadFilters,
		tenants: make(map[[16]byte]*tenant), queues: make(map[stages.QueueID]*queue),
		gone:     make(map[stages.QueueID]bool),
		unsynced: make(chan struct{}), closing: make(chan struct{}),
	}
	if err := s.open(true); err != nil {
		return nil, err
	}
	if s.db != nil {
		if err := s.load(); err != nil {
			return nil, errors.Join(fmt.Errorf("open state %s: %w", o.Dir, err), s.db.Close())
		}
	}
	s.now.Store(int64(s.meta.now))
	s.applied.Store(s.meta.applied)
	return s, nil
}

// Begin cuts the segments back to what the state knows, makes the state ready for Apply, which goes on at the entry after
// Applied, and brings the heads up to date with the frames that were appended after they were last written.
func (s *State) Begin() error {
	if s.db != nil {
		err := s.db.Close()
		s.db = nil
		if err != nil {
			return fmt.Errorf("open state %s: %w", s.opts.Dir, err)
		}
	}
	if err := s.segments.Settle(); err != nil {
		return err
	}
	if err := s.open(false); err != nil {
		return err
	}
	s.begun = true
	if err := s.loadLogs(); err != nil {
		return fmt.Errorf("open state %s: %w", s.opts.Dir, err)
	}
	return nil
}

// open opens pebble. When it is only read, a folder without a database leaves db nil.
func (s *State) open(readOnly bool) error {
	o := s.pebbleOptions()
	if o.ReadOnly = readOnly; readOnly {
		switch found, err := pebble.Peek(s.opts.Dir, o.FS); {
		case errors.Is(err, fs.ErrNotExist): // no folder
			return nil
		case err != nil:
			return fmt.Errorf("open state %s: %w", s.opts.Dir, damage(err))
		case !found.Exists:
			return nil
		}
	}
	var err error
	if s.db, err = pebble.Open(s.opts.Dir, o); err != nil {
		s.db = nil
		return fmt.Errorf("open state %s: %w", s.opts.Dir, damage(err))
	}
	return nil
}

func (s *State) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS: gate{s.opts.FS, s.unsynced, s.closing}, DisableWAL: true, FormatMajorVersion: pebble.FormatNewest,
		CacheSize: cacheBytes, MemTableSize: memTableBytes, Logger: quiet{s.fatal},
		EventListener: &pebble.EventListener{
			FlushBegin:      s.syncBeforeFlush,
			BackgroundError: func(err error) { s.fatal(fmt.Errorf("state: %w", damage(err))) },
			DataCorruption:  func(pebble.DataCorruptionInfo) {}, // it is an error of who reads; by default pebble calls Fatalf as well
		},
	}
	// What is flushed is soon rewritten to a lower level, and most of it is hashes.
	o.Levels[0].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	return o
}

// quiet is the log of pebble: what matters comes as an error or an event.
type quiet struct{ fatal func(error) }

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}

// Fatalf ends the process: pebble calls it when it can't go on, and does not expect it to return.
func (q quiet) Fatalf(format string, args ...any) {
	err := fmt.Errorf("state: "+format, args...)
	q.fatal(err)
	panic(err)
}

// load reads all rows that RAM holds.
func (s *State) load() error {
	row, err := get(s.db, []byte{tableMeta})
	if err != nil {
		return err
	}
	if row != nil {
		if s.meta, err = decodeMeta(row); err != nil {
			return fmt.Errorf("meta row: %w", err)
		}
		s.ids.Seed = s.meta.seed
	}
	for _, t := range []struct {
		table byte
		read  func(key, row []byte) error
	}{
		{tableQueue, s.loadQueue},
		{tableHidden, s.loadHidden},
		{tablePartition, s.loadPartition},
		{tableTail, s.loadTail},
		{tableHeads, s.loadHeads},
		{tableRemoved, s.loadRemoved},
		{tableDropped, s.loadDropped},
		{tableIDs, s.loadIDPlace},
	} {
		if err := s.loadTable(t.table, t.read); err != nil {
			return err
		}
	}
	return s.attachLogs()
}

// loadTable hands every row of a table to read.
func (s *State) loadTable(table byte, read func(key, row []byte) error) error {
	var fault error
	err := scan(s.db, []byte{table}, []byte{table + 1}, func(key, row []byte) bool {
		if len(key) < 9 {
			fault = fmt.Errorf("row %q: short key", key)
		} else if err := read(key, row); err != nil {
			fault = fmt.Errorf("row %q: %w", key, err)
		}
		return fault == nil
	})
	return errors.Join(err, fault)
}

func (s *State) loadQueue(key, row []byte) error {
	q, err := decodeQueue(stages.QueueID(binary.BigEndian.Uint64(key[1:])), row)
	if err == nil {
		s.addQueue(q)
	}
	return err
}

// owner returns the queue that a key names.
func (s *State) owner(key []byte) (*queue, error) {
	q := s.queues[stages.QueueID(binary.BigEndian.Uint64(key[1:]))]
	if q == nil {
		return nil, errors.New("no such queue")
	}
	return q, nil
}

func (s *State) loadPartition(key, row []byte) error {
	q, err := s.owner(key)
	if err != nil {
		return err
	}
	if len(key) != 17 {
		return errors.New("bad key")
	}
	p, err := decodePartition(stages.PartitionID(binary.BigEndian.Uint64(key[9:])), row)
	if err == nil {
		q.addPartition(p)
	}
	return err
}

func (s *State) loadTail(key, row []byte) error {
	q, err := s.owner(key)
	if err == nil {
		q.tail, q.last, err = decodeTail(row)
	}
	return err
}

func (s *State) loadHeads(key, row []byte) error {
	q, err := s.owner(key)
	if err == nil {
		q.heads, err = decodeHeads(row)
	}
	return err
}

// attachLogs verifies that the segments hold what the tails name. Files of another log, even of the right length, end with another
// stamp.
func (s *State) attachLogs() error {
	for _, id := range (&Reader{s: s}).QueueIDs() {
		q := s.queues[id]
		if err := s.segments.Attach(id, q.tail, q.dropped); err != nil {
			return fmt.Errorf("queue %d: %w", id, err)
		}
		if last := s.segments.Last(id); q.tail != (segment.Tail{}) && !q.dropped.Has(q.tail.Seg) && last != q.last {
			return fmt.Errorf("queue %d: its segments end with stamp %d, the state says %d: they are not of this log: %w", id, last, q.last, stages.ErrDamaged)
		}
	}
	return nil
}

// loadLogs counts the frames that the heads do not have yet, and reads which transaction ids are remembered: of queues with few first, so that
// one with many does not take the time of all.
func (s *State) loadLogs() error {
	ids := (&Reader{s: s}).QueueIDs()
	for _, id := range ids {
		q := s.queues[id]
		if err := s.catchUp(q); err != nil {
			return fmt.Errorf("queue %d: %w", id, err)
		}
		if q.removed.Below > 0 {
			s.reclaimable(q)
		}
	}
	slices.SortStableFunc(ids, func(a, b stages.QueueID) int {
		return cmp.Compare(s.queues[a].storedIDs(), s.queues[b].storedIDs())
	})
	budget := s.loadFilters
	for _, id := range ids {
		if err := s.loadIDs(s.queues[id], &budget); err != nil {
			return fmt.Errorf("transaction ids of queue %d: %w", id, err)
		}
	}
	s.startRefill(ids)
	return nil
}

// catchUp moves the heads of a queue over the frames behind its H row.
func (s *State) catchUp(q *queue) error {
	view := s.segments.View(q.row.ID)
	if q.heads.below == q.tail {
		return s.catchUpStart(q, view)
	}
	for h, err := range view.After(q.heads.below) {
		if err != nil {
			return err
		}
		p := q.byID(h.Partition)
		switch {
		case p == nil:
			return fmt.Errorf("a frame at %d names partition %d, which is not there: %w", h.TS, h.Partition, stages.ErrDamaged)
		case h.Base != p.Next:
			return fmt.Errorf("partition %q: a frame begins at offset %d, not %d: %w", p.Name, h.Base, p.Next, stages.ErrDamaged)
		}
		s.grow(q, p, h.Base+int64(h.Count), h.TS)
	}
	return s.catchUpStart(q, view)
}

// catchUpStart moves the lowest offsets of a queue over what was removed since its H row.
func (s *State) catchUpStart(q *queue, view segment.View) error {
	if q.hidden {
		s.passAll(q)
		return nil
	}
	if q.heads.removed == q.removed.Below {
		return nil
	}
	for h, err := range view.Headers(q.heads.removed, q.removed.Below) {
		if err != nil {
			return err
		}
		if p := q.byID(h.Partition); p != nil {
			s.passed(q, p, h)
		}
	}
	s.soil(q)
	return nil
}
