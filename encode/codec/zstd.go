package codec

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Options of the zstd encoder that shape bytes. Jobs of four windows are compressed side by side inside one frame; the
// concurrency must be a constant of at least 2, because with 1 the library silently falls back to another stream.
const (
	zstdLevel       = zstd.SpeedDefault // level 3
	zstdConcurrency = 2
	zstdWindow      = 512 << 10
	zstdID          = "klauspost/compress " + libVersion + " zstd default w512k jobs"
)

// zstdReadWindow bounds what a decoder may allocate for the window of an object that somebody else wrote.
const zstdReadWindow = 128 << 20

// zstdMemory is what an encoder holds: three of the library's encoders (7 MiB), five jobs' input (10 MiB), and four jobs' output (10 MiB when
// nothing can be saved).
const zstdMemory = 28 << 20

// zstdJob is the input of a job: four windows, as the library has it.
const zstdJob = 4 * zstdWindow

type zstdCodec struct {
	spare *spare
	pace  *Pace // nil = none
}

var _ Codec = zstdCodec{}

func (zstdCodec) Name() string        { return "zstd" }
func (zstdCodec) Suffix() string      { return ".zst" }
func (zstdCodec) ContentType() string { return "application/zstd" }
func (zstdCodec) Level() int          { return 3 }
func (zstdCodec) Encoder() string     { return zstdID }
func (zstdCodec) Memory() int64       { return zstdMemory }

// Writer makes one frame.
func (c zstdCodec) Writer(w io.Writer) (Writer, error) {
	if c.pace == nil {
		return c.frame(w)
	}
	return c.pace.writer(w, zstdJob, c.frame)
}

func (c zstdCodec) frame(w io.Writer) (Writer, error) {
	return c.spare.writer(w, func(w io.Writer) (compressor, error) {
		e, err := zstd.NewWriter(w,
			zstd.WithEncoderLevel(zstdLevel),
			zstd.WithEncoderConcurrency(zstdConcurrency),
			zstd.WithConcurrentBlocks(true),
			zstd.WithWindowSize(zstdWindow),
			zstd.WithEncoderCRC(true),
			zstd.WithZeroFrames(true), // an object without a record is an empty frame, not an empty file
		)
		if err != nil {
			return nil, fmt.Errorf("zstd encoder: %w", err)
		}
		return e, nil
	})
}

func (zstdCodec) Reader(r io.Reader) (io.ReadCloser, error) {
	d, err := zstd.NewReader(&oneFrame{r: bufio.NewReaderSize(r, 64<<10)}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdReadWindow))
	if err != nil {
		return nil, fmt.Errorf("zstd decoder: %w", err)
	}
	return &zstdReader{d: d}, nil
}

type zstdReader struct{ d *zstd.Decoder }

func (z *zstdReader) Read(p []byte) (int, error) {
	n, err := z.d.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("zstd: %w", err)
	}
	return n, err
}

func (z *zstdReader) Close() error {
	z.d.Close()
	return nil
}
