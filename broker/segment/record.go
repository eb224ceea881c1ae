package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"queen/stages"
)

// Message is one record of a record block (docs/formats.md section 3). Decoded slices alias the block.
type Message struct {
	ID       [16]byte
	TxID     []byte // empty = the producer sent none
	Trace    []byte // nil or 16 bytes
	Producer []byte // empty = none
	Payload  []byte // the producer's own text; empty = no payload
}

const (
	hasTrace    = 1 << 0
	hasProducer = 1 << 1
)

// AppendMessage appends the stored form of m to dst. A trace that is neither empty nor 16 bytes long is a broken invariant.
func AppendMessage(dst []byte, m Message) []byte {
	var flags byte
	if len(m.Trace) > 0 {
		if len(m.Trace) != 16 {
			panic(fmt.Sprintf("segment: trace id of %d bytes", len(m.Trace)))
		}
		flags |= hasTrace
	}
	if len(m.Producer) > 0 {
		flags |= hasProducer
	}
	dst = append(dst, flags)
	dst = append(dst, m.ID[:]...)
	dst = appendString(dst, m.TxID)
	dst = append(dst, m.Trace...)
	if flags&hasProducer != 0 {
		dst = appendString(dst, m.Producer)
	}
	return appendString(dst, m.Payload)
}

func appendString(dst, s []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// Messages yields the records of a block in offset order. It is strict: what it yields encodes back to the same bytes, and
// anything else ends the sequence with an error that wraps stages.ErrDamaged.
func Messages(block []byte) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for rest := block; len(rest) > 0; {
			m, after, err := nextMessage(rest)
			if err != nil {
				yield(Message{}, fmt.Errorf("record block at byte %d: %w: %w", len(block)-len(rest), err, stages.ErrDamaged))
				return
			}
			if !yield(m, nil) {
				return
			}
			rest = after
		}
	}
}

// MessagesOf yields the records of a body that Bodies handed out, with what a stages.Record leaves out.
func MessagesOf(b stages.Body) iter.Seq2[Message, error] { return Messages(b.(*body).block) }

var (
	errCut       = errors.New("record is cut")
	errFlags     = errors.New("record has unknown flags")
	errCanonical = errors.New("record is not in its one canonical form")
)

func nextMessage(b []byte) (m Message, rest []byte, err error) {
	if len(b) < 17 {
		return m, nil, errCut
	}
	flags := b[0]
	if flags&^(hasTrace|hasProducer) != 0 {
		return m, nil, errFlags
	}
	copy(m.ID[:], b[1:17])
	if m.TxID, b, err = takeString(b[17:]); err != nil {
		return m, nil, err
	}
	if flags&hasTrace != 0 {
		if len(b) < 16 {
			return m, nil, errCut
		}
		m.Trace, b = b[:16:16], b[16:]
	}
	if flags&hasProducer != 0 {
		if m.Producer, b, err = takeString(b); err != nil {
			return m, nil, err
		}
		if len(m.Producer) == 0 {
			return m, nil, errCanonical
		}
	}
	m.Payload, b, err = takeString(b)
	return m, b, err
}

func takeString(b []byte) (s, rest []byte, err error) {
	if len(b) > 0 && b[0] < 0x80 { // the common case: shorter than 128 bytes
		n := int(b[0]) + 1
		if len(b) < n {
			return nil, nil, errCut
		}
		return b[1:n:n], b[n:], nil
	}
	v, n := binary.Uvarint(b)
	switch {
	case n == 0 || n > 0 && v > math.MaxInt32:
		return nil, nil, errCut
	case n < 0 || b[n-1] == 0:
		return nil, nil, errCanonical
	case uint64(len(b)-n) < v:
		return nil, nil, errCut
	}
	end := n + int(v)
	return b[n:end:end], b[end:], nil
}

// TxText returns the transaction id of m as text: what the producer sent, or else the message id in the text form of a
// UUID, written to scratch (which grows to 36 bytes when it is shorter).
func TxText(m Message, scratch []byte) []byte {
	if len(m.TxID) > 0 {
		return m.TxID
	}
	s := append(scratch[:0], "00000000-0000-0000-0000-000000000000"...)
	for i, c := range m.ID {
		at := s[idText[i]:][:2]
		at[0], at[1] = hexDigits[c>>4], hexDigits[c&15]
	}
	return s
}

const hexDigits = "0123456789abcdef"

// idText is where each byte of an id stands in its text.
var idText = [16]uint8{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

// body is one append as a reader sees it. A reader uses one for all appends of a call.
type body struct {
	header  stages.Header
	block   []byte
	path    string
	whole   bool // all records were read, and they were as many as the header says
	scratch [36]byte
	records iter.Seq2[stages.Record, error] // each, bound once
}

var _ stages.Body = (*body)(nil)

func (b *body) init() { b.records = b.each }

func (b *body) Header() stages.Header { return b.header }

func (b *body) Records() iter.Seq2[stages.Record, error] { return b.records }

func (b *body) each(yield func(stages.Record, error) bool) {
	offset, end := b.header.Base, b.header.Base+int64(b.header.Count)
	for rest := b.block; len(rest) > 0; offset++ {
		m, after, err := nextMessage(rest)
		if err == nil && offset == end {
			err = errMore
		}
		if err != nil {
			yield(stages.Record{}, b.bad(offset, err))
			return
		}
		if !yield(stages.Record{Offset: offset, TxID: TxText(m, b.scratch[:]), Payload: m.Payload}, nil) {
			return
		}
		rest = after
	}
	if offset != end {
		yield(stages.Record{}, b.bad(offset, errLess))
		return
	}
	b.whole = true
}

var (
	errMore = errors.New("the body holds more records than its header says")
	errLess = errors.New("the body ends, and its header says more records")
)

func (b *body) bad(offset int64, err error) error {
	return fmt.Errorf("%s at byte %d: record %d: %w: %w", b.path, b.header.Ref.Off, offset, err, stages.ErrDamaged)
}

// countMessages walks a block without looking at what it says.
func countMessages(block []byte) (int, error) {
	n := 0
	for len(block) > 0 {
		_, rest, err := nextMessage(block)
		if err != nil {
			return n, fmt.Errorf("record %d: %w", n, err)
		}
		block = rest
		n++
	}
	return n, nil
}
