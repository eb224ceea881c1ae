package parquet

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// scratch is what one batch takes on its way to the library, which copies all of it.
type scratch struct {
	texts  [batchRows]parquet.ByteArray
	levels [batchRows]int16
	ints   [batchRows]int64
	names  []byte
}

// writeGroup writes the group that is gathered, column by column.
func (e *encoder) writeGroup() error {
	if e.groups++; e.groups > mostGroups {
		return fmt.Errorf("the window needs more than %d row groups, which a Parquet file cannot number", mostGroups)
	}
	out, err := e.w.AppendRowGroupChecked()
	if err != nil {
		return err
	}
	for place, write := range []func(file.ColumnChunkWriter) error{
		partitionColumn: e.writePartitions,
		offsetColumn:    e.writeInts(func(s *span, nth int64) int64 { return s.base + nth }),
		txIDColumn:      e.writeTxIDs,
		tsColumn:        e.writeInts(func(s *span, _ int64) int64 { return int64(s.ts) }),
		payloadColumn:   e.writePayloads,
	} {
		column, err := out.NextColumn()
		if err != nil {
			return err
		}
		if err := write(column); err != nil {
			return fmt.Errorf("column %s: %w", column.Descr().Name(), err)
		}
		if n := column.RowsWritten(); n != e.group.rows {
			return fmt.Errorf("column %d: the Parquet library took %d of %d values", place, n, e.group.rows)
		}
	}
	e.written += int64(e.group.rows)
	return out.Close()
}

// page counts what is in the page that is being filled. The library never ends one by itself (properties), so that where it ends does not depend
// on how values are handed over.
type page struct{ rows, bytes int }

// full reports whether the next value, of so many bytes, belongs to the next page.
func (p *page) full(size int) bool {
	return p.rows == pageRows || p.rows > 0 && p.bytes+size > pageBytes
}

func (p *page) add(size int) {
	p.rows++
	p.bytes += size
}

// texts writes a column of strings.
type texts struct {
	to       *file.ByteArrayColumnChunkWriter
	scratch  *scratch
	optional bool // an empty value is none
	page     page
	rows, n  int // of the batch: rows, and values among them
}

func (e *encoder) texts(c file.ColumnChunkWriter, optional bool) (*texts, error) {
	to, ok := c.(*file.ByteArrayColumnChunkWriter)
	if !ok {
		return nil, fmt.Errorf("%T is no column of strings", c)
	}
	return &texts{to: to, scratch: &e.scratch, optional: optional}, nil
}

// add adds a value, which must stay as it is until the batch is written.
func (t *texts) add(v []byte) error {
	size := 4 + len(v)
	if t.optional && len(v) == 0 {
		size = 0
	}
	if t.page.full(size) {
		if err := t.flush(); err != nil {
			return err
		}
		if err := t.to.FlushCurrentPage(); err != nil {
			return err
		}
		t.page = page{}
	}
	t.page.add(size)
	if size > 0 {
		t.scratch.texts[t.n] = v
		t.n++
		t.scratch.levels[t.rows] = 1
	} else {
		t.scratch.levels[t.rows] = 0
	}
	if t.rows++; t.rows == batchRows {
		return t.flush()
	}
	return nil
}

// flush writes the batch.
func (t *texts) flush() error {
	if t.rows == 0 {
		return nil
	}
	var levels []int16
	if t.optional {
		levels = t.scratch.levels[:t.rows]
	}
	n, err := t.to.WriteBatch(t.scratch.texts[:t.n], levels, nil)
	if err == nil && n != int64(t.n) {
		err = fmt.Errorf("the Parquet library took %d of %d values", n, t.n)
	}
	clear(t.scratch.texts[:t.n])
	t.rows, t.n = 0, 0
	return err
}

func (e *encoder) writePartitions(c file.ColumnChunkWriter) error {
	t, err := e.texts(c, false)
	if err != nil {
		return err
	}
	if e.group.names > dictionaryBytes {
		t.to.FallbackToPlain()
	}
	if e.scratch.names == nil { // to the library, a name that is nil is none
		e.scratch.names = make([]byte, 0, 64<<10)
	}
	names := e.scratch.names[:0]
	for _, s := range e.group.spans {
		name := e.rows.List.Parts[s.part].Name
		if len(names)+len(name) > cap(names) { // what is in use stays where it is
			names = make([]byte, 0, max(64<<10, len(name)))
		}
		names = append(names, name...)
		v := names[len(names)-len(name):]
		for range s.count {
			if err := t.add(v); err != nil {
				return err
			}
		}
		if t.rows == 0 {
			names = names[:0]
		}
	}
	e.scratch.names = names
	return t.flush()
}

// writeInts writes a column that follows from the spans.
func (e *encoder) writeInts(of func(s *span, nth int64) int64) func(file.ColumnChunkWriter) error {
	return func(c file.ColumnChunkWriter) error {
		to, ok := c.(*file.Int64ColumnChunkWriter)
		if !ok {
			return fmt.Errorf("%T is no column of integers", c)
		}
		batch := e.scratch.ints[:0]
		var p page
		flush := func() error {
			if len(batch) == 0 {
				return nil
			}
			n, err := to.WriteBatch(batch, nil, nil)
			if err == nil && n != int64(len(batch)) {
				err = fmt.Errorf("the Parquet library took %d of %d values", n, len(batch))
			}
			batch = batch[:0]
			return err
		}
		for i := range e.group.spans {
			for nth := range int64(e.group.spans[i].count) {
				if p.full(8) {
					if err := errors.Join(flush(), to.FlushCurrentPage()); err != nil {
						return err
					}
					p = page{}
				}
				p.add(8)
				if batch = append(batch, of(&e.group.spans[i], nth)); len(batch) == batchRows {
					if err := flush(); err != nil {
						return err
					}
				}
			}
		}
		return flush()
	}
}

func (e *encoder) writeTxIDs(c file.ColumnChunkWriter) error {
	t, err := e.texts(c, false)
	if err != nil {
		return err
	}
	if e.txIDs != nil {
		return t.from(e.txIDs, e.group.rows)
	}
	for rest := e.group.txIDs; len(rest) > 0; {
		var v []byte
		if v, rest, err = value(rest); err != nil {
			return err
		}
		if err := t.add(v); err != nil {
			return err
		}
	}
	return t.flush()
}

func (e *encoder) writePayloads(c file.ColumnChunkWriter) error {
	t, err := e.texts(c, true)
	if err != nil {
		return err
	}
	return t.from(e.payload, e.group.rows)
}

// from writes the next values of a stream. A batch ends with each piece, since that is gone then.
func (t *texts) from(s *stream, n int) error {
	for range n {
		if len(s.piece) == 0 {
			if err := t.flush(); err != nil {
				return err
			}
		}
		v, err := s.value()
		if err != nil {
			return err
		}
		if err := t.add(v); err != nil {
			return err
		}
	}
	return t.flush()
}
