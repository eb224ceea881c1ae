package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"queen/stages"
)

// What a reader sees of a file, byte for byte where docs/formats.md 7.4 fixes it.
func TestLayout(t *testing.T) {
	w := &window{}
	w.add("a", 10, 0, stages.Record{TxID: []byte("t1"), Payload: []byte("{\r\n\"a\":1}")}, stages.Record{TxID: []byte("t2")})
	w.add("é", 11, 7, stages.Record{TxID: []byte("t3"), Payload: []byte("null")})
	for _, f := range List() {
		object := write(t, f, w.rows(1))
		got := describe(t, object)
		codec := strings.ToUpper(f.Compression())
		want := `version 1 by queen-s3, [queen.envelope queen.queue queen.tenant] = [1 orders 00000000-0000-0000-0000-000000000001]
required group field_id=-1 queen_record {
  required byte_array field_id=-1 partition (String);
  required int64 field_id=-1 offset;
  required byte_array field_id=-1 transaction_id (String);
  required int64 field_id=-1 ts (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false));
  optional byte_array field_id=-1 payload (String);
}
group 0: 3 rows
 partition CODEC [PLAIN_DICTIONARY PLAIN RLE] "a" to "\u00e9", 0 null; pages 0:PLAIN_DICTIONARY:2 1:PLAIN_DICTIONARY:3
 offset CODEC [DELTA_BINARY_PACKED RLE] 0 to 7, 0 null; pages 1:DELTA_BINARY_PACKED:3
 transaction_id CODEC [PLAIN RLE] no statistics; pages 1:PLAIN:3
 ts CODEC [DELTA_BINARY_PACKED RLE] 10 to 11, 0 null; pages 1:DELTA_BINARY_PACKED:3
 payload CODEC [PLAIN RLE] no statistics; pages 1:PLAIN:3
`
		if want = strings.ReplaceAll(want, "CODEC", codec); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", f.Compression(), got, want)
		}
		roundTrip(t, f, w, object)
	}
	object := write(t, zstd(), (&window{}).rows(1))
	if got := opened(t, object); got.NumRows() != 0 || got.NumRowGroups() != 0 || string(object[:4]) != "PAR1" || string(object[len(object)-4:]) != "PAR1" {
		t.Errorf("no rows: %d rows in %d groups", got.NumRows(), got.NumRowGroups())
	}
}

// What a footer says of the columns, as it stands there: some readers know one kind of annotation and some the other (a string without UTF8 equals
// nothing for them), and some refuse a root that has a repetition.
func TestAnnotations(t *testing.T) {
	w := &window{}
	w.add("a", 10, 0, same(1, "t", "1")...)
	for _, f := range List() {
		var got strings.Builder
		for _, e := range opened(t, write(t, f, w.rows(1))).MetaData().FileMetaData.Schema {
			fmt.Fprintf(&got, "%s: repetition %v, converted %v", e.GetName(), e.IsSetRepetitionType(), e.IsSetConvertedType())
			if e.IsSetConvertedType() {
				fmt.Fprintf(&got, " %s", e.GetConvertedType())
			}
			fmt.Fprintf(&got, ", logical %v\n", e.IsSetLogicalType())
		}
		want := `queen_record: repetition false, converted false, logical false
partition: repetition true, converted true UTF8, logical true
offset: repetition true, converted false, logical false
transaction_id: repetition true, converted true UTF8, logical true
ts: repetition true, converted true TIMESTAMP_MICROS, logical true
payload: repetition true, converted true UTF8, logical true
`
		if got.String() != want {
			t.Errorf("%s: got\n%swant\n%s", f.Compression(), got.String(), want)
		}
	}
}

// describe prints what a file says of itself. A page is type:encoding:values, where 0 is a dictionary and 1 a data page of version 1.
func describe(t *testing.T, object []byte) string {
	t.Helper()
	f := opened(t, object)
	m := f.MetaData()
	var out bytes.Buffer
	fmt.Fprintf(&out, "version %d by %s, %v = %v\n%s\n", m.GetVersion(), m.GetCreatedBy(), m.KeyValueMetadata().Keys(), m.KeyValueMetadata().Values(),
		strings.TrimSpace(strings.ReplaceAll(m.Schema.String(), "root", "queen_record")))
	for g := range f.NumRowGroups() {
		fmt.Fprintf(&out, "group %d: %d rows\n", g, f.RowGroup(g).NumRows())
		for c := range f.RowGroup(g).NumColumns() {
			chunk, err := f.RowGroup(g).MetaData().ColumnChunk(c)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, " %s %s %v %s; pages", chunk.PathInSchema(), chunk.Compression(), chunk.Encodings(), statsOf(t, f, g, c))
			for _, p := range pagesOf(t, f, g, c) {
				fmt.Fprintf(&out, " %s", p)
			}
			out.WriteByte('\n')
		}
	}
	return out.String()
}

