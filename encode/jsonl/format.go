// Package jsonl is the line format of data objects: one record a line, compressed or not (docs/formats.md 7.2).
//
// The writer (line.go) appends bytes and never goes through a JSON library, so that a payload stays the producer's own text.
// The reader (decode.go) is strict: it accepts exactly what the writer writes. It starts no upload and names no key: package
// upload does. encode/registry.go lists this format.
package jsonl

import (
	"context"
	"io"

	"queen/encode/codec"
	"queen/encode/rows"
	"queen/stages"
)

// version is that of the line format in encoder ids: a change of any byte of a line changes it.
const version = "jsonl/1"

// writerID names the build family in manifests and intents; it does not change with the compression library.
const writerID = "queen-s3/2.0.0 jsonl"

// Format is JSONL with one codec.
type Format struct{ codec codec.Codec }

// New returns the line format with this codec.
func New(c codec.Codec) Format { return Format{codec: c} }

// Name is the format as settings, intents and manifests spell it.
func (Format) Name() string { return "jsonl" }

// Compression is the effective codec: zstd, gzip or none.
func (f Format) Compression() string { return f.codec.Name() }

// Level is the codec's level as an intent records it.
func (f Format) Level() int { return f.codec.Level() }

// Ext is the extension of keys, without its leading dot.
func (f Format) Ext() string { return "jsonl" + f.codec.Suffix() }

// ContentType is the media type of the stored bytes. The compression is told by it and by the extension, never by a
// Content-Encoding, which readers would undo on their own.
func (f Format) ContentType() string {
	if t := f.codec.ContentType(); t != "" {
		return t
	}
	return "application/x-ndjson"
}

// Writer is what manifests say in `writer`.
func (f Format) Writer() string {
	if f.codec.Name() == "none" {
		return writerID
	}
	return writerID + "+" + f.codec.Name()
}

// Encoder names everything that shapes bytes: two binaries with the same Encoder write the same bytes for the same rows
// (contract B1).
func (f Format) Encoder() string { return version + " " + f.codec.Encoder() }

// Memory is what encoding one object takes at most, in bytes: the compressor.
func (f Format) Memory() int64 { return f.codec.Memory() }

// Codec is the compressor.
func (f Format) Codec() codec.Codec { return f.codec }

// Encode writes the object of these rows to w. It fails before the first byte when the rows are out of order. w is written
// to by one goroutine at a time and by none after Encode has returned; what was written is no object unless it returned nil.
func (f Format) Encode(ctx context.Context, w io.Writer, r rows.Rows) (stages.Stats, error) {
	stats, err := r.Check()
	if err != nil {
		return stages.Stats{}, err
	}
	z, err := f.codec.Writer(w)
	if err != nil {
		return stages.Stats{}, err
	}
	if err := rows.Pump(ctx, z, r, newLines); err != nil {
		z.Abort()
		return stages.Stats{}, err
	}
	return stats, z.Close()
}
