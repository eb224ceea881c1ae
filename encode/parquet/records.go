package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"queen/encode/rows"
	"queen/stages"
)

// The workers of a stream hand records on in two shapes of bytes, which never leave the process:
//
//	ids     for each append: stamp (8), base offset (8), count (4); for each record of it: length of its transaction id (uvarint), length of its
//	        payload (uvarint), the transaction id
//	values  for each record: length (uvarint) and bytes of the one value that is asked for
//
// All of a record is in one piece of the stream, and what stands for its append is in that of its first record.
const headBytes = 8 + 8 + 4

// walk goes over the records of an append and checks that they are those that its header names. A shape is its user.
type walk struct {
	room      rows.Room
	each      func(stages.Record, error) bool // record, bound once: a loop would allocate for each append
	one       func(stages.Record) error       // appends a record to dst
	dst       []byte
	h         *stages.Header
	next, end int64
	err       error
}

func (l *walk) Append(dst []byte, name string, h *stages.Header, body stages.Body) ([]byte, error) {
	l.dst, l.h, l.next, l.end, l.err = dst, h, h.Base, h.Base+int64(h.Count), nil
	body.Records()(l.each)
	dst, l.dst, l.h = l.dst, nil, nil
	if l.err == nil && l.next != l.end {
		l.err = fmt.Errorf("%d records where %d are due: %w", l.next-h.Base, h.Count, stages.ErrDamaged)
	}
	if l.err != nil {
		return dst, fmt.Errorf("partition %q: %w", name, l.err)
	}
	return dst, nil
}

func (l *walk) record(rec stages.Record, err error) bool {
	switch {
	case err != nil:
		l.err = fmt.Errorf("offset %d: %w", l.next, err)
	case rec.Offset != l.next || l.next == l.end:
		l.err = fmt.Errorf("offset %d where %d is due, below %d: %w", rec.Offset, l.next, l.end, stages.ErrDamaged)
	default:
		l.err = l.one(rec)
		l.next++
	}
	return l.err == nil
}

// need asks for room for n bytes behind dst.
func (l *walk) need(n int) (err error) {
	if cap(l.dst)-len(l.dst) < n {
		l.dst, err = l.room(l.dst, n)
	}
	return err
}

// ids makes the first shape.
func ids(room rows.Room) rows.Formatter {
	l := &walk{room: room}
	l.each = l.record
	l.one = func(rec stages.Record) error {
		if err := l.need(headBytes + 2*binary.MaxVarintLen32 + len(rec.TxID)); err != nil {
			return err
		}
		if rec.Offset == l.h.Base {
			l.dst = binary.LittleEndian.AppendUint64(l.dst, uint64(l.h.TS))
			l.dst = binary.LittleEndian.AppendUint64(l.dst, uint64(l.h.Base))
			l.dst = binary.LittleEndian.AppendUint32(l.dst, uint32(l.h.Count))
		}
		l.dst = binary.AppendUvarint(l.dst, uint64(len(rec.TxID)))
		l.dst = binary.AppendUvarint(l.dst, uint64(rows.PayloadLen(&rec)))
		l.dst = append(l.dst, rec.TxID...)
		return nil
	}
	return l
}

// values makes the second shape. A value may lie in scratch, which is of its worker.
func values(of func(rec *stages.Record, scratch *[]byte) []byte) func(rows.Room) rows.Formatter {
	return func(room rows.Room) rows.Formatter {
		l := &walk{room: room}
		l.each = l.record
		var scratch []byte
		l.one = func(rec stages.Record) error {
			v := of(&rec, &scratch)
			if err := l.need(binary.MaxVarintLen32 + len(v)); err != nil {
				return err
			}
			l.dst = binary.AppendUvarint(l.dst, uint64(len(v)))
			l.dst = append(l.dst, v...)
			return nil
		}
		return l
	}
}

func payloads(rec *stages.Record, scratch *[]byte) []byte {
	if !rec.Sealed {
		return rec.Payload
	}
	*scratch = rows.AppendSealed((*scratch)[:0], rec)
	return *scratch
}

func txIDs(rec *stages.Record, _ *[]byte) []byte { return rec.TxID }

// errShape is a bug between the two sides of a stream.
var errShape = errors.New("parquet: a piece of records cannot be read")

// value takes the next value off the front of a text of the second shape.
func value(text []byte) (v, rest []byte, err error) {
	n, size := binary.Uvarint(text)
	if size <= 0 || n > uint64(len(text)-size) {
		return nil, nil, errShape
	}
	return text[size : size+int(n)], text[size+int(n):], nil
}

// value takes the next value of a stream of the second shape. It is good until the next piece is asked for.
func (s *stream) value() (v []byte, err error) {
	if err := s.more(); err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("a record was read at one time and not at another: %w", stages.ErrDamaged)
		}
		return nil, err
	}
	v, s.piece, err = value(s.piece)
	return v, err
}

// id is a record of the first shape.
type id struct {
	at      int // place of its append in the window
	nth     int // place in its append
	left    int // records of the append that come behind it
	ts      stages.Micros
	offset  int64
	txID    []byte // good until the next one is asked for
	payload int    // bytes
}

// idReader reads the first shape.
type idReader struct {
	s      *stream
	last   id
	unread bool // last was put back
}

// next reads the next record into last. It returns io.EOF behind the last one.
func (r *idReader) next() error {
	if r.unread {
		r.unread = false
		return nil
	}
	if err := r.s.more(); err != nil {
		if r.last.left > 0 && errors.Is(err, io.EOF) {
			err = errShape
		}
		return err
	}
	p := r.s.piece
	if r.last.left > 0 {
		r.last.left--
		r.last.nth++
		r.last.offset++
	} else {
		if len(p) < headBytes {
			return errShape
		}
		r.last.at++
		r.last.nth = 0
		r.last.ts = stages.Micros(binary.LittleEndian.Uint64(p))
		r.last.offset = int64(binary.LittleEndian.Uint64(p[8:]))
		r.last.left = int(binary.LittleEndian.Uint32(p[16:])) - 1
		p = p[headBytes:]
	}
	tx, n := binary.Uvarint(p)
	payload, m := binary.Uvarint(p[max(n, 0):])
	if n <= 0 || m <= 0 || tx > uint64(len(p)-n-m) {
		return errShape
	}
	p = p[n+m:]
	r.last.txID, r.last.payload, r.s.piece = p[:tx], int(payload), p[tx:]
	return nil
}