func statsOf(t *testing.T, f *file.Reader, g, c int) string {
	t.Helper()
	chunk, err := f.RowGroup(g).MetaData().ColumnChunk(c)
	if err != nil {
		t.Fatal(err)
	}
	if set, err := chunk.StatsSet(); err != nil || !set {
		return "no statistics"
	}
	s, err := chunk.Statistics()
	if err != nil {
		t.Fatal(err)
	}
	if chunk.Type() == parquet.Types.Int64 {
		value := func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }
		return fmt.Sprintf("%d to %d, %d null", value(s.EncodeMin()), value(s.EncodeMax()), s.NullCount())
	}
	return fmt.Sprintf("%+q to %+q, %d null", s.EncodeMin(), s.EncodeMax(), s.NullCount())
}

type pageSeen struct {
	kind, values, bytes int
	encoding            parquet.Encoding
}

func (p pageSeen) String() string { return fmt.Sprintf("%d:%s:%d", p.kind, p.encoding, p.values) }

func pagesOf(t *testing.T, f *file.Reader, g, c int) (out []pageSeen) {
	t.Helper()
	r, err := f.RowGroup(g).GetColumnPageReader(c)
	if err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		p := r.Page()
		seen := pageSeen{values: int(p.NumValues()), bytes: len(p.Data()), encoding: parquet.Encoding(p.Encoding())}
		if _, ok := p.(*file.DataPageV1); ok {
			seen.kind = 1
		} else if _, ok := p.(*file.DictionaryPage); !ok {
			t.Errorf("a page is %T", p)
		}
		out = append(out, seen)
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return out
}

// Row groups end where their records say, whatever the appends are and however they are read.
func TestGroups(t *testing.T) {
	const one = groupWeight - 64 - 1 - 1 // the payload of a record that fills a group
	for name, c := range map[string]struct {
		appends []int // records of each
		payload string
		groups  []int64
	}{
		"by rows":               {[]int{99_999, 1, 1}, "1", []int64{100_000, 1}},
		"just full":             {[]int{50_000, 50_000}, "1", []int64{100_000}},
		"one append":            {[]int{250_000}, "1", []int64{100_000, 100_000, 50_000}},
		"many appends":          {slices.Repeat([]int{7}, 20_000), "1", []int64{100_000, 40_000}},
		"by weight":             {[]int{3, 10}, strings.Repeat("x", 4<<20-66), []int64{4, 4, 4, 1}},
		"a record fills it":     {[]int{1, 1}, strings.Repeat("x", one), []int64{1, 1}},
		"a record is too large": {[]int{2, 1}, strings.Repeat("x", one+1), []int64{1, 1, 1}},
		"one record":            {[]int{1}, "1", []int64{1}},
	} {
		w := &window{}
		base := int64(0)
		for i, n := range c.appends {
			w.add("p", stages.Micros(i+1), base, same(n, "t", c.payload)...)
			base += int64(n)
		}
		var first []byte
		for _, readers := range []int{1, 4} {
			object := write(t, snappy(), w.rows(readers))
			if got := groupsOf(t, object); !slices.Equal(got, c.groups) {
				t.Errorf("%s: groups of %v rows, want %v", name, got, c.groups)
			}
			if first == nil {
				first = object
			}
			if !bytes.Equal(first, object) {
				t.Errorf("%s: %d readers write other bytes", name, readers)
			}
		}
	}
}

