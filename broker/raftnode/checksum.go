package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// raft-wal keeps checksums of batches, and looks at none but the last one. So every entry carries its own, in the extensions
// that raft leaves to the store (docs/formats.md section 2.1): a version byte, a CRC32C of the entry, and the extensions that
// it came with. It covers all that raft acts on. AppendedAt is left out: raft only measures with it.
const (
	sumVersion = 1
	sumLen     = 1 + 4
)

var errEntryDamaged = errors.New("checksum differs, the entry is damaged")

// entrySum is the CRC32C of an entry whose extensions are ext.
func entrySum(e *raft.Log, ext []byte) uint32 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[0:], e.Index)
	binary.BigEndian.PutUint64(head[8:], e.Term)
	head[16] = byte(e.Type)
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Update(crc32.Update(0, table, head[:]), table, e.Data), table, ext)
}

// summed returns a copy of an entry that carries its checksum: raft still uses the entry itself.
func summed(e *raft.Log) *raft.Log {
	c := *e
	c.Extensions = binary.BigEndian.AppendUint32(append(make([]byte, 0, sumLen+len(e.Extensions)), sumVersion), entrySum(e, e.Extensions))
	c.Extensions = append(c.Extensions, e.Extensions...)
	return &c
}

// unsum verifies that e is entry index as it was stored, and takes the checksum off it.
func unsum(index uint64, e *raft.Log) error {
	switch x := e.Extensions; {
	case e.Index != index:
		return fmt.Errorf("entry %d is in its place: %w", e.Index, errEntryDamaged)
	case len(x) < sumLen:
		return fmt.Errorf("it carries no checksum: %w", errEntryDamaged)
	case binary.BigEndian.Uint32(x[1:]) != entrySum(e, x[sumLen:]):
		return errEntryDamaged
	case x[0] != sumVersion:
		return fmt.Errorf("its checksum has version %d, this binary reads %d", x[0], sumVersion)
	}
	if e.Extensions = e.Extensions[sumLen:]; len(e.Extensions) == 0 {
		e.Extensions = nil
	}
	return nil
}
