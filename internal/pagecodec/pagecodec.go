// Package pagecodec is the zstd of Parquet pages: it takes the place of the one that arrow-go brings, for all files of the process.
//
// The library's own encoder has a window of 8 MiB, for pages of one, and so holds 18 MB; its decoder unpacks whatever a page claims to be small,
// up to 64 GB. This one holds a quarter, and stops where the page header said that the page ends. arrow-go has one door for that, a global table
// that its documentation wants to be written by an init function; so whoever writes or reads Parquet imports this package. It knows nothing
// of the format: encode/parquet writes it, internal/parquetfile reads it.
package pagecodec

import (
	"bytes"
	"errors"
	"sync"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/zstd"
)

// Options that shape the bytes of a page. ID names them, and the level that WriterProperties must ask for.
const (
	Level  = 3
	window = 1 << 20
	ID     = "zstd default w1m pages"
)

// Memory is what an encoder at work holds, bytes: history of two windows, the tables, and a block.
const Memory = 5 << 20

func init() { compress.RegisterCodec(compress.Codecs.Zstd, &codec{}) }

// codec keeps encoders for the next page; they go away when they are not used for a while. What it keeps owns no channel and no goroutine, so that tests
// in bubbles of their own may share it: with a concurrency of 1 an encoder of streams has none, while EncodeAll and decoders have.
type codec struct{ encoders sync.Pool }

var _ compress.ErrorCodec = (*codec)(nil)

// EncodeLevel writes one frame. Every level is ours: the level that is asked for is recorded in ID.
func (c *codec) EncodeLevel(dst, src []byte, _ int) []byte {
	z, ok := c.encoders.Get().(*zstd.Encoder)
	if !ok {
		var err error
		z, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(true), zstd.WithZeroFrames(true))
		if err != nil {
			panic(err) // the options are constants; the library has no other way to hear of it, and recovers
		}
	}
	defer c.encoders.Put(z)
	out := bytes.NewBuffer(dst[:0])
	z.ResetContentSize(out, int64(len(src)))
	_, err := z.Write(src)
	if err = errors.Join(err, z.Close()); err != nil {
		panic(err) // a buffer takes everything
	}
	z.Reset(nil)
	return out.Bytes()
}

// Encode implements compress.Codec.
func (c *codec) Encode(dst, src []byte) []byte { return c.EncodeLevel(dst, src, Level) }

// CompressBound is more than an encoder ever writes: what cannot be compressed is stored in blocks of 128 KiB.
func (c *codec) CompressBound(n int64) int64 { return n + n>>8 + 64 }

// Decode implements compress.Codec; its panic is what the library expects for a frame that is none.
func (c *codec) Decode(dst, src []byte) []byte {
	out, err := c.DecodeWithError(dst, src)
	if err != nil {
		panic(err)
	}
	return out
}

// DecodeWithError unpacks a frame into dst, which has the length that the page header names. A frame of more is an error.
func (c *codec) DecodeWithError(dst, src []byte) ([]byte, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return z.DecodeAll(src, dst[:0:len(dst)])
}
