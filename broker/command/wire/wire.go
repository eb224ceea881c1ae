// Package wire reads and writes the few field shapes that commands and state rows are made of: fixed-width big-endian
// integers, minimal unsigned LEB128 (uvarint) and strings with a uvarint length in front (str).
//
// It knows no format: broker/command and broker/state put fields together, docs/formats.md says how. The reader is strict,
// because what it accepts is replicated: a uvarint longer than it has to be is an error, and so is anything left over.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is wrapped by every error of a Reader.
var ErrMalformed = errors.New("malformed")

// AppendString appends s as a str field.
func AppendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// AppendBytes appends b as a str field.
func AppendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// Reader takes fields off the front of a byte slice. The first fault sticks: every later read returns a zero value, and
// Err and End report it. The zero Reader is one of an empty slice.
type Reader struct {
	rest []byte
	size int
	err  error
}

// NewReader returns a Reader of b, which it does not copy.
func NewReader(b []byte) *Reader { return &Reader{rest: b, size: len(b)} }

// Err returns the first fault, nil when there was none.
func (r *Reader) Err() error { return r.err }

// Len returns the number of bytes that are left.
func (r *Reader) Len() int { return len(r.rest) }

// End returns the first fault, or an error when bytes are left.
func (r *Reader) End() error {
	if r.err == nil && len(r.rest) > 0 {
		r.Failf("%d bytes are left over", len(r.rest))
	}
	return r.err
}

// Failf records a fault that the caller found at the current place. The first fault wins.
func (r *Reader) Failf(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %d: %s: %w", r.size-len(r.rest), fmt.Sprintf(format, args...), ErrMalformed)
		r.rest = nil
	}
}

// Take returns the next n bytes; they alias the slice that is read.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.Failf("%d bytes wanted, %d left", n, len(r.rest))
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// U8 returns the next byte.
func (r *Reader) U8() uint8 {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// U32 returns the next four bytes as a number.
func (r *Reader) U32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// U64 returns the next eight bytes as a number.
func (r *Reader) U64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// I64 returns the next eight bytes as a signed number.
func (r *Reader) I64() int64 { return int64(r.U64()) }

// ID returns the next sixteen bytes.
func (r *Reader) ID() (id [16]byte) {
	copy(id[:], r.Take(16))
	return id
}

// Uvarint returns the next number in minimal LEB128.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	switch {
	case n <= 0:
		r.Failf("bad uvarint")
		return 0
	case n > 1 && r.rest[n-1] == 0:
		r.Failf("uvarint longer than it has to be")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Count returns the next uvarint as a number of items of at least size bytes each (size >= 1). More items than the rest
// can hold is a fault, so a caller may allocate what Count says.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.rest)/size) {
		r.Failf("%d items of %d bytes or more in %d bytes", n, size, len(r.rest))
		return 0
	}
	return int(n)
}

// Bytes returns the next str field; it aliases the slice that is read.
func (r *Reader) Bytes() []byte {
	n := r.Uvarint()
	if n > uint64(len(r.rest)) {
		r.Failf("a string of %d bytes in %d bytes", n, len(r.rest))
		return nil
	}
	return r.Take(int(n))
}

// String returns a copy of the next str field.
func (r *Reader) String() string { return string(r.Bytes()) }