// Pages end before a value that takes them above 1 MiB, or at 20,000 values; each chunk has one encoding.
func TestPages(t *testing.T) {
	w := &window{}
	for i := range 30 {
		w.add("p", stages.Micros(i+1), int64(3*i), stages.Record{Payload: []byte(text(100_000))},
			stages.Record{TxID: []byte(strings.Repeat("x", 60_000)), Payload: []byte(text(300_000 + i))}, stages.Record{})
	}
	w.add("q", 100, 0, stages.Record{Payload: []byte(text(3 << 20))}, stages.Record{Payload: []byte("1")})
	w.add("r", 200, 0, same(90_000, "t", "")...)
	f := opened(t, write(t, zstd(), w.rows(2)))
	var large, most int
	for g := range f.NumRowGroups() {
		for c := range f.RowGroup(g).NumColumns() {
			pages := pagesOf(t, f, g, c)
			rows := 0
			for i, p := range pages {
				if p.kind == 0 {
					continue
				}
				rows += p.values
				most = max(most, p.values)
				if p.values < 1 || p.values > pageRows || p.bytes > pageBytes+8<<10 && p.values > 1 || p.encoding != pages[0].encoding {
					t.Errorf("group %d, column %d, page %d: %d bytes, %s among %v", g, c, i, p.bytes, p, pages)
				}
				if p.bytes > 3<<20 {
					large++
				}
			}
			if int64(rows) != f.RowGroup(g).NumRows() {
				t.Errorf("group %d, column %d: pages of %d rows", g, c, rows)
			}
		}
	}
	if large != 1 || most != pageRows {
		t.Errorf("%d pages of one large record, and at most %d values in one", large, most)
	}
	roundTrip(t, zstd(), w, write(t, zstd(), w.rows(3)))
}

// Statistics are those of the values, in each group, though the buffers that the values stood in are used again.
func TestStatistics(t *testing.T) {
	w := &window{}
	for p := range 3_000 {
		w.add(fmt.Sprintf("%06d-%s", p, strings.Repeat("n", p%50)), stages.Micros(1_000_000-p), int64(10*p), same(100, "t", "1")...)
	}
	f := opened(t, write(t, zstd(), w.rows(4)))
	row := 0
	for g := range f.NumRowGroups() {
		first, last := row/100, (row+int(f.RowGroup(g).NumRows())-1)/100
		want := [...]string{partitionColumn: fmt.Sprintf("%+q to %+q, 0 null", w.parts[first].Name, w.parts[last].Name),
			offsetColumn: fmt.Sprintf("%d to %d, 0 null", 10*first+row%100, max(10*last+(row+int(f.RowGroup(g).NumRows())-1)%100, 10*(last-1)+99)),
			txIDColumn:   "no statistics", tsColumn: fmt.Sprintf("%d to %d, 0 null", 1_000_000-last, 1_000_000-first), payloadColumn: "no statistics"}
		for c := range want {
			if got := statsOf(t, f, g, c); got != want[c] {
				t.Errorf("group %d, column %d: %s, want %s", g, c, got, want[c])
			}
		}
		row += int(f.RowGroup(g).NumRows())
	}
	if f.NumRowGroups() < 3 {
		t.Errorf("%d groups are too few for this test", f.NumRowGroups())
	}
}

// The library forgets the empty name when it looks for the lowest one, and the bound that is too long when it writes both: a window with such a name
// has no statistics of names at all.
func TestNamesWithoutStatistics(t *testing.T) {
	for name, w := range map[string]*window{"empty": {}, "long": {}} {
		if name == "empty" {
			w.add("", 1, 0, same(30_000, "t", "1")...)
			w.add("a", 2, 0, same(90_000, "t", "1")...)
		} else {
			w.add(strings.Repeat("a", statsBytes+1), 1, 0, same(1, "t", "1")...)
			w.add("b", 1, 0, same(1, "t", "1")...)
		}
		object := write(t, zstd(), w.rows(1))
		for g := range groupsOf(t, object) {
			if got := statsOf(t, opened(t, object), g, partitionColumn); got != "no statistics" {
				t.Errorf("%s: %s", name, got)
			}
		}
		roundTrip(t, zstd(), w, object)
	}
}

// A group whose names take more than the dictionary may is written without one. A chunk with both would list its encodings in random order.
func TestDictionary(t *testing.T) {
	for _, c := range []struct {
		partitions int
		want       string
	}{{20_000, "PLAIN_DICTIONARY"}, {30_000, "PLAIN"}} {
		w := &window{}
		for p := range c.partitions {
			w.add(fmt.Sprintf("customer-with-a-name-of-40-bytes-%07d", p), stages.Micros(p), 0, same(1, "t", "1")...)
		}
		first := write(t, zstd(), w.rows(2))
		for range 16 {
			if !bytes.Equal(first, write(t, zstd(), w.rows(2))) {
				t.Fatalf("%d partitions: other bytes", c.partitions)
			}
		}
		for _, p := range pagesOf(t, opened(t, first), 0, partitionColumn) {
			if p.encoding.String() != c.want {
				t.Errorf("%d partitions: %s", c.partitions, p)
			}
		}
		roundTrip(t, zstd(), w, first)
	}
}
