// Package roofline measures the best that a backfill could be: the same windows, with their records in memory in the order of the
// object, through the same encode and upload stages to the same server. No log is read, nothing is listed or sorted, no row is written.
//
// load.go takes the records out of a data folder into memory, before any clock runs; run.go sends them, and compresses the same bytes
// with the bare library. Which windows there are, the manifests of a backfill say, so that both make the same objects: their hashes are
// compared. See bench/README.md for what the numbers mean.
package roofline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"syscall"
	"unsafe"

	"queen/encode"
	"queen/stages"
	"queen/upload"
)

// Window is one window in memory.
type Window struct {
	Manifest *upload.Manifest
	list     stages.Listing  // its Parts are sorted; it has no Appends
	appends  []stages.Append // in the order of the object; the place is that in data
	data     []byte          // all appends in the same order: header, then records
}

// memory is space outside the collector's heap: with the records on the heap the collector would run far less often than in the
// process that this is the roofline of.
func memory(size int) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	return syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

// appendSpace is room for n appends outside the heap. An Append holds no pointer.
func appendSpace(n int) ([]stages.Append, error) {
	raw, err := memory(n * int(unsafe.Sizeof(stages.Append{})))
	if err != nil || n == 0 {
		return nil, err
	}
	return unsafe.Slice((*stages.Append)(unsafe.Pointer(unsafe.SliceData(raw))), n), nil
}

// free gives the window's memory back.
func (w *Window) free() error {
	var errs []error
	if len(w.data) > 0 {
		errs = append(errs, syscall.Munmap(w.data))
	}
	if n := len(w.appends); n > 0 {
		raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w.appends))), n*int(unsafe.Sizeof(stages.Append{})))
		errs = append(errs, syscall.Munmap(raw))
	}
	w.data, w.appends = nil, nil
	return errors.Join(errs...)
}

// headerLen is the length of a header in memory, bytes.
const headerLen = 36

// appendHeader is how the header of an append lies in memory.
func appendHeader(dst []byte, h stages.Header) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.TS))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Partition))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Base))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Count))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Weight))
	return binary.BigEndian.AppendUint32(dst, h.Flags)
}

func readHeader(b []byte) stages.Header {
	return stages.Header{
		TS: stages.Micros(binary.BigEndian.Uint64(b)), Partition: stages.PartitionID(binary.BigEndian.Uint64(b[8:])), Base: int64(binary.BigEndian.Uint64(b[16:])),
		Count: int32(binary.BigEndian.Uint32(b[24:])), Weight: int32(binary.BigEndian.Uint32(b[28:])), Flags: binary.BigEndian.Uint32(b[32:]),
	}
}

// appendRecord is how a record lies in memory: the two lengths, then transaction id and payload.
func appendRecord(dst []byte, r stages.Record) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(r.TxID)))
	dst = binary.AppendUvarint(dst, uint64(len(r.Payload)))
	return append(append(dst, r.TxID...), r.Payload...)
}

// place and spot keep a position of up to 2^64 bytes in an Append.
func place(part uint32, at, size int) stages.Append {
	return stages.Append{Part: part, Seg: uint32(uint64(at) >> 32), Off: uint32(at), Len: uint32(size)}
}

func spot(a stages.Append) (from, to uint64) {
	from = uint64(a.Seg)<<32 | uint64(a.Off)
	return from, from + uint64(a.Len)
}

// body is an append in memory.
type body struct {
	header stages.Header
	block  []byte
	seq    iter.Seq2[stages.Record, error] // records, bound once
}

var _ stages.Body = (*body)(nil)

func (b *body) Header() stages.Header                    { return b.header }
func (b *body) Records() iter.Seq2[stages.Record, error] { return b.seq }
func (b *body) each(yield func(stages.Record, error) bool) {
	offset := b.header.Base
	for rest := b.block; len(rest) > 0; offset++ {
		tx, n := binary.Uvarint(rest)
		payload, m := binary.Uvarint(rest[max(n, 0):])
		if n <= 0 || m <= 0 || uint64(len(rest)-n-m) < tx+payload {
			yield(stages.Record{}, fmt.Errorf("roofline: record %d: %w", offset, stages.ErrDamaged))
			return
		}
		rest = rest[n+m:]
		if !yield(stages.Record{Offset: offset, TxID: rest[:tx:tx], Payload: rest[tx : tx+payload : tx+payload]}, nil) {
			return
		}
		rest = rest[tx+payload:]
	}
}

// read hands out bodies as stages.Log.Bodies does.
func (w *Window) read(ctx context.Context, appends []stages.Append, into func(int, stages.Body) error) error {
	b := &body{}
	b.seq = b.each
	for i, a := range appends {
		from, to := spot(a)
		frame := w.data[from:to]
		b.header, b.block = readHeader(frame), frame[headerLen:]
		if err := into(i, b); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// rows is the window as an encoder takes it.
func (w *Window) rows(readers int) encode.Rows {
	return encode.Rows{Appends: w.appends, List: &w.list, Read: w.read, Readers: readers}
}
