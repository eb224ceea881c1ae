package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"github.com/hashicorp/raft-wal/types"
	"github.com/rs/zerolog"
)

// The file of the mark (docs/formats.md section 1.1).
const (
	markFile    = "acked"
	markSlots   = 2
	markSpacing = 512 // bytes from slot to slot, so that a torn sector takes one of them
	markLen     = 20
	markMagic   = "QACK"
	markVersion = 1
)

// mark is the side file that tells a damaged end of the raft log from a torn one. When the last batch of the log is not whole,
// its bytes cannot say whether the power went while it was written, and nobody was told of it, or whether it was whole once
// and acknowledged. The mark can: it is the highest index that was stored, written before anybody is answered.
//
// It is a lower bound, written in place and not synced with each entry:
//
//   - after a kill the page cache still has it: it is exact;
//   - after a power loss it may be older, and never newer, since the entry was synced before the mark was written.
//
// It alternates between two slots, so that a torn write leaves the other one. A damaged slot is named in the log and written
// again; when both are damaged, or the mark is not there while the log has entries, the node does not start.
//
// On one node nothing that was stored is ever taken back. With more nodes a follower stores entries, and says so, which a later leader
// may overrule: then the mark is lowered, durably in both slots, before they are removed (lower). A power loss between leaves a mark
// that is too low, which is a weaker bound and no wrong one.
type mark struct {
	path  string
	file  types.WritableFile
	index atomic.Uint64   // noted
	slots [markSlots]bool // which slots hold a whole record
	next  int             // slot that is written next
	blank bool            // neither slot was ever written
}

// openMark reads the mark. What it changes on the disk is at most an empty file, so that a refusal leaves all as it was.
func openMark(dir string, files types.VFS, log zerolog.Logger) (*mark, error) {
	m := &mark{path: filepath.Join(dir, markFile)}
	var err error
	m.file, err = files.OpenWriter(dir, markFile)
	if errors.Is(err, fs.ErrNotExist) {
		m.blank = true
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", m.path, err)
	}
	if err := m.read(log); err != nil {
		return nil, errors.Join(err, m.file.Close())
	}
	return m, nil
}

func (m *mark) read(log zerolog.Logger) error {
	text := make([]byte, markSlots*markSpacing)
	if _, err := m.file.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) { // a short file has blank slots
		return fmt.Errorf("read %s: %w", m.path, err)
	}
	m.blank = true
	whole, newest := 0, 0
	var faults []error
	for i := range markSlots {
		slot := text[i*markSpacing:][:markLen]
		if string(slot) == string(make([]byte, markLen)) {
			continue
		}
		m.blank = false
		index, err := decodeMark(slot)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s, slot %d: %w", m.path, i, err))
			continue
		}
		m.slots[i] = true
		if whole++; whole == 1 || index > m.index.Load() {
			m.index.Store(index)
			newest = i
		}
	}
	switch {
	case len(faults) == 0:
	case whole == 0:
		return fmt.Errorf("%w (and no other record: %d damaged): it cannot be told whether the raft log is whole, restore the folder from a copy",
			faults[0], len(faults))
	default:
		log.Warn().Str("file", m.path).Uint64("index", m.index.Load()).AnErr("fault", faults[0]).
			Msg("one of two records of the last acknowledged entry is damaged: the other one is used, and it is written again")
	}
	m.next = (newest + 1) % markSlots
	return nil
}

func encodeMark(index uint64) []byte {
	b := append(make([]byte, 0, markLen), markMagic...)
	b = binary.BigEndian.AppendUint16(b, markVersion)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint64(b, index)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

func decodeMark(b []byte) (uint64, error) {
	const body = markLen - 4
	if string(b[:4]) != markMagic || crc32.Checksum(b[:body], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(b[body:]) {
		return 0, errors.New("checksum differs, the record is damaged")
	}
	if v := binary.BigEndian.Uint16(b[4:]); v != markVersion {
		return 0, fmt.Errorf("version %d is not known", v)
	}
	if binary.BigEndian.Uint16(b[6:]) != 0 {
		return 0, errors.New("reserved bytes are set")
	}
	return binary.BigEndian.Uint64(b[8:]), nil
}

// check refuses a log that ends before the mark. where names what was read.
func (m *mark) check(where string, last uint64) error {
	switch {
	case last < m.index.Load():
		return fmt.Errorf("%s: the log ends with entry %d but entry %d was acknowledged (%s): its end is damaged or lost, restore the folder from a copy",
			where, last, m.index.Load(), m.path)
	case m.blank && last > 0:
		return fmt.Errorf("%s is missing or empty but the log ends with entry %d: it cannot be told whether that is the whole log, restore the folder from a copy",
			m.path, last)
	}
	return nil
}

// begin brings the file into order for notes: both slots hold a record, durably, before anything is acknowledged.
func (m *mark) begin(dir string, files types.VFS) (err error) {
	if m.file == nil {
		if m.file, err = files.Create(dir, markFile, markSlots*markSpacing); err != nil {
			return fmt.Errorf("create %s: %w", m.path, err)
		}
	}
	written := false
	for i := range markSlots {
		if m.slots[i] {
			continue
		}
		m.next, written = i, true
		if err := m.write(m.index.Load()); err != nil {
			return err
		}
	}
	m.blank = false
	if !written {
		return nil
	}
	return m.sync()
}

// note says that all entries up to index are stored for good. One goroutine calls it.
func (m *mark) note(index uint64) error {
	if index <= m.index.Load() {
		return nil
	}
	m.index.Store(index)
	return m.write(index)
}

// lower takes the mark back to index, durably, before entries behind it are removed. The goroutine of note calls it.
func (m *mark) lower(index uint64) error {
	if index >= m.index.Load() {
		return nil
	}
	for range markSlots {
		if err := m.write(index); err != nil {
			return err
		}
	}
	if err := m.sync(); err != nil {
		return err
	}
	m.index.Store(index)
	return nil
}

func (m *mark) write(index uint64) error {
	if _, err := m.file.WriteAt(encodeMark(index), int64(m.next*markSpacing)); err != nil {
		return fmt.Errorf("write %s: %w", m.path, err)
	}
	m.slots[m.next] = true
	m.next = (m.next + 1) % markSlots
	return nil
}

// sync makes what was noted durable. It may run beside note.
func (m *mark) sync() error {
	if err := m.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", m.path, err)
	}
	return nil
}

func (m *mark) close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}
