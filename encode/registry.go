// Package encode turns the sorted appends of a window into the bytes of its object.
//
// registry.go is the one list of formats, layout.go that of layouts; stage.go is the step of the pipeline. The formats are folders (jsonl, parquet),
// the compressors are in codec, and rows holds what all formats share. It uploads nothing: package upload does. A new format
// is a folder and a line in Formats; read docs/formats.md section 7 first.
package encode

import (
	"context"
	"fmt"
	"io"
	"iter"

	"queen/encode/codec"
	"queen/encode/jsonl"
	"queen/encode/parquet"
	"queen/encode/rows"
	"queen/stages"
)

// Rows is what a format encodes and Row what it decodes.
type (
	Rows = rows.Rows
	Row  = rows.Row
)

// Format writes and reads one kind of object. What it writes is a pure function of the rows' content: the same bytes on
// every node, for any number of readers and cores (contract B1).
type Format interface {
	Name() string        // jsonl, parquet
	Compression() string // the effective codec: zstd, gzip, none; zstd, snappy
	Level() int          // of the codec
	Ext() string         // of keys, without the leading dot: jsonl.zst
	ContentType() string
	Writer() string  // as in manifests: queen-s3/2.0.0 jsonl+zstd
	Encoder() string // library, version and every option that shapes bytes
	Memory() int64   // what encoding one object takes at most beside the rows that are read ahead, bytes
	// Encode writes one object. Rows out of order are refused before the first byte.
	Encode(ctx context.Context, w io.Writer, r Rows) (stages.Stats, error)
	// Decode reads one object back strictly; the first error ends the sequence.
	Decode(r io.Reader) iter.Seq2[Row, error]
}

var (
	_ Format = jsonl.Format{}
	_ Format = parquet.Format{}
)

// Formats is the one list of everything that this binary can write, the default first.
func Formats() []Format { return NewRegistry(nil) }

// NewRegistry returns a registry of all formats, whose compressors keep to the pace; nil = none.
func NewRegistry(pace *codec.Pace) Registry {
	var all Registry
	for _, c := range codec.List(pace) {
		all = append(all, jsonl.New(c))
	}
	for _, f := range parquet.List() {
		all = append(all, f)
	}
	return all
}

// UnknownError says that an intent or a setting names a format or a layout that this binary does not have. A window with such an intent
// is left to a node that has it.
type UnknownError struct {
	Format, Compression string
	Layout              string // "" = it is the format that is not known
}

func (e *UnknownError) Error() string {
	if e.Layout != "" {
		return fmt.Sprintf("layout %q is not known to this version of queen: the one that began the window, or a newer one, has to finish it", e.Layout)
	}
	return fmt.Sprintf("format %q with compression %q is not known to this version of queen: the one that began the window, or a newer one, has to finish it", e.Format, e.Compression)
}

// Registry is a list of formats whose encoders serve one object after the other: who encodes many keeps one. They go away when they are not used
// for a while.
type Registry []Format

// Memory is what encoding one object takes at most, in bytes, whatever its format: an intent to redo may ask for any.
func (r Registry) Memory() (most int64) {
	for _, f := range r {
		most = max(most, f.Memory())
	}
	return most
}

// Lookup finds a format by the two names that an intent records.
func (r Registry) Lookup(format, compression string) (Format, error) {
	for _, f := range r {
		if f.Name() == format && f.Compression() == compression {
			return f, nil
		}
	}
	return nil, &UnknownError{Format: format, Compression: compression}
}

// Lookup finds a format in a registry of its own: to ask what it is, or to write one object.
func Lookup(format, compression string) (Format, error) {
	return NewRegistry(nil).Lookup(format, compression)
}
