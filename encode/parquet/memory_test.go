package parquet

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"

	"queen/encode/rows"
	"queen/stages"
)

// live is the heap in use after collections that also empty all pools.
func live() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

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

// What encoding takes is known, wherever the upload stands still: what Memory and rows.Memory say, and not more. What the records themselves take
// is the test's.
func TestMemoryIsKnown(t *testing.T) {
	const readers = 4
	for name, w := range map[string]*window{
		"payloads":        noisy(200, 100, 36, 1000, false),
		"small records":   noisy(250_000, 1, 8, 1, false),
		"many partitions": noisy(120_000, 1, 36, 60, true),
		"transaction ids": noisy(200, 100, 1000, 8, false),
	} {
		object := len(write(t, snappy(), w.rows(readers)))
		most := int64(0)
		for _, pass := range []int{1000, object / 5, object / 2, object * 3 / 4} {
			synctest.Test(t, func(t *testing.T) {
				before := live()
				to := &stuck{pass: pass, wait: make(chan struct{})}
				done := make(chan error, 1)
				go func() {
					_, err := zstd().Encode(t.Context(), to, w.rows(readers))
					done <- err
				}()
				synctest.Wait()
				most = max(most, live()-before)
				close(to.wait)
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		}
		t.Logf("%s: %d KiB of %d", name, most>>10, (zstd().Memory()+rows.Memory(readers))>>10)
		if limit := zstd().Memory() + rows.Memory(readers); most > limit || most < limit/5 {
			t.Errorf("%s: %d bytes are held, %d are promised", name, most, limit)
		}
		runtime.KeepAlive(w)
	}
}

// A record as large as a push may be takes at most eight times its size more (contract section 4).
func TestMemoryOfALargeRecord(t *testing.T) {
	const size = 32<<20 + 1<<10
	w := noisy(3, 1, 36, size, false)
	object := len(write(t, snappy(), w.rows(2)))
	most := int64(0)
	for _, pass := range []int{1000, object / 3, object / 2, object * 3 / 4} {
		synctest.Test(t, func(t *testing.T) {
			before := live()
			to := &stuck{pass: pass, wait: make(chan struct{})}
			done := make(chan error, 1)
			go func() {
				_, err := zstd().Encode(t.Context(), to, w.rows(2))
				done <- err
			}()
			synctest.Wait()
			most = max(most, live()-before)
			close(to.wait)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("%d MiB, %.1f times the record", most>>20, float64(most)/size)
	if limit := zstd().Memory() + rows.Memory(2) + 8*size; most > limit || most < 3*size {
		t.Errorf("%d bytes are held, at most %d are promised", most, limit)
	}
	runtime.KeepAlive(w)
}
