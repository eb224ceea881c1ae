package segment

import (
	"encoding/binary"
	"errors"
	"fmt"

	"queen/stages"
)

// What RAM keeps of a sealed segment: 16 bytes per chunkEntries frames to enter its index file by stamp or place, 24 bytes per
// runEntries sorted positions to enter it by (partition, offset), and with each the CRC of the part of the file it stands for.
// That is 1.25 bytes a frame: 200 KB for a segment of frames of 400 bytes. Larger ones make Find slower: it reads and
// verifies one chunk for each step of its search in a run.
const (
	chunkEntries = 32
	runEntries   = 32
)

type chunk struct {
	first stages.Micros
	off   uint32
	sum   uint32
}

type run struct {
	partition stages.PartitionID
	base      int64
	sum       uint32
}

// sealed is a segment that never changes again. It is immutable.
type sealed struct {
	seg         uint32
	n           int   // frames
	size        int64 // bytes of the .seg file
	first, last stages.Micros
	chunks      []chunk
	runs        []run
}

// encodeIndex returns the index file of a segment with these entries (docs/formats.md 4.3).
func encodeIndex(queue stages.QueueID, seg uint32, entries []byte, positions []uint32) []byte {
	b := make([]byte, 0, indexHeaderLen+len(entries)+4*len(positions))
	b = append(b, indexMagic...)
	b = binary.BigEndian.AppendUint16(b, version)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, seg)
	b = binary.BigEndian.AppendUint64(b, uint64(queue))
	b = binary.BigEndian.AppendUint32(b, uint32(len(positions)))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = append(b, entries...)
	b = appendPositions(b, positions)
	binary.BigEndian.PutUint32(b[indexHeaderLen-4:], checksum(b[indexHeaderLen:]))
	return b
}

// newSealed makes what RAM keeps from an index file that is known to be right and has at least one entry.
func newSealed(seg uint32, index []byte) *sealed {
	n := int(binary.BigEndian.Uint32(index[24:]))
	entries := index[indexHeaderLen : indexHeaderLen+n*entryLen]
	positions := index[indexHeaderLen+n*entryLen:]
	x := &sealed{
		seg:    seg,
		n:      n,
		size:   entryEnd(entryAt(entries, n-1)),
		first:  entryTS(entries),
		last:   entryTS(entryAt(entries, n-1)),
		chunks: make([]chunk, 0, (n+chunkEntries-1)/chunkEntries),
		runs:   make([]run, 0, (n+runEntries-1)/runEntries),
	}
	for i := 0; i < n; i += chunkEntries {
		part := entries[i*entryLen : min(i+chunkEntries, n)*entryLen]
		x.chunks = append(x.chunks, chunk{first: entryTS(part), off: entryOff(part), sum: checksum(part)})
	}
	for i := 0; i < n; i += runEntries {
		part := positions[i*4 : min(i+runEntries, n)*4]
		e := entryAt(entries, int(binary.BigEndian.Uint32(part)))
		x.runs = append(x.runs, run{partition: entryPartition(e), base: entryBase(e), sum: checksum(part)})
	}
	return x
}

// decodeIndex verifies a whole index file and says why it can't be used. The index is derived data, so whatever is wrong
// with it, the segment file decides.
func decodeIndex(b []byte, queue stages.QueueID, seg uint32) (*sealed, error) {
	if len(b) < indexHeaderLen || string(b[:8]) != indexMagic {
		return nil, errors.New("not an index file")
	}
	n := int(binary.BigEndian.Uint32(b[24:]))
	switch {
	case binary.BigEndian.Uint16(b[8:]) != version || binary.BigEndian.Uint16(b[10:]) != 0:
		return nil, errors.New("unknown version")
	case binary.BigEndian.Uint32(b[12:]) != seg || binary.BigEndian.Uint64(b[16:]) != uint64(queue):
		return nil, errors.New("not of this queue and segment")
	case n == 0 || len(b) != indexHeaderLen+n*(entryLen+4):
		return nil, fmt.Errorf("%d bytes for %d frames", len(b), n)
	case checksum(b[indexHeaderLen:]) != binary.BigEndian.Uint32(b[indexHeaderLen-4:]):
		return nil, errors.New("checksum differs")
	}
	entries := b[indexHeaderLen : indexHeaderLen+n*entryLen]
	if err := checkEntries(entries); err != nil {
		return nil, err
	}
	if err := checkPositions(entries, b[indexHeaderLen+n*entryLen:]); err != nil {
		return nil, err
	}
	return newSealed(seg, b), nil
}

// checkEntries holds for what the writer made: frames touch each other from the header on, and stamps do not fall.
func checkEntries(entries []byte) error {
	end, last := int64(segmentHeaderLen), stages.Beginning
	for i := range len(entries) / entryLen {
		e := entryAt(entries, i)
		if int64(entryOff(e)) != end || entryTS(e) < last || entryFrame(e) <= frameHeaderLen {
			return fmt.Errorf("entry %d does not follow the one before", i)
		}
		end, last = entryEnd(e), entryTS(e)
	}
	return nil
}

// checkPositions: sorted, and each position once. Strictly rising (partition, base, position) implies that no position comes twice. Its
// entries lie all over the file: this is most of the cost of a start, so what is compared is kept from step to step.
func checkPositions(entries, positions []byte) error {
	n := len(entries) / entryLen
	var lastPartition stages.PartitionID
	var lastBase int64
	var lastOff uint32
	for i := range n {
		p := int(binary.BigEndian.Uint32(positions[4*i:]))
		if p >= n {
			return fmt.Errorf("position %d of %d frames", p, n)
		}
		e := entryAt(entries, p)
		partition, base, off := entryPartition(e), entryBase(e), entryOff(e)
		if i > 0 && (partition < lastPartition || partition == lastPartition && (base < lastBase || base == lastBase && off <= lastOff)) {
			return fmt.Errorf("positions are not sorted at %d", i)
		}
		lastPartition, lastBase, lastOff = partition, base, off
	}
	return nil
}

// chunkPlace returns where chunk c lies in the index file.
func (x *sealed) chunkPlace(c int) (off int64, length int) {
	n := min(chunkEntries, x.n-c*chunkEntries)
	return indexHeaderLen + int64(c)*chunkEntries*entryLen, n * entryLen
}

// runPlace returns where run r lies in the index file.
func (x *sealed) runPlace(r int) (off int64, length int) {
	n := min(runEntries, x.n-r*runEntries)
	return indexHeaderLen + int64(x.n)*entryLen + int64(r)*runEntries*4, n * 4
}
