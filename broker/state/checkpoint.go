package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/broker/segment"
	"queen/stages"
)

// Point is where a state in a folder stands.
type Point struct {
	Applied uint64   // raft index of the last entry in it, 0 when it is empty
	Seed    [16]byte // of the cluster; zeros before it was founded
	Tails   []QueueTail
}

// QueueTail is the end of a queue's log as a state has it.
type QueueTail struct {
	Queue   stages.QueueID
	Tail    segment.Tail
	Dropped segment.Dropped // segments below it that the state does without
}

// Checkpoint makes everything durable that is applied when it is called, and then puts the rows as they are on the disk into a new folder,
// made of hard links and of small files. Segments hold, durably, every frame that those rows name. It may run beside Apply,
// which it holds up no longer than a flush does; the rows are those of some applied index, which ReadPoint tells.
func (s *State) Checkpoint(dir string) error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	if s.closed {
		return errors.New("checkpoint of the state: closed")
	}
	if err := s.flush(); err != nil { // pebble leaves out what was not flushed
		return err
	}
	if err := s.db.Checkpoint(dir); err != nil {
		return fmt.Errorf("checkpoint of the state: %w", err)
	}
	return nil
}

// ReadPoint says where the state in a folder stands, and changes nothing in it but a lock file. A folder without a state is empty.
func ReadPoint(disk vfs.FS, dir string) (p Point, err error) {
	found, err := pebble.Peek(dir, disk)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !found.Exists {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read state %s: %w", dir, damage(err))
	}
	db, err := pebble.Open(dir, &pebble.Options{FS: disk, ReadOnly: true, Logger: quiet{func(error) {}},
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}})
	if err != nil {
		return p, fmt.Errorf("read state %s: %w", dir, damage(err))
	}
	if err = errors.Join(readPoint(db, &p), db.Close()); err != nil {
		return p, fmt.Errorf("read state %s: %w", dir, err)
	}
	return p, nil
}

func readPoint(db *pebble.DB, p *Point) error {
	row, err := get(db, []byte{tableMeta})
	if err != nil || row == nil {
		return err
	}
	m, err := decodeMeta(row)
	if err != nil {
		return fmt.Errorf("meta row: %w", err)
	}
	p.Applied, p.Seed = m.applied, m.seed
	var fault error
	err = scan(db, []byte{tableTail}, []byte{tableTail + 1}, func(key, row []byte) bool {
		if len(key) != 9 {
			fault = fmt.Errorf("row %q: bad key", key)
			return false
		}
		tail, _, err := decodeTail(row)
		if err != nil {
			fault = fmt.Errorf("row %q: %w", key, err)
			return false
		}
		t := QueueTail{Queue: stages.QueueID(binary.BigEndian.Uint64(key[1:])), Tail: tail}
		t.Dropped, fault = readDropped(db, t.Queue)
		p.Tails = append(p.Tails, t)
		return fault == nil
	})
	return errors.Join(err, fault)
}

func readDropped(db *pebble.DB, id stages.QueueID) (segment.Dropped, error) {
	row, err := get(db, queueKey(tableDropped, id))
	if err != nil || row == nil {
		return nil, err
	}
	return decodeDropped(row)
}
