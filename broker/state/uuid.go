package state

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"
)

// Kinds of ids that users see as UUIDs.
const (
	KindQueue     byte = 'q'
	KindPartition byte = 'p'
)

// UUID returns the UUID under which users see a queue id or a partition id of a cluster (docs/formats.md 5.3): version 8, from
// the first half of SHA-256 of (seed, kind, id).
func UUID(seed [16]byte, kind byte, id uint64) string {
	return uuid.UUID(UUIDBytes(seed, kind, id)).String()
}

// UUIDBytes is UUID in its 16 bytes.
func UUIDBytes(seed [16]byte, kind byte, id uint64) [16]byte {
	in := append(seed[:], kind)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(in, id))
	u := [16]byte(sum[:16])
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return u
}
