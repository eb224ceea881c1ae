// Package parquet is the column format of data objects (docs/formats.md 7.4).
//
// The writer goes through arrow-go's low-level column writers (columns.go) and never through arrow's record batches. A row group has its ids in
// front of its payloads, so each body is read twice: encode.go joins the two readings, and no group of payloads is ever in memory. The reader is
// that of internal/parquetfile. It starts no upload and names no key: package upload does. encode/registry.go lists this format.
package parquet

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/apache/arrow-go/v18/parquet/compress"

	"queen/encode/rows"
	"queen/internal/pagecodec"
	"queen/stages"
)

// Versions of the libraries that shape bytes, as go.mod requires them. They are part of every encoder id; a test compares them with the build.
const (
	arrowVersion    = "v18.8.0"
	compressVersion = "v1.20.4"
)

// layoutVersion is that of the layout in encoder ids: a change of where pages or row groups end, of an encoding or of the footer changes it.
const layoutVersion = "parquet/1"

// writerID names the build family in manifests: the library's major version, as go.mod's path of it says.
const writerID = "queen-s3/2.0.0 parquet/18 "

// Format is Parquet with one codec.
type Format struct {
	name  string
	level int // as an intent records it
	codec compress.Compression
	id    string // library and options of the codec
}

// List returns all Parquet formats, the default first.
func List() []Format {
	return []Format{
		{"zstd", pagecodec.Level, compress.Codecs.Zstd, "klauspost/compress " + compressVersion + " " + pagecodec.ID},
		// Its encoder is another piece of assembly on each machine, and nobody promises that all find the same matches.
		{"snappy", 0, compress.Codecs.Snappy, "klauspost/compress " + compressVersion + " snappy " + runtime.GOARCH},
	}
}

// Name is the format as settings, intents and manifests spell it.
func (Format) Name() string { return "parquet" }

// Compression is the codec of all pages: zstd or snappy.
func (f Format) Compression() string { return f.name }

// Level is the codec's level as an intent records it, 0 for snappy, which has none.
func (f Format) Level() int { return f.level }

// Ext is the extension of keys. The compression is inside of the object, so no reader is told by the name.
func (Format) Ext() string { return "parquet" }

// ContentType is the media type of the object.
func (Format) ContentType() string { return "application/vnd.apache.parquet" }

// Writer is what manifests say in `writer`.
func (f Format) Writer() string { return writerID + f.name }

// Encoder names everything that shapes bytes: two binaries with the same Encoder write the same bytes for the same rows (contract B1).
func (f Format) Encoder() string {
	return fmt.Sprintf("%s groups %d rows %d weight, pages %d rows %d bytes, arrow-go %s, %s", layoutVersion, groupRows, groupWeight, pageRows, pageBytes,
		arrowVersion, f.id)
}

// Memory is what encoding one object takes at most, bytes, beside what rows.Memory says for its readers: the ids of a row group, a page in each
// of its three forms (values, page, compressed page) or the dictionary of partition names, the compressor, and the buffers of the readers that
// JSONL does not have. A record larger than a page takes up to eight times its size on top of that (contract section 4): as it was read, in the
// page's values, which grow to the next power of two and are moved there, as a page, and compressed.
func (Format) Memory() int64 {
	ids := max(heldTxIDs, moreBuffers*rows.BufferBytes) // held, or of the reader that reads them once more
	return int64(ids + spansBytes + max(3*(pageBytes+pageSlack), dictionaryMemory) + pagecodec.Memory + footerMemory + moreBuffers*rows.BufferBytes)
}

// Encode writes the object of these rows to w. It fails before the first byte when the rows are out of order. w is written to by the caller's
// goroutine; what was written is no object unless Encode returned nil.
func (f Format) Encode(ctx context.Context, w io.Writer, r rows.Rows) (stages.Stats, error) {
	stats, err := r.Check()
	if err != nil {
		return stages.Stats{}, err
	}
	o := &object{w: w}
	// The library reports some of what goes wrong by a panic. It ends this window and not the broker.
	err = stages.Guard(func() error { return encode(ctx, f, o, r) })
	if o.err != nil {
		err = o.err // whatever the library made of it
	}
	if err != nil {
		return stages.Stats{}, err
	}
	return stats, nil
}

// object is where the bytes go. It keeps the first error of w, since the library drops some.
type object struct {
	w   io.Writer
	err error
}

func (o *object) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	o.err = err
	return n, err
}
