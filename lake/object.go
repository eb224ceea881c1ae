package lake

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxLineFaults is how many faults of the lines of one object are listed before the rest is only counted.
const maxLineFaults = 10

// errStore wraps what the store answered instead of an object: that says nothing about the lake.
var errStore = errors.New("store")

// seen is what reading one data object found.
type seen struct {
	records int64
	bytes   int64 // stored
	sum     string
}

// readObject streams one data object, decompresses it, and hands each line to row, without its LF.
func readObject(ctx context.Context, store Store, key, compression string, row func(n int64, line []byte) error) (seen, error) {
	body, err := store.Open(ctx, key)
	if err != nil {
		return seen{}, fmt.Errorf("%w: %w", errStore, err)
	}
	defer body.Close()
	stored := &meter{from: body, sum: sha256.New()}
	s, err := readBody(stored, compression, row)
	if stored.err != nil {
		return s, fmt.Errorf("%w: read %s: %w", errStore, key, stored.err)
	}
	return s, err
}

func readBody(stored *meter, compression string, row func(n int64, line []byte) error) (seen, error) {
	plain, done, err := decompress(stored, compression)
	if err != nil {
		return seen{}, err
	}
	defer done()
	s := seen{}
	s.records, err = lines(plain, row)
	if err != nil {
		return s, err
	}
	if _, err := io.Copy(io.Discard, stored); err != nil {
		return s, err
	}
	if stored.zstd != nil && stored.zstd.behind > 0 {
		return s, fmt.Errorf("zstd object has %s behind its one frame", count64(stored.zstd.behind, "byte"))
	}
	s.bytes, s.sum = stored.n, hex.EncodeToString(stored.sum.Sum(nil))
	return s, nil
}

func lines(from io.Reader, row func(n int64, line []byte) error) (int64, error) {
	in := bufio.NewReaderSize(from, 1<<16)
	var long []byte
	for n := int64(0); ; {
		part, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			continue
		}
		if len(long) > 0 {
			long = append(long, part...)
			part = long
		}
		switch {
		case errors.Is(err, io.EOF) && len(part) == 0:
			return n, nil
		case errors.Is(err, io.EOF):
			return n, fmt.Errorf("line %d has no line feed at its end", n+1)
		case err != nil:
			return n, err
		}
		n++
		if err := row(n, bytes.TrimSuffix(part, []byte("\n"))); err != nil {
			return n, err
		}
		long = long[:0]
	}
}

// decompress unwraps a stored object. Beyond what its codec accepts, the one spelling of the lake is asked for: a zstd frame
// has a checksum, a gzip member has neither name nor time and is the only one.
func decompress(stored *meter, compression string) (io.Reader, func() error, error) {
	nothing := func() error { return nil }
	switch compression {
	case "none":
		return stored, nothing, nil
	case "gzip":
		in := bufio.NewReader(stored)
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, err
		}
		if z.Name != "" || z.Comment != "" || !z.ModTime.IsZero() || len(z.Extra) > 0 {
			return nil, nil, errors.New("gzip member carries a name, a time or more")
		}
		z.Multistream(false)
		return &single{member: z, after: in}, z.Close, nil
	}
	stored.zstd = &frame{}
	in := bufio.NewReader(stored)
	head, err := in.Peek(zstd.HeaderMaxSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	var header zstd.Header
	if err := header.Decode(head); err != nil {
		return nil, nil, err
	}
	if !header.HasCheckSum {
		return nil, nil, errors.New("zstd frame has no checksum")
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<27))
	if err != nil {
		return nil, nil, err
	}
	return z, func() error { z.Close(); return nil }, nil
}

// single is one gzip member with nothing behind it.
type single struct {
	member io.Reader
	after  *bufio.Reader
}

func (s *single) Read(p []byte) (int, error) {
	n, err := s.member.Read(p)
	if errors.Is(err, io.EOF) {
		if _, more := s.after.ReadByte(); !errors.Is(more, io.EOF) {
			return n, errors.New("gzip object has more than one member")
		}
	}
	return n, err
}

// meter counts and hashes what is read through it.
type meter struct {
	from io.Reader
	sum  hash.Hash
	n    int64
	err  error  // of the store, other than the end
	zstd *frame // nil: not a zstd object
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	m.n += int64(n)
	m.sum.Write(p[:n])
	if m.zstd != nil {
		m.zstd.Write(p[:n])
	}
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = err
	}
	return n, err
}
