package codec

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

const (
	gzipLevel = 6
	gzipID    = "klauspost/compress " + libVersion + " gzip 6"
)

// gzipMemory is what an encoder holds: its tables and its window.
const gzipMemory = 5 << 18

type gzipCodec struct{ spare *spare }

var _ Codec = gzipCodec{}

func (gzipCodec) Name() string        { return "gzip" }
func (gzipCodec) Suffix() string      { return ".gz" }
func (gzipCodec) ContentType() string { return "application/gzip" }
func (gzipCodec) Level() int          { return gzipLevel }
func (gzipCodec) Encoder() string     { return gzipID }
func (gzipCodec) Memory() int64       { return gzipMemory }

// Writer makes one member whose header names neither time nor file.
func (c gzipCodec) Writer(w io.Writer) (Writer, error) {
	return c.spare.writer(w, func(w io.Writer) (compressor, error) {
		z, err := gzip.NewWriterLevel(w, gzipLevel)
		if err != nil {
			return nil, fmt.Errorf("gzip encoder: %w", err)
		}
		return z, nil
	})
}

func (gzipCodec) Reader(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReader(r)
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	z.Multistream(false)
	return &gzipReader{z: z, rest: b}, nil
}

// gzipReader reads one member and fails when something follows it.
type gzipReader struct {
	z    *gzip.Reader
	rest *bufio.Reader
}

func (g *gzipReader) Read(p []byte) (int, error) {
	n, err := g.z.Read(p)
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		err = fmt.Errorf("gzip: %w", err)
	case g.trailing():
		err = errTrailing
	}
	return n, err
}

func (g *gzipReader) trailing() bool {
	_, err := g.rest.ReadByte()
	return err == nil
}

func (g *gzipReader) Close() error { return g.z.Close() }

// errTrailing is what a strict reader says of bytes behind the one frame or member of an object.
var errTrailing = errors.New("bytes behind the end of the compressed object")
