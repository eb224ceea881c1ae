package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A snapshot on its way to another node (docs/formats.md section 9.2): the head, the list of files as SNAPSHOT has it, and each file up to its length, with
// a checksum behind it: not all of them have one of their own, and none has one for the way.
const (
	streamHead = "QSNAP\x01"
	sumBytes   = 4
	maxText    = 64 << 20 // bytes of a list of files
)

// StreamSize is how many bytes Send gives for a manifest.
func StreamSize(m *Manifest) int64 {
	size := int64(len(streamHead) + 4 + len(m.encode()))
	for _, f := range m.Files {
		size += f.Length + sumBytes
	}
	return size
}

// Send opens a snapshot as one stream. It must not be removed until the stream is closed.
func Send(disk vfs.FS, f Found) (io.ReadCloser, error) {
	if f.Fault != nil {
		return nil, f.Fault
	}
	text := f.Manifest.encode()
	head := binary.BigEndian.AppendUint32([]byte(streamHead), uint32(len(text)))
	return &outgoing{disk: disk, dir: f.Dir, left: f.Manifest.Files, head: append(head, text...)}, nil
}

// outgoing reads a snapshot's files one after the other.
type outgoing struct {
	disk vfs.FS
	dir  string
	left []File
	head []byte // what comes before the next file: the list, or a checksum

	file vfs.File
	name string
	rest int64 // bytes of file
	sum  hash.Hash32
}

// Read gives the next bytes.
func (o *outgoing) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if len(o.head) > 0 {
		n := copy(b, o.head)
		o.head = o.head[n:]
		return n, nil
	}
	if o.file == nil {
		if len(o.left) == 0 {
			return 0, io.EOF
		}
		if err := o.open(); err != nil {
			return 0, err
		}
	}
	if o.rest == 0 {
		o.head = binary.BigEndian.AppendUint32(nil, o.sum.Sum32())
		err := o.file.Close()
		if o.file = nil; err != nil {
			return 0, fmt.Errorf("%s: %w", o.name, err)
		}
		return o.Read(b)
	}
	n, err := o.file.Read(b[:min(int64(len(b)), o.rest)])
	o.sum.Write(b[:n])
	if o.rest -= int64(n); err != nil && (o.rest > 0 || !errors.Is(err, io.EOF)) {
		return n, fmt.Errorf("%s, %d bytes before its end: %w", o.name, o.rest, err)
	}
	return n, nil
}

func (o *outgoing) open() (err error) {
	next := o.left[0]
	o.left = o.left[1:]
	o.name = o.disk.PathJoin(o.dir, o.disk.PathJoin(strings.Split(next.Path, "/")...))
	o.file, err = o.disk.Open(o.name, vfs.SequentialReadsOption)
	o.rest, o.sum = next.Length, crc32.New(crc32.MakeTable(crc32.Castagnoli))
	return err
}

// Close ends the stream.
func (o *outgoing) Close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}
