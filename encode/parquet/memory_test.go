package parquet

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"

	"queen/encode/rows"
	"queen/internal/heaptest"
	"queen/internal/rounds"
	"queen/stages"
)

// stuck lets some bytes through and then stands still, until it is released; then it takes the rest.
type stuck struct {
	pass int
	wait chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.pass -= len(p); s.pass < 0 {
		<-s.wait
	}
	return len(p), nil
}

// noisy is a window of so many appends, whose text does not compress.
func noisy(appends, records, txID, payload int, names bool) *window {
	r := rand.NewChaCha8([32]byte{1})
	fill := func(n int) []byte {
		b := make([]byte, n)
		_, _ = r.Read(b)
		return b
	}
	w := &window{}
	for i := range appends {
		all := make([]stages.Record, records)
		for j := range all {
			all[j] = stages.Record{TxID: fill(txID), Payload: fill(payload)}
		}
		name := "p"
		if names {
			name = fmt.Sprintf("%06d", i)
		}
		w.add(name, stages.Micros(i+1), int64(i*records), all...)
	}
	return w
}

// held is the most that encoding a window takes while the upload stands still after so many bytes, for each of them.
func held(t *testing.T, w *window, readers int, passes ...int) (most int64) {
	for _, pass := range passes {
		synctest.Test(t, func(t *testing.T) {
			before := heaptest.Live()
			to := &stuck{pass: pass, wait: make(chan struct{})}
			done := make(chan error, 1)
			go func() {
				_, err := zstd().Encode(t.Context(), to, w.rows(readers))
				done <- err
			}()
			synctest.Wait()
			most = max(most, heaptest.Live()-before)
			close(to.wait)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	runtime.KeepAlive(w)
	return most
}

// What encoding takes is known, wherever the upload stands still: what Memory and rows.Memory say, and not more. What the records themselves take
// is the test's.
func TestMemoryIsKnown(t *testing.T) {
	const readers = 4
	for _, c := range []struct {
		name string
		w    func() *window
	}{
		{"payloads", func() *window { return noisy(200, 100, 36, 1000, false) }},
		{"transaction ids", func() *window { return noisy(200, 100, 1000, 8, false) }},
		{"small records", func() *window { return noisy(250_000, 1, 8, 1, false) }},
		{"many partitions", func() *window { return noisy(120_000, 1, 36, 60, true) }},
	}[:rounds.Of(4, 1)] {
		name, w := c.name, c.w()
		object := len(write(t, snappy(), w.rows(readers)))
		most := held(t, w, readers, 1000, object/5, object/2, object*3/4)
		t.Logf("%s: %d KiB of %d", name, most>>10, (zstd().Memory()+rows.Memory(readers))>>10)
		if limit := zstd().Memory() + rows.Memory(readers); most > limit || most < limit/5 {
			t.Errorf("%s: %d bytes are held, %d are promised", name, most, limit)
		}
	}
}

// A record as large as a push may be takes at most eight times its size more (contract section 4).
func TestMemoryOfALargeRecord(t *testing.T) {
	const size = 32<<20 + 1<<10
	w := noisy(3, 1, 36, size, false)
	object := len(write(t, snappy(), w.rows(2)))
	most := held(t, w, 2, 1000, object/3, object/2, object*3/4)
	t.Logf("%d MiB, %.1f times the record", most>>20, float64(most)/size)
	if limit := zstd().Memory() + rows.Memory(2) + 8*size; most > limit || most < 3*size {
		t.Errorf("%d bytes are held, at most %d are promised", most, limit)
	}
}
