package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"queen/internal/rounds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// text is n bytes that compress like lines do.
func text(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, `{"id":%d,"name":"user %d","v":%f}`+"\n", b.Len(), r.IntN(1000), r.Float64())
	}
	return b.Bytes()[:n]
}

func compress(t testing.TB, c Codec, data []byte, write func(w io.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := c.Writer(&out)
	if err != nil {
		t.Fatal(err)
	}
	if write == nil {
		write = func(w io.Writer) error { _, err := w.Write(data); return err }
	}
	if err := write(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func decompress(c Codec, data []byte) ([]byte, error) {
	r, err := c.Reader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// P19: the same bytes for any sizes of the writes, also through io.Copy.
func TestP19WriteSizes(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 128 << 10, 128<<10 + 1, 2 << 20, 5<<20 + 77}[:rounds.Of(7, 6)] {
		data := text(n)
		for _, c := range List(nil) {
			want := compress(t, c, data, nil)
			for _, size := range []int{777, 1 << 20, 5_000_000} {
				got := compress(t, c, data, func(w io.Writer) error {
					for rest := data; len(rest) > 0; {
						m := min(size, len(rest))
						if _, err := w.Write(rest[:m]); err != nil {
							return err
						}
						rest = rest[m:]
					}
					return nil
				})
				if !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes in writes of %d differ", c.Name(), n, size)
				}
			}
			copied := compress(t, c, data, func(w io.Writer) error { _, err := io.Copy(w, bytes.NewReader(data)); return err })
			if !bytes.Equal(copied, want) {
				t.Errorf("%s: %d bytes by io.Copy differ", c.Name(), n)
			}
			if back, err := decompress(c, want); err != nil || !bytes.Equal(back, data) {
				t.Errorf("%s: %d bytes came back as %d, %v", c.Name(), n, len(back), err)
			}
		}
	}
}

// A strict reader refuses a second frame or member, a cut and a flipped bit.
func TestStrictReaders(t *testing.T) {
	data := text(300_000)
	for _, c := range List(nil) {
		if c.Name() == "none" {
			continue
		}
		whole := compress(t, c, data, nil)
		if _, err := decompress(c, append(bytes.Clone(whole), whole...)); !errors.Is(err, errTrailing) {
			t.Errorf("%s twice: %v", c.Name(), err)
		}
		if _, err := decompress(c, append(bytes.Clone(whole), 0)); !errors.Is(err, errTrailing) {
			t.Errorf("%s and a byte: %v", c.Name(), err)
		}
		for _, n := range []int{0, 3, 10, len(whole) / 2, len(whole) - 1} {
			if _, err := decompress(c, whole[:n]); err == nil {
				t.Errorf("%s cut at %d of %d: accepted", c.Name(), n, len(whole))
			}
		}
		for _, at := range []int{len(whole) / 3, len(whole) - 2} {
			bad := bytes.Clone(whole)
			bad[at] ^= 1
			if back, err := decompress(c, bad); err == nil && bytes.Equal(back, data) {
				t.Errorf("%s with a bit flipped at %d: accepted", c.Name(), at)
			} else if err == nil {
				t.Errorf("%s with a bit flipped at %d: other data, no error", c.Name(), at)
			}
		}
	}
}

// An aborted writer writes nothing more and leaves no goroutine, wherever it stands.
func TestAbort(t *testing.T) {
	for _, c := range List(nil) {
		for _, n := range []int{0, 1000, 3 << 20} {
			var out bytes.Buffer
			w, err := c.Writer(&out)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(text(n)); err != nil {
				t.Fatal(err)
			}
			w.Abort()
			before := out.Len()
			_, _ = w.Write(text(100))
			if out.Len() != before {
				t.Errorf("%s writes after Abort", c.Name())
			}
		}
	}
}

// The gzip header names neither time nor file nor host.
func TestGzipHeader(t *testing.T) {
	c, err := Find("gzip")
	if err != nil {
		t.Fatal(err)
	}
	if got := compress(t, c, []byte("x"), nil)[:10]; !bytes.Equal(got, []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}) {
		t.Errorf("header % x", got)
	}
}

func TestFind(t *testing.T) {
	for _, c := range List(nil) {
		if f, err := Find(c.Name()); err != nil || f.Encoder() != c.Encoder() {
			t.Errorf("%s: %v", c.Name(), err)
		}
	}
	if _, err := Find("snappy"); err == nil {
		t.Error("snappy found")
	}
}

// P19: whatever is written in whatever pieces, the bytes are the same, they are one frame, and they come back.
func FuzzChunks(f *testing.F) {
	f.Add(text(1000), []byte{1, 200, 7})
	f.Add([]byte{}, []byte{0})
	f.Add(bytes.Repeat([]byte("a"), 5000), []byte{255})
	f.Fuzz(func(t *testing.T, piece, sizes []byte) {
		data := bytes.Repeat(piece, 1+min(len(sizes)*len(sizes), 1<<20/(1+len(piece)))) // up to a few blocks of the encoders
		for _, c := range List(nil) {
			want := compress(t, c, data, nil)
			got := compress(t, c, data, func(w io.Writer) error {
				for i, rest := 0, data; len(rest) > 0; i++ {
					n := len(rest)
					if i < len(sizes) {
						n = min(n, int(sizes[i])*int(sizes[i]))
					}
					if _, err := w.Write(rest[:n]); err != nil {
						return err
					}
					rest = rest[n:]
				}
				return nil
			})
			if !bytes.Equal(got, want) {
				t.Fatalf("%s: %d bytes in pieces of %v differ", c.Name(), len(data), sizes)
			}
			if back, err := decompress(c, got); err != nil || !bytes.Equal(back, data) {
				t.Fatalf("%s: %d bytes came back as %d, %v", c.Name(), len(data), len(back), err)
			}
		}
	})
}

// Whatever a reader is given, it ends with data or an error; what it accepts is one frame, so a byte behind it is refused.
func FuzzReaders(f *testing.F) {
	for i, c := range List(nil) {
		f.Add(i, compress(f, c, text(1000), nil))
	}
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		all := List(nil)
		c := all[uint(which)%uint(len(all))]
		r, err := c.Reader(bytes.NewReader(data))
		if err != nil {
			return
		}
		defer r.Close()
		if n, err := io.Copy(io.Discard, io.LimitReader(r, 8<<20)); err != nil || n == 8<<20 || c.Name() == "none" {
			return
		}
		if _, err := decompress(c, append(bytes.Clone(data), 'x')); err == nil {
			t.Errorf("%s: a byte behind the end was accepted", c.Name())
		}
	})
}
