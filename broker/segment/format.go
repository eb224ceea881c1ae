package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"queen/stages"
)

// Sizes of docs/formats.md section 4, in bytes.
const (
	version = 1

	segmentHeaderLen = 32
	frameHeaderLen   = 64
	blockLen         = 256 << 10
	indexHeaderLen   = 32
	entryLen         = 48

	// DefaultSealBytes is the length from which on a segment is sealed.
	DefaultSealBytes = 64 << 20

	maxBody    = 1 << 30        // a length above it is damage, not a frame
	maxSegment = math.MaxUint32 // offsets in a segment are 32 bits
	knownFlags = stages.FlagLineBreaks | stages.FlagSealed
)

const (
	segmentMagic = "QUEENSEG"
	indexMagic   = "QUEENIDX"
	frameMagic   = "QFR1"
)

// checksum is CRC32C. MakeTable returns the same shared table each time.
func checksum(b []byte) uint32 { return checksumMore(0, b) }

// checksumMore goes on from the checksum of what stands before b.
func checksumMore(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b)
}

func appendSegmentHeader(dst []byte, queue stages.QueueID, seg uint32) []byte {
	start := len(dst)
	dst = append(dst, segmentMagic...)
	dst = binary.BigEndian.AppendUint16(dst, version)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, seg)
	dst = binary.BigEndian.AppendUint64(dst, uint64(queue))
	dst = binary.BigEndian.AppendUint32(dst, 0)
	return binary.BigEndian.AppendUint32(dst, checksum(dst[start:]))
}

// checkSegmentHeader compares the header of a segment file with the one it must have. The version is told apart from damage.
func checkSegmentHeader(b []byte, queue stages.QueueID, seg uint32) error {
	if checksum(b[:28]) != binary.BigEndian.Uint32(b[28:]) {
		return errors.New("segment header: checksum differs")
	}
	if v := binary.BigEndian.Uint16(b[8:]); v != version && string(b[:8]) == segmentMagic {
		return fmt.Errorf("segment header: version %d is not known", v)
	}
	if !bytes.Equal(b, appendSegmentHeader(nil, queue, seg)) {
		return errors.New("segment header: not of this queue and segment")
	}
	return nil
}

// head is a frame's header without its checksums.
type head struct {
	queue     stages.QueueID
	partition stages.PartitionID
	ts        stages.Micros
	base      int64
	count     int32
	weight    int32
	flags     uint32
	body      uint32
	shown     uint32 // fingerprint, set by decodeHead
}

func blocks(body int) int { return (body + blockLen - 1) / blockLen }

// frameLen is the length of a whole frame with a body of so many bytes.
func frameLen(body int) int64 { return frameHeaderLen + 4*int64(blocks(body)) + int64(body) }

func appendFrame(dst []byte, queue stages.QueueID, f Frame) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, frameMagic...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(queue))
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.Partition))
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.TS))
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.Base))
	dst = binary.BigEndian.AppendUint32(dst, uint32(f.Count))
	dst = binary.BigEndian.AppendUint32(dst, uint32(f.Weight))
	dst = binary.BigEndian.AppendUint32(dst, f.Flags)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Body)))
	dst = binary.BigEndian.AppendUint64(dst, 0)
	for b := f.Body; len(b) > 0; {
		n := min(len(b), blockLen)
		dst = binary.BigEndian.AppendUint32(dst, checksum(b[:n]))
		b = b[n:]
	}
	binary.BigEndian.PutUint32(dst[start:], checksum(dst[start+4:]))
	return append(dst, f.Body...)
}

// headLen reads from the first 64 bytes of a frame how long header and block checksums are. Nothing is verified yet but the
// magic and that the length is possible.
func headLen(b []byte) (int, error) {
	if string(b[4:8]) != frameMagic {
		return 0, errors.New("no frame begins here")
	}
	body := binary.BigEndian.Uint32(b[52:])
	if body == 0 || body > maxBody {
		return 0, fmt.Errorf("frame header: impossible length %d", body)
	}
	return frameHeaderLen + 4*blocks(int(body)), nil
}

// shownEnd is where the part of a frame's header ends that an entry repeats. A frame's fingerprint is the checksum up to there: the
// beginning of the header's own checksum, so whoever verifies a header has it.
const shownEnd = 56

