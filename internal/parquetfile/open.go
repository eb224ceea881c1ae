// Package parquetfile reads the Parquet objects of a lake back, strictly: it accepts what docs/formats.md 7.4 says and nothing else, whatever a
// general reader would make of it.
//
// It goes through arrow-go's column readers and shares no code with encode/parquet, so that a mistake of the writer cannot excuse itself. What
// a damaged or hostile file can make it hold is bounded by the largest page that the lake may have.
package parquetfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	_ "queen/internal/pagecodec" // zstd that stops where a page says it ends
)

// Limits of the format, and so of memory.
const (
	maxGroupRows = 100_000
	maxFooter    = 64 << 20
	maxIDPage    = 2 << 20  // of partition, offset, transaction_id and ts
	maxPayload   = 49 << 20 // a page of one record as large as a push may be
)

// File is an object whose footer is as it must be.
type File struct {
	Queue, Tenant string
	Records       int64
	ids, payloads *file.Reader
}

// Open reads the footer of an object of size bytes, whose pages are compressed as compression says: zstd or snappy.
func Open(r io.ReaderAt, size int64, compression string) (f *File, err error) {
	defer recovered(&err)
	footer, err := checkEnds(r, size)
	if err != nil {
		return nil, err
	}
	open := func(page int64) (*file.Reader, error) {
		p := parquet.NewReaderProperties(memory.DefaultAllocator)
		p.BufferedStreamEnabled, p.BufferSize = true, 64<<10
		p.MaxCompressedPageSize, p.MaxUncompressedPageSize = min(page, size), page
		return file.NewParquetReader(io.NewSectionReader(r, 0, size), file.WithReadProps(p))
	}
	f = &File{}
	if f.ids, err = open(maxIDPage); err != nil {
		return nil, err
	}
	if f.payloads, err = open(maxPayload); err != nil {
		return nil, err
	}
	if err := f.checkFooter(); err != nil {
		return nil, err
	}
	if err := checkSpelling(r, f.ids.MetaData(), footer, size); err != nil {
		return nil, err
	}
	codec, known := map[string]compress.Compression{"zstd": compress.Codecs.Zstd, "snappy": compress.Codecs.Snappy}[compression]
	if !known {
		return nil, fmt.Errorf("no Parquet object is compressed with %q", compression)
	}
	return f, f.checkGroups(codec, footer)
}

// recovered turns a panic of the library into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the Parquet library gave up: %v", r)
	}
}

// checkEnds returns where the footer begins. The library would allocate whatever length a file claims.
func checkEnds(r io.ReaderAt, size int64) (int64, error) {
	const magic = "PAR1"
	var head [4]byte
	var tail [8]byte
	if size < int64(len(head)+len(tail)) {
		return 0, fmt.Errorf("%d bytes are no Parquet file", size)
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return 0, err
	}
	if _, err := r.ReadAt(tail[:], size-int64(len(tail))); err != nil {
		return 0, err
	}
	if string(head[:]) != magic || string(tail[4:]) != magic {
		return 0, fmt.Errorf("has %q and %q at its ends, not %s", head, tail[4:], magic)
	}
	length := int64(uint32(tail[0]) | uint32(tail[1])<<8 | uint32(tail[2])<<16 | uint32(tail[3])<<24)
	at := size - int64(len(tail)) - length
	if length > maxFooter || at < int64(len(head)) {
		return 0, fmt.Errorf("has a footer of %d bytes", length)
	}
	return at, nil
}

// checkSpelling compares the footer with what its values are written as: it has no member that nobody knows, and none twice.
func checkSpelling(r io.ReaderAt, m *metadata.FileMetaData, footer, size int64) error {
	want, err := m.Serialize(context.Background())
	if err != nil {
		return err
	}
	got := make([]byte, size-8-footer)
	if _, err := r.ReadAt(got, footer); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return errors.New("its footer is not what its values are written as")
	}
	return nil
}

func (f *File) checkFooter() error {
	m := f.ids.MetaData()
	if m.GetVersion() != 1 || m.GetCreatedBy() != "queen-s3" {
		return fmt.Errorf("is of version %d and created by %q", m.GetVersion(), m.GetCreatedBy())
	}
	pairs := m.KeyValueMetadata()
	keys, values := pairs.Keys(), pairs.Values()
	if !slices.Equal(keys, []string{"queen.envelope", "queen.queue", "queen.tenant"}) || values[0] != "1" {
		return fmt.Errorf("has the pairs %q = %q in its footer", keys, values)
	}
	f.Queue, f.Tenant, f.Records = values[1], values[2], m.GetNumRows()
	return checkSchema(m)
}

// column is what the format says of a column.
type column struct {
	name, kind, repeated, logical string
	converted                     string
	encoding                      parquet.Encoding
	stats                         bool
}

var columns = [...]column{
	{"partition", "BYTE_ARRAY", "required", "String", "UTF8", parquet.Encodings.Plain, true},
	{"offset", "INT64", "required", "None", "NONE", parquet.Encodings.DeltaBinaryPacked, true},
	{"transaction_id", "BYTE_ARRAY", "required", "String", "UTF8", parquet.Encodings.Plain, false},
	{"ts", "INT64", "required", "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false)",
		"TIMESTAMP_MICROS", parquet.Encodings.DeltaBinaryPacked, true},
	{"payload", "BYTE_ARRAY", "optional", "String", "UTF8", parquet.Encodings.Plain, false},
}

