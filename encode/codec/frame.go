package codec

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// oneFrame passes the bytes of the first zstd frame on and fails with errTrailing when anything follows it. Decoders join
// frames silently, but several readers of data lakes stop at the end of the first one, so an object must hold just one.
//
// It walks the frame's structure (RFC 8878: header, blocks with a length each, checksum) and decodes nothing.
type oneFrame struct {
	r     *bufio.Reader
	left  int // bytes of the current piece still to pass on
	state int
	sum   bool // a checksum follows the last block
}

const (
	atHeader = iota
	atBlock
	atChecksum
	atEnd
)

const zstdMagic = 0xFD2FB528

func (f *oneFrame) Read(p []byte) (int, error) {
	for f.left == 0 {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	n, err := f.r.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, noEOF(err)
}

// next measures the piece that begins here.
func (f *oneFrame) next() error {
	switch f.state {
	case atHeader:
		return f.header()
	case atBlock:
		b, err := f.r.Peek(3)
		if err != nil {
			return noEOF(err)
		}
		v := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		f.left = 3 + int(v>>3)
		if v>>1&3 == 1 { // a run of one byte: the length is that of the decoded data
			f.left = 4
		}
		if v&1 == 1 {
			f.state = atChecksum
		}
		return nil
	case atChecksum:
		f.state = atEnd
		if f.sum {
			f.left = 4
		}
		return nil
	default:
		if _, err := f.r.Peek(1); err == nil {
			return errTrailing
		}
		return io.EOF
	}
}

func (f *oneFrame) header() error {
	b, err := f.r.Peek(5)
	if err != nil {
		return noEOF(err)
	}
	if m := binary.LittleEndian.Uint32(b); m != zstdMagic {
		return fmt.Errorf("no zstd frame: magic %08x", m)
	}
	d := b[4]
	single := d&0x20 != 0
	f.sum = d&4 != 0
	f.left = 5 + []int{0, 1, 2, 4}[d&3] + []int{0, 2, 4, 8}[d>>6]
	if !single {
		f.left++
	} else if d>>6 == 0 {
		f.left++ // the content size of a single segment has at least one byte
	}
	f.state = atBlock
	return nil
}

// errCut is wrapped, since the decoder takes a bare unexpected end in front of a frame for the end of all frames.
var errCut = fmt.Errorf("the compressed object is cut: %w", io.ErrUnexpectedEOF)

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return errCut
	}
	return err
}
