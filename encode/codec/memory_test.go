package codec

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"queen/internal/heaptest"
	"queen/internal/rounds"
)

// stuck is an object that nobody takes: its writer waits.
type stuck struct {
	pass int64 // bytes that go through before
	wait chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.pass -= int64(len(p)); s.pass < 0 {
		<-s.wait
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	out := make([]byte, n)
	_, _ = r.Read(out)
	return out
}

// What an encoder takes is known: most when the data does not compress and the upload stands still, so that all its buffers are full. What Memory
// says is that, and not much more.
func TestMemoryIsKnown(t *testing.T) {
	for _, c := range List(nil) {
		synctest.Test(t, func(t *testing.T) {
			data := noise(24 << 20)
			before := heaptest.Live()
			object := &stuck{pass: 9 << 20, wait: make(chan struct{})}
			w, err := c.Writer(object)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for err == nil {
					_, err = w.Write(data)
				}
			}()
			synctest.Wait()
			took := heaptest.Live() - before
			close(object.wait)
			<-done
			w.Abort()
			if took > c.Memory()+64<<10 || took < c.Memory()*3/4 {
				t.Errorf("%s took %d bytes, Memory says %d", c.Name(), took, c.Memory())
			}
			runtime.KeepAlive(data)
		})
	}
}

// An object after the first makes nothing new, and after a while without one nothing is kept.
func TestEncodersAreUsedAgain(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // only this test collects
	data := text(3 << 20)
	for _, c := range List(nil) {
		if c.Name() == "none" {
			continue
		}
		one := func() {
			w, err := c.Writer(io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(data); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		before := heaptest.Live()
		first := allocated(one)
		least := first
		for i := 0; i < 50 && least > first/10; i++ { // under the race detector a pool throws away a quarter of what it is given
			least = min(least, allocated(one))
		}
		if first < c.Memory()/4 || least > first/10 {
			t.Errorf("%s: %d bytes for the first object, %d for another", c.Name(), first, least)
		}
		if idle := heaptest.Live() - before; idle > 64<<10 {
			t.Errorf("%s: %d bytes are kept for nothing", c.Name(), idle)
		}
		runtime.KeepAlive(c)
	}
}

// allocated is how many bytes fn allocates.
func allocated(fn func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// An encoder that has served other objects, and one whose neighbour failed, writes the bytes of a new one.
func TestReusedEncoders(t *testing.T) {
	big, raw := text(2<<20+77), noise(2<<20+1)
	objects := [][]byte{big, nil, []byte("x"), big[:128<<10], raw, big[1<<20:], big[:128<<10+1], big[77:], big}
	for i, c := range List(nil) {
		for n, data := range objects {
			want := compress(t, List(nil)[i], data, nil)
			if got := compress(t, c, data, nil); !bytes.Equal(got, want) {
				t.Errorf("%s: object %d of %d bytes differs", c.Name(), n, len(data))
			}
			if n%3 == 1 {
				fail(t, c, raw)
			}
		}
	}
}

// fail begins two objects: one is given up, and nobody takes the other.
func fail(t *testing.T, c Codec, data []byte) {
	t.Helper()
	w, err := c.Writer(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(data)
	w.Abort()
	refused := &stuck{pass: 100, wait: make(chan struct{})}
	close(refused.wait)
	if w, err = c.Writer(refused); err != nil {
		t.Fatal(err)
	}
	_, werr := w.Write(data)
	if cerr := w.Close(); werr == nil && cerr == nil {
		t.Errorf("%s: an object that nobody takes was written", c.Name())
	}
}

// The positions that an encoder counts start again after some 1.5 GiB, which takes 3,000 objects, however small.
func TestEncodersThatStartAgain(t *testing.T) {
	data := text(700)
	for i, c := range List(nil) {
		want := compress(t, List(nil)[i], data, nil)
		for n := range rounds.Of(8000, 300) {
			if got := compress(t, c, data, nil); !bytes.Equal(got, want) {
				t.Fatalf("%s: object %d differs", c.Name(), n)
			}
		}
	}
}

// Who keeps the Writer of an object that has ended cannot reach the next object with it.
func TestEndedWriters(t *testing.T) {
	for _, c := range List(nil) {
		if c.Name() == "none" {
			continue
		}
		old, err := c.Writer(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		data := text(1000)
		want := compress(t, c, data, nil)
		got := compress(t, c, data, func(w io.Writer) error {
			if _, err := old.Write(data); err == nil {
				t.Errorf("%s: an ended object was written to", c.Name())
			}
			old.Abort()
			if err := old.Close(); err != nil {
				t.Errorf("%s: %v", c.Name(), err)
			}
			_, err := w.Write(data)
			return err
		})
		if !bytes.Equal(got, want) {
			t.Errorf("%s: an ended object changed the next one", c.Name())
		}
	}
}

// What an object of some size costs beside its bytes.
func BenchmarkObjects(b *testing.B) {
	for _, n := range []int{1000, 200_000, 24 << 20} {
		for _, c := range List(nil) {
			data := text(n)
			b.Run(fmt.Sprintf("%s of %d bytes", c.Name(), n), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(n))
				for b.Loop() {
					w, err := c.Writer(io.Discard)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := w.Write(data); err != nil {
						b.Fatal(err)
					}
					if err := w.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