// decodeHead verifies and reads header and block checksums; b is exactly what headLen said.
func decodeHead(b []byte) (head, error) {
	shown := checksum(b[4:shownEnd])
	if checksumMore(shown, b[shownEnd:]) != binary.BigEndian.Uint32(b) {
		return head{}, errors.New("frame header: checksum differs")
	}
	h := head{
		shown:     shown,
		queue:     stages.QueueID(binary.BigEndian.Uint64(b[8:])),
		partition: stages.PartitionID(binary.BigEndian.Uint64(b[16:])),
		ts:        stages.Micros(binary.BigEndian.Uint64(b[24:])),
		base:      int64(binary.BigEndian.Uint64(b[32:])),
		count:     int32(binary.BigEndian.Uint32(b[40:])),
		weight:    int32(binary.BigEndian.Uint32(b[44:])),
		flags:     binary.BigEndian.Uint32(b[48:]),
		body:      binary.BigEndian.Uint32(b[52:]),
	}
	if err := checkNumbers(h.base, h.count, h.weight, h.flags); err != nil {
		return head{}, fmt.Errorf("frame header: %w", err)
	}
	if binary.BigEndian.Uint64(b[56:]) != 0 {
		return head{}, errors.New("frame header: reserved bytes are set")
	}
	return h, nil
}

// checkNumbers holds for every frame, written or read.
func checkNumbers(base int64, count, weight int32, flags uint32) error {
	switch {
	case count < 1:
		return fmt.Errorf("%d records", count)
	case base < 0 || base > math.MaxInt64-int64(count):
		return fmt.Errorf("impossible base offset %d", base)
	case weight < 0:
		return fmt.Errorf("negative weight %d", weight)
	case flags&^knownFlags != 0:
		return fmt.Errorf("unknown flags %#x", flags)
	}
	return nil
}

// decodeFrame verifies a whole frame, header and every block, and returns its body, which aliases b.
func decodeFrame(b []byte) (head, []byte, error) {
	if len(b) < frameHeaderLen {
		return head{}, nil, errors.New("frame is cut")
	}
	n, err := headLen(b)
	if err != nil {
		return head{}, nil, err
	}
	if len(b) < n {
		return head{}, nil, errors.New("frame is cut")
	}
	h, err := decodeHead(b[:n])
	if err != nil {
		return head{}, nil, err
	}
	body := b[n:]
	if len(body) != int(h.body) {
		return head{}, nil, fmt.Errorf("frame holds %d bytes of body, its header says %d", len(body), h.body)
	}
	for i, rest := 0, body; len(rest) > 0; i++ {
		k := min(len(rest), blockLen)
		if checksum(rest[:k]) != binary.BigEndian.Uint32(b[frameHeaderLen+4*i:]) {
			return head{}, nil, fmt.Errorf("frame body: checksum of block %d differs", i)
		}
		rest = rest[k:]
	}
	return h, body, nil
}

// appendEntry writes the entry of one frame as the index file holds it. The open segment keeps its headers in RAM in this form too.
func appendEntry(dst []byte, h head, off, length uint32) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.ts))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.partition))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.base))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.count))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.weight))
	dst = binary.BigEndian.AppendUint32(dst, h.flags)
	dst = binary.BigEndian.AppendUint32(dst, off)
	dst = binary.BigEndian.AppendUint32(dst, length)
	return binary.BigEndian.AppendUint32(dst, 0)
}

func entryAt(entries []byte, i int) []byte { return entries[i*entryLen : (i+1)*entryLen] }

func entryTS(e []byte) stages.Micros { return stages.Micros(binary.BigEndian.Uint64(e)) }
func entryBase(e []byte) int64       { return int64(binary.BigEndian.Uint64(e[16:])) }
func entryCount(e []byte) int32      { return int32(binary.BigEndian.Uint32(e[24:])) }
func entryWeight(e []byte) int32     { return int32(binary.BigEndian.Uint32(e[28:])) }
func entryOff(e []byte) uint32       { return binary.BigEndian.Uint32(e[36:]) }
func entryFrame(e []byte) uint32     { return binary.BigEndian.Uint32(e[40:]) }
func entryEnd(e []byte) int64        { return int64(entryOff(e)) + int64(entryFrame(e)) }
func entryPartition(e []byte) stages.PartitionID {
	return stages.PartitionID(binary.BigEndian.Uint64(e[8:]))
}

func entryHeader(e []byte, gen, seg uint32) stages.Header {
	return stages.Header{
		TS:        entryTS(e),
		Partition: entryPartition(e),
		Base:      entryBase(e),
		Count:     entryCount(e),
		Weight:    entryWeight(e),
		Flags:     binary.BigEndian.Uint32(e[32:]),
		Ref:       stages.Ref{Gen: gen, Seg: seg, Off: entryOff(e), Len: entryFrame(e)},
	}
}
