package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet/file"

	"queen/encode/rows"
	"queen/stages"
)

// encoder writes one object.
//
//	ids      ---> group: spans, transaction ids ---> partition, offset, transaction_id, ts ---+
//	payloads -----------------------------------------------------------------> payload ------+---> the next group
//
// Invariants:
//   - Both streams go over the window once and are read ahead while columns are written; a group's payloads are asked for when its other columns
//     are written. So each body is read twice, whatever the groups are.
//   - Where a group ends depends on its records alone. A record that does not fit stays in the stream.
//   - Of a group, spans and at most heldTxIDs of transaction ids are held. When a group has more of those, a third stream begins at its first
//     record, and all transaction ids from there on are taken from that.
type encoder struct {
	rows    rows.Rows
	w       *file.Writer
	ids     idReader
	payload *stream
	txIDs   *stream // nil: they are held
	group   group
	groups  int
	written int64 // records
	scratch scratch
}

// group is the row group that is being gathered.
type group struct {
	spans  []span
	txIDs  []byte // second shape of records; unused beside a third stream
	rows   int
	weight int
	first  int // place in the window of the append of its first record,
	skip   int // and how many records of that are in the group before
	names  int // bytes of a dictionary of its partition names
}

// span is the records of one append in a group.
type span struct {
	ts    stages.Micros
	base  int64
	part  uint32
	count int32
}

// encode writes the object; Format.Encode has checked the order of the rows.
func encode(ctx context.Context, f Format, w io.Writer, r rows.Rows) error {
	node, err := message()
	if err != nil {
		return err
	}
	kv, err := pairs(r)
	if err != nil {
		return err
	}
	out, err := file.NewParquetWriterWithError(w, node, file.WithWriterProps(f.properties(r)), file.WithWriteMetadata(kv))
	if err != nil {
		return err
	}
	e := &encoder{rows: r, w: out}
	defer e.close()
	e.ids = idReader{s: e.read(ctx, 0, 1, ids), last: id{at: -1}}
	e.payload = e.read(ctx, 0, r.Readers-1, values(payloads))
	for {
		if err := e.gather(ctx); err != nil {
			return err
		}
		if e.group.rows == 0 {
			return e.end()
		}
		if err := e.writeGroup(); err != nil {
			return err
		}
	}
}

// read starts to read the window from an append on, with so many readers and at least one.
func (e *encoder) read(ctx context.Context, from, readers int, f func(rows.Room) rows.Formatter) *stream {
	r := e.rows
	r.Appends, r.Readers = r.Appends[from:], readers
	return open(ctx, r, f)
}

// close ends all reading.
func (e *encoder) close() {
	for _, s := range []*stream{e.ids.s, e.payload, e.txIDs} {
		if s != nil {
			s.close()
		}
	}
}

// gather fills the next group. It stays empty when all records are written.
func (e *encoder) gather(ctx context.Context) error {
	g := &e.group
	*g = group{spans: g.spans[:0], txIDs: g.txIDs[:0]}
	for g.rows < groupRows {
		if err := e.ids.next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		rec := &e.ids.last
		part := e.rows.Appends[rec.at].Part
		name := e.rows.List.Parts[part].Name
		weight := stages.RecordWeight(len(rec.txID), len(name), rec.payload)
		if g.rows > 0 && g.weight+weight > groupWeight {
			e.ids.unread = true
			return nil
		}
		if g.rows == 0 {
			g.first, g.skip = rec.at, rec.nth
		}
		if g.rows == 0 || rec.nth == 0 {
			e.begin(rec, part, name)
		}
		g.spans[len(g.spans)-1].count++
		g.rows++
		g.weight += weight
		if err := e.hold(ctx, rec.txID); err != nil {
			return err
		}
	}
	return nil
}

// begin begins the span of a record's append.
func (e *encoder) begin(rec *id, part uint32, name string) {
	g := &e.group
	if g.rows == 0 || e.rows.List.Parts[g.spans[len(g.spans)-1].part].Name != name {
		g.names += 4 + len(name)
	}
	g.spans = append(g.spans, span{ts: rec.ts, base: rec.offset, part: part})
}

// hold keeps a transaction id, or sees to it that all of the group are read again.
func (e *encoder) hold(ctx context.Context, txID []byte) error {
	g := &e.group
	if e.txIDs != nil {
		return nil
	}
	if len(g.txIDs)+binary.MaxVarintLen32+len(txID) <= heldTxIDs {
		if cap(g.txIDs) == 0 {
			g.txIDs = make([]byte, 0, min(heldTxIDs, max(4<<10, e.rows.List.Weight))) // a slice that grows is held twice for a while
		}
		g.txIDs = append(binary.AppendUvarint(g.txIDs, uint64(len(txID))), txID...)
		return nil
	}
	g.txIDs = nil
	e.txIDs = e.read(ctx, g.first, 1, values(txIDs))
	for range g.skip {
		if _, err := e.txIDs.value(); err != nil {
			return err
		}
	}
	return nil
}

// end writes the footer, when all records that were listed are written and nothing else was read.
func (e *encoder) end() error {
	for _, s := range []*stream{e.payload, e.txIDs} {
		if s == nil {
			continue
		}
		if err := s.more(); err == nil {
			return fmt.Errorf("a record was read at one time and not at another: %w", stages.ErrDamaged)
		} else if !errors.Is(err, io.EOF) {
			return err
		}
	}
	if e.written != e.rows.List.Records {
		return fmt.Errorf("%d records were read where %d are listed: %w", e.written, e.rows.List.Records, stages.ErrDamaged)
	}
	if err := e.w.Close(); err != nil {
		return err
	}
	if n := int64(e.w.NumRows()); n != e.written {
		return fmt.Errorf("the Parquet library wrote %d of %d records", n, e.written)
	}
	return nil
}
