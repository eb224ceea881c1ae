package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/stages"
)

// scanRead is how much one read of a scan takes. Bodies longer than it are stepped over unread.
const scanRead = 256 << 10

// scanner reads pieces of a file in rising order through one buffer.
type scanner struct {
	f     vfs.File
	path  string
	limit int64 // nothing at or behind it is looked at
	buf   []byte
	start int64 // place of buf in the file
}

// piece returns n bytes at off; it fails with a ShortError when the limit lies before their end.
func (c *scanner) piece(off int64, n int) ([]byte, error) {
	if off+int64(n) > c.limit {
		return nil, &ShortError{File: c.path, Wanted: off + int64(n), Found: c.limit}
	}
	if off < c.start || off+int64(n) > c.start+int64(len(c.buf)) {
		length := int(min(int64(max(n, scanRead)), c.limit-off))
		if cap(c.buf) < length {
			c.buf = make([]byte, length)
		}
		c.buf, c.start = c.buf[:length], off
		if err := readFull(c.f, c.path, c.buf, off); err != nil {
			return nil, err
		}
	}
	return c.buf[off-c.start:][:n], nil
}

// readFull reads all of b at off. What a disk can't give back is damage.
func readFull(f io.ReaderAt, path string, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("the file ends %d bytes early", len(b)-n)
	}
	return damaged(path, off+int64(n), err)
}

// scan reads all frame headers below size and returns their entries. size must be the end of a frame: a frame that goes over it
// is a ShortError. Bodies are not read; who reads one checks it.
func scan(fs vfs.FS, path string, size int64, queue stages.QueueID, seg uint32) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	entries, err := scanFrames(&scanner{f: f, path: path, limit: size}, queue, seg)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return entries, nil
}

func scanFrames(c *scanner, queue stages.QueueID, seg uint32) ([]byte, error) {
	b, err := c.piece(0, segmentHeaderLen)
	if err != nil {
		return nil, err
	}
	if err := checkSegmentHeader(b, queue, seg); err != nil {
		return nil, damaged(c.path, 0, err)
	}
	var entries []byte
	last := stages.Beginning
	for off := int64(segmentHeaderLen); off < c.limit; {
		h, length, err := c.frame(off)
		if err != nil {
			return nil, err
		}
		if h.queue != queue || h.ts < last {
			return nil, damaged(c.path, off, fmt.Errorf("frame of queue %d, stamp %d after %d", h.queue, h.ts, last))
		}
		last = h.ts
		entries = appendEntry(entries, h, uint32(off), uint32(length))
		off += length
	}
	if len(entries) == 0 {
		return nil, &ShortError{File: c.path, Wanted: segmentHeaderLen + frameHeaderLen, Found: c.limit}
	}
	return entries, nil
}

// frame reads the header at off and returns it with the length of the whole frame, which lies below the limit.
func (c *scanner) frame(off int64) (head, int64, error) {
	b, err := c.piece(off, frameHeaderLen)
	if err != nil {
		return head{}, 0, err
	}
	n, err := headLen(b)
	if err != nil {
		return head{}, 0, damaged(c.path, off, err)
	}
	if b, err = c.piece(off, n); err != nil {
		return head{}, 0, err
	}
	h, err := decodeHead(b)
	if err != nil {
		return head{}, 0, damaged(c.path, off, err)
	}
	length := frameLen(int(h.body))
	if off+length > c.limit {
		return head{}, 0, &ShortError{File: c.path, Wanted: off + length, Found: c.limit}
	}
	return h, length, nil
}
