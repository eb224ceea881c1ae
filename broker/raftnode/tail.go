package raftnode

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"time"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// repairing is a meta store of raft-wal that puts the newest file of the log right before raft-wal v0.4.2 opens it. After a
// power loss, or a close at the wrong moment, that library leaves two things as they are that make a log unusable:
//
//   - The batch that fills a file ends with an index frame; the next file is begun after it was answered. When that did not
//     happen any more, the file is sealed but the meta store says it is not, and every later append fails.
//   - What a torn batch left behind the last whole one stays there. An index frame in it makes the file look sealed, and
//     other bytes may be taken for frames once shorter batches are written over them.
//
// So Load reads the newest file once: it seals it in the meta store when its last whole batch says so, and overwrites what
// lies behind that batch with zeros. A batch whose checksum differs and that has a whole batch behind it is no torn write but
// damage, and so is whatever makes the log end before the mark: an error that names the file, and nothing is changed then
// (contract R7).
type repairing struct {
	types.MetaStore
	files types.VFS
	mark  *mark
}

var _ types.MetaStore = repairing{}

// Load reads the meta data, repaired.
func (r repairing) Load(dir string) (types.PersistentState, error) {
	s, err := r.MetaStore.Load(dir)
	if err != nil {
		return s, err
	}
	end := uint64(0) // the last entry of the files before the newest one
	for _, f := range s.Segments {
		if f.SealTime.IsZero() {
			break
		}
		if err := r.checkSealed(dir, f); err != nil {
			return s, err
		}
		end = f.MaxIndex
	}
	if n := len(s.Segments); n == 0 || !s.Segments[n-1].SealTime.IsZero() {
		return s, r.mark.check(dir, end)
	}
	return r.repair(dir, s, end)
}

// checkSealed looks at the header of a full file: raft-wal does so too, but its errors name no file. What the file holds is
// verified entry by entry when it is read (checksum.go).
func (r repairing) checkSealed(dir string, info types.SegmentInfo) error {
	name := logFile(dir, info)
	f, err := r.files.OpenReader(dir, segment.FileName(info))
	if err != nil {
		return fmt.Errorf("open raft log: %w", err)
	}
	head := make([]byte, walHeader)
	_, err = f.ReadAt(head, 0)
	if err == nil && string(head) != string(walHead(info)) {
		err = fmt.Errorf("%w: its header is not the one it was made with, restore the folder from a copy", types.ErrCorrupt)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("raft log file %s: %w", name, err)
	}
	return nil
}

// repair puts the newest file right; end is the last entry before it.
func (r repairing) repair(dir string, s types.PersistentState, end uint64) (types.PersistentState, error) {
	last := &s.Segments[len(s.Segments)-1]
	name := logFile(dir, *last)
	f, err := r.files.OpenWriter(dir, segment.FileName(*last))
	if errors.Is(err, os.ErrNotExist) {
		return s, r.mark.check(name+" is missing", end) // else raft-wal makes it
	}
	if err != nil {
		return s, fmt.Errorf("open raft log: %w", err)
	}
	tail, err := scanTail(f)
	if err == nil && tail.entries > 0 {
		end = last.BaseIndex + tail.entries - 1
	}
	if err == nil {
		err = r.mark.check(fmt.Sprintf("at byte %d", tail.end), end)
	}
	if err == nil {
		err = clearBehind(f, tail.end)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return s, fmt.Errorf("raft log file %s: %w", name, err)
	}
	if tail.indexStart == 0 {
		return s, nil
	}
	last.SealTime = time.Unix(0, 1) // raft-wal only asks whether it is zero
	last.MaxIndex = end
	last.IndexStart = tail.indexStart
	next := types.SegmentInfo{
		ID: s.NextSegmentID, BaseIndex: last.MaxIndex + 1, MinIndex: last.MaxIndex + 1,
		SizeLimit: last.SizeLimit, Codec: last.Codec, CreateTime: last.SealTime,
	}
	s.NextSegmentID++
	s.Segments = append(s.Segments, next)
	return s, r.MetaStore.CommitState(s)
}

// walHead is the header of a file of the log.
func walHead(info types.SegmentInfo) []byte {
	head := binary.LittleEndian.AppendUint64(nil, walMagic)
	for _, n := range []uint64{info.BaseIndex, info.ID, info.Codec} {
		head = binary.LittleEndian.AppendUint64(head, n)
	}
	return head
}

// The frames of raft-wal's files: 8 bytes of header (type, 3 zeros, u32 little-endian length or checksum), the payload, zeros
// up to a multiple of 8. The file begins with 32 bytes of header, which belong to the first batch.
const (
	walMagic       = 0x58eb6b0d // and version 0 in the last byte of its eight
	walHeader      = 32
	walFrameHeader = 8
	frameEntry     = 1
	frameIndex     = 2
	frameCommit    = 3
)

// tail is what the whole batches of a file hold.
type tail struct {
	end        int64  // place behind the last one; 0 = there is none
	entries    uint64 // entries in them
	indexStart uint64 // where the index begins when they seal the file, else 0
}

// scanTail reads a file up to its last whole batch.
func scanTail(f io.ReaderAt) (tail, error) {
	var good, now tail // now: the batch being read
	var torn bool      // a batch with another checksum was met
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, math.MaxInt64), 256<<10)
	at, err := io.CopyN(sum, in, walHeader)
	for err == nil {
		var h [walFrameHeader]byte
		if _, err = io.ReadFull(in, h[:]); err != nil {
			break
		}
		value := binary.LittleEndian.Uint32(h[4:])
		switch h[0] {
		case frameCommit:
			at += walFrameHeader
			whole := sum.Sum32() == value
			if whole && torn {
				return good, fmt.Errorf("%w: the batch behind byte %d has another checksum, and batches behind it are whole: restore the folder from a copy", types.ErrCorrupt, good.end)
			}
			if torn = torn || !whole; whole {
				good = now
				good.end = at
			}
			sum.Reset()
		case frameEntry, frameIndex:
			if h[0] == frameEntry {
				now.entries++
			} else {
				now.indexStart = uint64(at) + walFrameHeader
			}
			sum.Write(h[:])
			size := (int64(value) + walFrameHeader - 1) / walFrameHeader * walFrameHeader
			var n int64
			n, err = io.CopyN(sum, in, size)
			at += walFrameHeader + n
		default: // zeros, or a torn header
			return good, nil
		}
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return good, err
	}
	return good, nil
}

// clearBehind overwrites what is not zero from a place to the end of the file, and syncs it.
func clearBehind(f types.WritableFile, from int64) error {
	buf, zeros := make([]byte, 256<<10), make([]byte, 256<<10)
	changed := false
	for {
		n, err := f.ReadAt(buf, from)
		if string(buf[:n]) != string(zeros[:n]) {
			if _, err := f.WriteAt(zeros[:n], from); err != nil {
				return err
			}
			changed = true
		}
		from += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			if changed {
				return f.Sync()
			}
			return nil
		case err != nil:
			return err
		}
	}
}
