package parquetfile

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"queen/stages"
)

// Row is one record. Payload is nil when the cell is NULL: no payload was sent; it is good until the next row is asked for.
type Row struct {
	Partition string
	Offset    int64
	TxID      string
	TS        stages.Micros
	Payload   []byte
}

// maxStats is how long a name may be in statistics.
const maxStats = 1024

// Rows reads all records. The first error ends the sequence and names the row, counted from 1.
func (f *File) Rows() iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		r := reader{file: f}
		for n := int64(1); n <= f.Records; n++ {
			row, err := r.next()
			if err != nil {
				yield(Row{}, fmt.Errorf("row %d: %w", n, err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := errors.Join(r.finish(), r.end()); err != nil {
			yield(Row{}, err)
		}
	}
}

// reader is where Rows has come to.
type reader struct {
	file   *File
	group  int   // the next one
	left   int64 // rows of the one that is read
	begins bool  // none of them is read
	chunks [len(columns)]*metadata.ColumnChunkMetaData
	texts  [len(columns)]*texts // nil for integers
	ints   [len(columns)]*ints
	name   string // of the last row
	low    [len(columns)]int64
	high   [len(columns)]int64
	names  [2]string // lowest and highest of the group
	odd    bool      // a name was seen with which a file has no statistics of its names: the empty one, or one that is too long
	named  int       // row groups with statistics of their names
}

func (r *reader) next() (row Row, err error) {
	defer recovered(&err)
	if r.left == 0 {
		if err := errors.Join(r.finish(), r.open()); err != nil {
			return Row{}, err
		}
	}
	r.left--
	name, _, err := r.texts[0].next()
	if err != nil {
		return Row{}, err
	}
	if row.Offset, err = r.ints[1].next(); err != nil {
		return Row{}, err
	}
	tx, _, err := r.texts[2].next()
	if err != nil {
		return Row{}, err
	}
	ts, err := r.ints[3].next()
	if err != nil {
		return Row{}, err
	}
	payload, there, err := r.texts[4].next()
	if err != nil {
		return Row{}, err
	}
	if string(name) != r.name { // else it is the string that there is
		r.name = string(name)
	}
	row.Partition, row.TxID, row.TS = r.name, string(tx), stages.Micros(ts)
	if there {
		row.Payload = payload
	}
	r.note(row)
	return row, check(row)
}

// check says what no producer can have sent.
func check(row Row) error {
	switch {
	case !utf8.ValidString(row.Partition) || !utf8.ValidString(row.TxID):
		return errors.New("a name is not UTF-8")
	case row.Offset < 0:
		return fmt.Errorf("has offset %d", row.Offset)
	case row.Payload != nil && len(row.Payload) == 0:
		return errors.New("has an empty payload, which is no JSON; NULL stands for none")
	case row.Payload != nil:
		if !utf8.Valid(row.Payload) || !json.Valid(row.Payload) {
			return errors.New("payload is not one JSON value")
		}
	}
	return nil
}

// note keeps what the statistics of the group must say.
func (r *reader) note(row Row) {
	if r.begins {
		r.names = [2]string{row.Partition, row.Partition}
		r.low, r.high = [len(columns)]int64{1: row.Offset, 3: int64(row.TS)}, [len(columns)]int64{1: row.Offset, 3: int64(row.TS)}
		r.begins = false
	}
	r.odd = r.odd || row.Partition == "" || len(row.Partition) > maxStats
	r.names = [2]string{min(r.names[0], row.Partition), max(r.names[1], row.Partition)}
	r.low[1], r.high[1] = min(r.low[1], row.Offset), max(r.high[1], row.Offset)
	r.low[3], r.high[3] = min(r.low[3], int64(row.TS)), max(r.high[3], int64(row.TS))
}

// open begins the next row group.
func (r *reader) open() error {
	f := r.file
	if r.group == f.ids.NumRowGroups() {
		return errors.New("there are no more row groups")
	}
	ids, payloads := f.ids.RowGroup(r.group), f.payloads.RowGroup(r.group)
	r.group++
	r.left, r.begins = ids.NumRows(), true
	for c := range columns {
		from := ids
		if columns[c].name == "payload" {
			from = payloads
		}
		chunk, err := from.MetaData().ColumnChunk(c)
		if err != nil {
			return err
		}
		column, err := from.Column(c)
		if err != nil {
			return err
		}
		r.chunks[c], r.texts[c], r.ints[c] = chunk, nil, nil
		switch column := column.(type) {
		case *file.ByteArrayColumnChunkReader:
			r.texts[c] = &texts{from: column, name: columns[c].name, optional: columns[c].repeated == "optional"}
		case *file.Int64ColumnChunkReader:
			r.ints[c] = &ints{from: column, name: columns[c].name}
		default:
			return fmt.Errorf("column %s is read as %T", columns[c].name, column)
		}
	}
	return nil
}

// finish ends the row group that is read, if any: nothing may be left in it, and its statistics are those of its rows.
func (r *reader) finish() (err error) {
	defer recovered(&err)
	if r.group == 0 {
		return nil
	}
	for c, column := range columns {
		if r.texts[c] != nil && r.texts[c].more() || r.ints[c] != nil && r.ints[c].more() {
			return fmt.Errorf("row group %d, column %s: has more values than rows", r.group-1, column.name)
		}
		low, high, nulls, err := bounds(r.chunks[c])
		if err != nil {
			return fmt.Errorf("row group %d, column %s: %w", r.group-1, column.name, err)
		}
		wantLow, wantHigh, must := r.bounds(c)
		if c == 0 && low != nil {
			r.named++
		}
		if there := low != nil; there && (string(low) != wantLow || string(high) != wantHigh || nulls != 0 || !column.stats) || !there && must {
			return fmt.Errorf("row group %d, column %s: has statistics from %q to %q, its values are from %q to %q", r.group-1, column.name, low, high, wantLow, wantHigh)
		}
	}
	return nil
}

// end looks at the whole file.
func (r *reader) end() error {
	if want := r.file.ids.NumRowGroups(); r.named != want && !r.odd || r.named > 0 && r.odd {
		return fmt.Errorf("%d of %d row groups have statistics of their partition names", r.named, want)
	}
	return nil
}

// bounds are what the statistics of a column of the group that was read must say, and whether it must have any.
func (r *reader) bounds(c int) (low, high string, must bool) {
	switch {
	case c == 0:
		return r.names[0], r.names[1], false // end sees to that
	case columns[c].stats:
		plain := func(v int64) string { return string(binary.LittleEndian.AppendUint64(nil, uint64(v))) }
		return plain(r.low[c]), plain(r.high[c]), true
	}
	return "", "", false
}

// batch is how many values are asked for at a time, of one page.
const batch = 1024

// texts reads a column of strings.
type texts struct {
	from     *file.ByteArrayColumnChunkReader
	name     string
	optional bool
	values   [batch]parquet.ByteArray
	levels   [batch]int16
	rows, at int // rows that are read, and the place among them
	value    int // the place among the values
}

func (t *texts) next() (v []byte, there bool, err error) {
	if t.at == t.rows {
		var levels []int16
		if t.optional {
			levels = t.levels[:]
		}
		n, values, err := t.from.ReadBatchInPage(batch, t.values[:], levels, nil)
		if err == nil && (n < 1 || n > batch || values > int(n)) {
			err = fmt.Errorf("ends early: %d levels of %d values", n, values)
		}
		if err != nil {
			return nil, false, fmt.Errorf("column %s: %w", t.name, err)
		}
		t.rows, t.at, t.value = int(n), 0, 0
	}
	t.at++
	if t.optional && t.levels[t.at-1] == 0 {
		return nil, false, nil
	}
	t.value++
	v = t.values[t.value-1]
	if v == nil {
		v = []byte{}
	}
	return v, true, nil
}

func (t *texts) more() bool { return t.at < t.rows || t.from.HasNext() }

// ints reads a column of integers.
type ints struct {
	from     *file.Int64ColumnChunkReader
	name     string
	values   [batch]int64
	rows, at int
}

func (t *ints) next() (int64, error) {
	if t.at == t.rows {
		n, _, err := t.from.ReadBatch(batch, t.values[:], nil, nil)
		if err == nil && (n < 1 || n > batch) {
			err = fmt.Errorf("ends early: %d values", n)
		}
		if err != nil {
			return 0, fmt.Errorf("column %s: %w", t.name, err)
		}
		t.rows, t.at = int(n), 0
	}
	t.at++
	return t.values[t.at-1], nil
}

func (t *ints) more() bool { return t.at < t.rows || t.from.HasNext() }
