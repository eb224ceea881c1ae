// Package command is the codec of what the raft log holds: entries, the commands in them and the bodies of commands, exactly
// as docs/formats.md section 2 has them.
//
// It is only a codec. What a command does is broker/state; who proposes one is broker/raftnode and broker/api. Decoders are
// strict, because every node must read an entry the same way: an unknown version, kind, flag or option, a checksum that
// differs and a byte too many are errors, and whatever is accepted encodes back to the same bytes. Read push.go, kvbody.go
// and configure.go next.
package command

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"queen/stages"
)

// Kind is the kind of a command.
type Kind uint8

// The kinds of commands.
const (
	KindFound     Kind = 1 // body: 16 bytes cluster seed
	KindTick      Kind = 2 // no body: moves the clock and nothing else
	KindPush      Kind = 3 // body: Push
	KindKV        Kind = 4 // body: KV
	KindConfigure Kind = 5 // body: Configure
	KindRetain    Kind = 6 // body: Retain
	KindDelete    Kind = 7 // body: Delete
)

// Sizes, in bytes.
const (
	MaxEntry   = 48 << 20 // an entry of raft's log; larger ones are refused before they are proposed (contract R6)
	HeaderSize = 36       // what precedes the body of a command
)

const (
	entryVersion   = 1
	commandVersion = 1
	crcOffset      = 32
)

// ErrVersion is wrapped by errors about a version or kind that this build does not know: a newer build wrote the entry.
var ErrVersion = errors.New("unknown version or kind")

// ErrChecksum is wrapped by errors about bytes that differ from what was written.
var ErrChecksum = errors.New("checksum differs")

// Command is one command. Body aliases the entry it was decoded from.
type Command struct {
	Kind    Kind
	Time    stages.Micros // proposed time; the stamp is decided when the command is applied
	Request [16]byte      // random, made by the proposer
	Body    []byte
}

// String returns the name of the kind as docs/formats.md has it.
func (k Kind) String() string {
	switch k {
	case KindFound:
		return "found"
	case KindTick:
		return "tick"
	case KindPush:
		return "push"
	case KindKV:
		return "kv"
	case KindConfigure:
		return "configure"
	case KindRetain:
		return "retain"
	case KindDelete:
		return "delete"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// AppendEntry begins an entry: it appends the version byte. Commands follow it.
func AppendEntry(dst []byte) []byte { return append(dst, entryVersion) }

// AppendCommand appends one command to an entry.
func AppendCommand(dst []byte, c Command) []byte {
	start := len(dst)
	dst = append(dst, commandVersion, byte(c.Kind), 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.Body)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Time))
	dst = append(dst, c.Request[:]...)
	dst = binary.BigEndian.AppendUint32(dst, checksum(dst[start:], c.Body))
	return append(dst, c.Body...)
}

// Decode returns the commands of an entry. Bodies are checked by their checksum only; DecodePush and the others read them.
func Decode(entry []byte) ([]Command, error) {
	if len(entry) > MaxEntry {
		return nil, fmt.Errorf("entry of %d bytes: at most %d", len(entry), MaxEntry)
	}
	if len(entry) == 0 {
		return nil, errors.New("entry is empty")
	}
	if entry[0] != entryVersion {
		return nil, fmt.Errorf("entry version %d: %w", entry[0], ErrVersion)
	}
	var commands []Command
	for rest := entry[1:]; len(rest) > 0; {
		c, n, err := decodeOne(rest)
		if err != nil {
			return nil, fmt.Errorf("command %d at byte %d: %w", len(commands), len(entry)-len(rest), err)
		}
		commands = append(commands, c)
		rest = rest[n:]
	}
	return commands, nil
}

// Requests returns the request ids of an entry's commands. The entry was decoded before: it is not checked again.
func Requests(entry []byte) [][16]byte {
	var ids [][16]byte
	for rest := entry[min(1, len(entry)):]; len(rest) >= HeaderSize; {
		size := HeaderSize + int(binary.BigEndian.Uint32(rest[4:]))
		ids = append(ids, [16]byte(rest[16:32]))
		rest = rest[min(size, len(rest)):]
	}
	return ids
}

// decodeOne returns the command at the front of b and its size.
func decodeOne(b []byte) (Command, int, error) {
	if len(b) < HeaderSize {
		return Command{}, 0, fmt.Errorf("%d bytes of a header of %d", len(b), HeaderSize)
	}
	if b[0] != commandVersion {
		return Command{}, 0, fmt.Errorf("version %d: %w", b[0], ErrVersion)
	}
	size := uint64(binary.BigEndian.Uint32(b[4:]))
	if size > uint64(len(b)-HeaderSize) {
		return Command{}, 0, fmt.Errorf("body of %d bytes, %d left", size, len(b)-HeaderSize)
	}
	end := HeaderSize + int(size)
	body := b[HeaderSize:end:end]
	if binary.BigEndian.Uint32(b[crcOffset:]) != checksum(b, body) {
		return Command{}, 0, ErrChecksum
	}
	c := Command{Kind: Kind(b[1]), Time: stages.Micros(binary.BigEndian.Uint64(b[8:])), Body: body}
	copy(c.Request[:], b[16:])
	if c.Kind < KindFound || c.Kind > KindDelete {
		return Command{}, 0, fmt.Errorf("%v: %w", c.Kind, ErrVersion)
	}
	if flags := binary.BigEndian.Uint16(b[2:]); flags != 0 {
		return Command{}, 0, fmt.Errorf("flags %#x: %w", flags, ErrVersion)
	}
	return c, end, nil
}

// checksum is CRC32C of the header up to its checksum and of the body.
func checksum(header, body []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(header[:crcOffset], table), table, body)
}

// DecodeFound returns the cluster seed of a found command. A seed of zeros is refused: it stands for "none" in the state.
func DecodeFound(body []byte) (seed [16]byte, err error) {
	if len(body) != len(seed) {
		return seed, fmt.Errorf("found body of %d bytes, not %d", len(body), len(seed))
	}
	copy(seed[:], body)
	if seed == ([16]byte{}) {
		return seed, errors.New("found body: the seed is zero")
	}
	return seed, nil
}