func checkSchema(m *metadata.FileMetaData) error {
	if m.Schema.Root().Name() != "queen_record" || m.NumSchemaElements() != len(columns)+1 || m.Schema.NumColumns() != len(columns) {
		return fmt.Errorf("has the schema %s", m.Schema)
	}
	for i, want := range columns {
		c := m.Schema.Column(i)
		got := column{name: c.Path(), kind: c.PhysicalType().String(), repeated: c.SchemaNode().RepetitionType().String(),
			logical: c.LogicalType().String(), converted: c.ConvertedType().String(), encoding: want.encoding, stats: want.stats}
		if got != want {
			return fmt.Errorf("column %d is %+v, not %+v", i, got, want)
		}
	}
	return nil
}

// checkGroups checks that row groups are of the sizes they may have, and that their chunks fill the file from its head to the footer.
func (f *File) checkGroups(codec compress.Compression, footer int64) error {
	m := f.ids.MetaData()
	at, rows := int64(4), int64(0)
	for g := range m.NumRowGroups() {
		group := m.RowGroup(g)
		if n := group.NumRows(); n < 1 || n > maxGroupRows || group.NumColumns() != len(columns) {
			return fmt.Errorf("row group %d has %d rows and %d columns", g, n, group.NumColumns())
		}
		if group.FileOffset() != at || int(group.Ordinal()) != g {
			return fmt.Errorf("row group %d says that it is number %d at byte %d, not %d", g, group.Ordinal(), group.FileOffset(), at)
		}
		rows += group.NumRows()
		for c := range columns {
			chunk, err := group.ColumnChunk(c)
			if err == nil {
				err = checkChunk(chunk, c, codec, at, group.NumRows())
			}
			if err != nil {
				return fmt.Errorf("row group %d, column %s: %w", g, columns[c].name, err)
			}
			at += chunk.TotalCompressedSize()
		}
	}
	if at != footer {
		return fmt.Errorf("its row groups end at byte %d, its footer begins at %d", at, footer)
	}
	if rows != f.Records {
		return fmt.Errorf("its row groups have %d rows, its footer says %d", rows, f.Records)
	}
	return nil
}

func checkChunk(chunk *metadata.ColumnChunkMetaData, place int, codec compress.Compression, at, rows int64) error {
	want := columns[place]
	begin, encodings := chunk.DataPageOffset(), []parquet.Encoding{want.encoding, parquet.Encodings.RLE}
	if chunk.HasDictionaryPage() {
		begin, encodings = chunk.DictionaryPageOffset(), []parquet.Encoding{parquet.Encodings.PlainDict, parquet.Encodings.Plain, parquet.Encodings.RLE}
		if place != 0 || chunk.DataPageOffset() <= begin {
			return errors.New("has a dictionary")
		}
	}
	switch {
	case begin != at || chunk.TotalCompressedSize() < 1:
		return fmt.Errorf("has %d bytes at byte %d, expected at %d", chunk.TotalCompressedSize(), begin, at)
	case chunk.PathInSchema().String() != want.name || chunk.Type().String() != want.kind || chunk.FileOffset() != at:
		return fmt.Errorf("is %s of %s, at byte %d", chunk.PathInSchema(), chunk.Type(), chunk.FileOffset())
	case chunk.NumValues() != rows:
		return fmt.Errorf("has %d values, expected %d", chunk.NumValues(), rows)
	case chunk.Compression() != codec:
		return fmt.Errorf("is compressed with %s", chunk.Compression())
	case !slices.Equal(chunk.Encodings(), encodings):
		return fmt.Errorf("has the encodings %v, expected %v", chunk.Encodings(), encodings)
	case !pagesAre(chunk, encodings[0]):
		return fmt.Errorf("has pages %v", chunk.EncodingStats())
	case chunk.HasIndexPage() || chunk.GetColumnIndexLocation() != nil || chunk.GetOffsetIndexLocation() != nil || chunk.BloomFilterOffset() > 0 ||
		chunk.CryptoMetadata() != nil || chunk.FilePath() != "":
		return errors.New("has an index, a filter, a key or a file of its own")
	}
	return nil
}

// pagesAre tells whether a chunk counts pages of one encoding, and one dictionary if that is it.
func pagesAre(chunk *metadata.ColumnChunkMetaData, encoding parquet.Encoding) bool {
	dictionaries, data := 0, 0
	for _, s := range chunk.EncodingStats() {
		if s.Encoding != encoding {
			return false
		}
		if s.PageType.String() == "DICTIONARY_PAGE" {
			dictionaries++
		} else if s.PageType.String() == "DATA_PAGE" {
			data++
		}
	}
	return data == 1 && (dictionaries == 1) == chunk.HasDictionaryPage()
}

// bounds are the statistics of a chunk, PLAIN; nil where there are none.
func bounds(chunk *metadata.ColumnChunkMetaData) (low, high []byte, nulls int64, err error) {
	if set, err := chunk.StatsSet(); err != nil || !set {
		return nil, nil, 0, err
	}
	s, err := chunk.Statistics()
	if err != nil || s == nil {
		return nil, nil, 0, err
	}
	if s.HasMinMax() {
		low, high = s.EncodeMin(), s.EncodeMax()
	}
	return low, high, s.NullCount(), nil
}
