package segment

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/stages"
)

// benchStore appends n frames of so many records of about 300 bytes to the file system of this machine.
func benchStore(b *testing.B, records, n int) (*Store, int64) {
	b.Helper()
	s, err := Open(Options{FS: vfs.Default, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s, benchAppend(b, s, records, n)
}

func benchAppend(b *testing.B, s *Store, records, n int) (size int64) {
	b.Helper()
	var block []byte
	for range records {
		block = AppendMessage(block, Message{ID: id1, Payload: make([]byte, 280)})
	}
	next := make([]int64, 1000)
	for i := range n {
		p := i * 7919 % len(next)
		f := Frame{Partition: stages.PartitionID(p), TS: stages.Micros(i), Base: next[p], Count: int32(records), Weight: 1, Body: block}
		next[p] += int64(records)
		if _, _, err := s.Append(1, []Frame{f}); err != nil {
			b.Fatal(err)
		}
		size += int64(len(block))
	}
	return size
}

func BenchmarkAppend(b *testing.B) {
	for _, records := range []int{1, 100} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			s, _ := benchStore(b, records, 0)
			b.ResetTimer()
			b.SetBytes(benchAppend(b, s, records, b.N) / int64(b.N))
		})
	}
}

func BenchmarkHeaders(b *testing.B) {
	const n = 600_000
	s, _ := benchStore(b, 1, n)
	b.ResetTimer()
	for range b.N {
		count := 0
		for _, err := range s.View(1).Headers(0, maxMicros) {
			if err != nil {
				b.Fatal(err)
			}
			count++
		}
		if count != n {
			b.Fatal(count)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/header")
}

func BenchmarkFind(b *testing.B) {
	const n = 600_000
	s, _ := benchStore(b, 1, n)
	v := s.View(1)
	b.ResetTimer()
	for i := range b.N {
		if _, ok, err := v.Find(stages.PartitionID(i%1000), int64(i*31%(n/1000))); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkFirst(b *testing.B) {
	const n = 600_000
	s, _ := benchStore(b, 1, n)
	v := s.View(1)
	b.ResetTimer()
	for i := range b.N {
		if _, ok, err := v.First(stages.PartitionID(i%1000), stages.Micros(i*31%(n-2000)), 0); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkBodies(b *testing.B) {
	for _, records := range []int{1, 100} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			s, size := benchStore(b, records, 200_000/records)
			list, err := s.View(1).List(b.Context(), 0, maxMicros)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(size)
			b.ResetTimer()
			for range b.N {
				err := s.Bodies(b.Context(), &list, list.Appends, func(_ int, body stages.Body) error {
					for _, err := range body.Records() {
						if err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAttach(b *testing.B) {
	s, size := benchStore(b, 1, 600_000)
	tail := s.View(1).Tail()
	b.SetBytes(size)
	b.ResetTimer()
	for range b.N {
		again, err := Open(Options{FS: vfs.Default, Dir: s.o.Dir})
		if err != nil {
			b.Fatal(err)
		}
		if err := again.attach(1, tail); err != nil {
			b.Fatal(err)
		}
		if err := again.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
