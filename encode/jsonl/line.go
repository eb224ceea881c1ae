package jsonl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"

	"queen/encode/rows"
	"queen/internal/jsontext"
	"queen/stages"
)

// lines formats appends. What is the same for all records of a partition (its escaped name) or of an append (the stamp) is
// made once, because at one record an append anything more costs as much as the rest of the line.
type lines struct {
	partition string
	prefix    []byte // {"partition":"…","offset":
	middle    []byte // ","ts":"…","payload":
	day       int64  // the day that date holds
	date      []byte // YYYY-MM-DDT

	escaped   []byte // the transaction id of the record being written, if that needs it
	room      rows.Room
	each      func(stages.Record, error) bool // record, bound once
	dst       []byte                          // of the append being written
	next, end int64
	flags     uint32
	err       error
}

var _ rows.Formatter = (*lines)(nil)

func newLines(room rows.Room) rows.Formatter {
	l := &lines{room: room}
	l.each = l.record
	return l
}

const (
	partPartition = `{"partition":"`
	partOffset    = `","offset":`
	partTxID      = `,"transactionId":"`
	partTS        = `","ts":"`
	partPayload   = `","payload":`
	partEnd       = "}\n"
	partNull      = "null" // no payload
)

// Append writes the lines of one append, byte for byte as docs/formats.md 7.2 says. The payload is copied, never parsed and
// printed (contract S9).
func (l *lines) Append(dst []byte, name string, h *stages.Header, body stages.Body) ([]byte, error) {
	if l.prefix == nil || name != l.partition {
		l.partition = name
		l.prefix = append(l.prefix[:0], partPartition...)
		l.prefix = jsontext.AppendEscaped(l.prefix, name)
		l.prefix = append(l.prefix, partOffset...)
	}
	l.middle = append(l.middle[:0], partTS...)
	l.middle = l.appendTS(l.middle, h.TS)
	l.middle = append(l.middle, partPayload...)

	l.dst, l.next, l.end, l.flags, l.err = dst, h.Base, h.Base+int64(h.Count), h.Flags, nil
	body.Records()(l.each)
	dst, l.dst = l.dst, nil
	if l.err == nil && l.next != l.end {
		l.err = fmt.Errorf("partition %q: %d records where %d are due: %w", name, l.next-h.Base, h.Count, stages.ErrDamaged)
	}
	return dst, l.err
}

// record writes one line and reports whether to go on. It is the loop body of Append, kept as one function value with its
// state in l: a loop would allocate each variable it shares with the iterator, for every append.
func (l *lines) record(rec stages.Record, err error) bool {
	if err != nil {
		l.err = fmt.Errorf("partition %q, offset %d: %w", l.partition, l.next, err)
		return false
	}
	if rec.Offset != l.next || l.next == l.end {
		l.err = fmt.Errorf("partition %q: offset %d where %d is due, below %d: %w", l.partition, rec.Offset, l.next, l.end, stages.ErrDamaged)
		return false
	}
	l.next++
	txID := rec.TxID
	if !clean(txID) {
		l.escaped = jsontext.AppendEscaped(l.escaped[:0], txID)
		txID = l.escaped
	}
	payload := max(rows.PayloadLen(&rec), len(partNull))
	dst := l.dst
	if need := len(l.prefix) + maxInt + len(partTxID) + len(txID) + len(l.middle) + payload + len(partEnd); cap(dst)-len(dst) < need {
		if dst, l.err = l.room(dst, need); l.err != nil {
			return false
		}
	}
	dst = append(dst, l.prefix...)
	dst = strconv.AppendInt(dst, rec.Offset, 10)
	dst = append(dst, partTxID...)
	dst = append(dst, txID...)
	dst = append(dst, l.middle...)
	if rec.Sealed {
		dst = rows.AppendSealed(dst, &rec)
	} else {
		dst = appendPayload(dst, rec.Payload, l.flags)
	}
	l.dst = append(dst, partEnd...)
	return true
}

// maxInt is the most bytes that an offset takes.
const maxInt = 20

// clean says that s holds nothing to escape, eight bytes at a time.
func clean(s []byte) bool {
	if len(s) < 8 {
		for _, c := range s {
			if c < 0x20 || c == '"' || c == '\\' {
				return false
			}
		}
		return true
	}
	found := escapes(s[len(s)-8:])
	for ; len(s) >= 8; s = s[8:] {
		found |= escapes(s)
	}
	return found == 0
}

// escapes is not 0 when one of the first eight bytes of s has to be escaped: each test is of eight bytes at once, and sets the high bit of a
// byte that is below a bound, or equal to one (as 0 after an exclusive or).
func escapes(s []byte) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	x := binary.LittleEndian.Uint64(s)
	quote, slash := x^ones*'"', x^ones*'\\'
	return ((x-ones*0x20)&^x | (quote-ones)&^quote | (slash-ones)&^slash) & high
}

// appendPayload copies the producer's text. Line breaks between its tokens become spaces, one for one, and only the appends
// that hold any are looked through.
func appendPayload(dst, payload []byte, flags uint32) []byte {
	if len(payload) == 0 {
		return append(dst, partNull...)
	}
	at := len(dst)
	dst = append(dst, payload...)
	if flags&(stages.FlagLineBreaks|stages.FlagSealed) != 0 {
		for i, c := range dst[at:] {
			if c == '\n' || c == '\r' {
				dst[at+i] = ' '
			}
		}
	}
	return dst
}

const dayMicros = 24 * 60 * 60 * 1_000_000

// appendTS writes what Micros.AppendISO writes, at a quarter of its price: the date is made once a day.
func (l *lines) appendTS(dst []byte, ts stages.Micros) []byte {
	day, in := int64(ts)/dayMicros, int64(ts)%dayMicros
	if in < 0 {
		day, in = day-1, in+dayMicros
	}
	if l.date == nil || day != l.day {
		l.day = day
		l.date = ts.AppendISO(l.date[:0])
		l.date = l.date[:bytes.IndexByte(l.date, 'T')+1]
	}
	dst = append(dst, l.date...)
	sec, micros := uint32(in/1_000_000), uint32(in%1_000_000)
	dst = appendPair(dst, sec/3600)
	dst = appendPair(append(dst, ':'), sec/60%60)
	dst = appendPair(append(dst, ':'), sec%60)
	dst = appendPair(append(dst, '.'), micros/10_000)
	dst = appendPair(dst, micros/100%100)
	dst = appendPair(dst, micros%100)
	return append(dst, 'Z')
}

// appendPair appends n, below 100, with two digits.
func appendPair(dst []byte, n uint32) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }
