package lake

import "github.com/klauspost/compress/zstd"

// frame follows the first zstd frame of what is written to it, block by block, and counts what lies behind: a decoder reads
// frames one after another, and the lake has one an object.
type frame struct {
	head     []byte // of the frame, or of a block, as far as it has come
	inBlocks bool   // the frame's header is read
	last     bool   // the block that is skipped is the last one
	checksum bool
	skip     int64 // bytes of a block, and of the checksum, still to come
	done     bool
	behind   int64
}

// Write implements io.Writer. It never fails: damage is the decoder's to report.
func (f *frame) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		switch {
		case f.done:
			f.behind += int64(len(p))
			return n, nil
		case f.skip > 0:
			step := min(f.skip, int64(len(p)))
			f.skip -= step
			p = p[step:]
			f.done = f.last && f.skip == 0
		default:
			f.head = append(f.head, p[0])
			p = p[1:]
			f.look()
		}
	}
	return n, nil
}

// look reads the header that head holds, once it is whole.
func (f *frame) look() {
	if !f.inBlocks {
		var h zstd.Header
		if h.Decode(f.head) == nil {
			f.inBlocks, f.checksum, f.head = true, h.HasCheckSum, f.head[:0]
		}
		return
	}
	if len(f.head) < 3 {
		return
	}
	const rle = 1
	block := int64(f.head[0]) | int64(f.head[1])<<8 | int64(f.head[2])<<16
	f.head = f.head[:0]
	f.last, f.skip = block&1 == 1, block>>3
	if block>>1&3 == rle {
		f.skip = 1
	}
	if f.last && f.checksum {
		f.skip += 4
	}
	f.done = f.last && f.skip == 0
}
