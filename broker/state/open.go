package state

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/broker/command"
	"queen/broker/dedup"
	"queen/stages"
)

// Sizes of pebble. Rows are small and most look-ups are for transaction ids that are not there, which filters answer.
const (
	cacheBytes    = 32 << 20
	memTableBytes = 32 << 20
	filterBits    = 10 // per key: one look-up in a hundred reads a block in vain

	idFilterBytes = 64 << 20 // for the filters in RAM that spare most look-ups of transaction ids
	loadFilters   = 2 << 20  // ids that are read at boot to have them again; more would take seconds
)

// Open opens or makes the state in a folder, cuts the segments back to what it knows, and brings the heads up to date with the
// frames that were appended after they were last written. Apply goes on at the entry after Applied.
func Open(o Options) (*State, error) {
	if o.Dir == "" || o.Segments == nil || o.Fatal == nil {
		return nil, errors.New("open state: Dir, Segments and Fatal have to be set")
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	s := &State{
		opts: o, segments: o.Segments,
		meta:    meta{nextQueue: 1, nextPartition: 1, nextVersion: 1},
		filters: dedup.Memory{Left: idFilterBytes},
		tenants: make(map[[16]byte]*tenant), queues: make(map[stages.QueueID]*queue),
	}
	var err error
	if s.db, err = pebble.Open(o.Dir, s.pebbleOptions()); err != nil {
		return nil, fmt.Errorf("open state %s: %w", o.Dir, damage(err))
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open state %s: %w", o.Dir, err), s.db.Close())
	}
	s.now.Store(int64(s.meta.now))
	s.applied.Store(s.meta.applied)
	return s, nil
}

func (s *State) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS: s.opts.FS, DisableWAL: true, FormatMajorVersion: pebble.FormatNewest,
		CacheSize: cacheBytes, MemTableSize: memTableBytes, Logger: quiet{s.opts.Fatal},
		EventListener: &pebble.EventListener{
			FlushBegin:      s.syncBeforeFlush,
			BackgroundError: func(err error) { s.opts.Fatal(fmt.Errorf("state: %w", damage(err))) },
			DataCorruption:  func(pebble.DataCorruptionInfo) {}, // it is an error of who reads; by default pebble calls Fatalf as well
		},
	}
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
	}
	for _, t := range []struct {
		table byte
		read  func(key, row []byte) error
	}{
		{tableQueue, s.loadQueue},
		{tablePartition, s.loadPartition},
		{tableTail, s.loadTail},
		{tableHeads, s.loadHeads},
	} {
		if err := s.loadTable(t.table, t.read); err != nil {
			return err
		}
	}
	return s.loadLogs()
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

// loadLogs cuts the segments to the tails, and counts the frames that the heads do not have yet.
func (s *State) loadLogs() error {
	known := func(id stages.QueueID) bool { return s.queues[id] != nil }
	if err := s.segments.Forget(known); err != nil {
		return err
	}
	reader, budget := &Reader{s: s}, loadFilters
	for _, id := range reader.QueueIDs() {
		q := s.queues[id]
		if err := s.segments.Attach(id, q.tail); err != nil {
			return fmt.Errorf("queue %d: %w", id, err)
		}
		if err := s.catchUp(q); err != nil {
			return fmt.Errorf("queue %d: %w", id, err)
		}
		since := s.meta.now - dedup.Seconds(q.row.Int(command.OptDedupWindowSeconds))
		var err error
		if q.ids, err = dedup.Load(id, &s.filters, s.keys, since, &budget); err != nil {
			return err
		}
	}
	return nil
}

// keys hands keys to fn until it returns false.
func (s *State) keys(lower, upper []byte, fn func(key []byte) bool) error {
	return scan(s.db, lower, upper, func(key, _ []byte) bool { return fn(key) })
}

// catchUp moves the heads of a queue over the frames behind its H row.
func (s *State) catchUp(q *queue) error {
	if q.heads == q.tail {
		return nil
	}
	for h, err := range s.segments.View(q.row.ID).After(q.heads) {
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
	return nil
}
