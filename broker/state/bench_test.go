package state_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/broker/command"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

// BenchmarkApplyPush applies pushes of 100 records of 256 bytes to one partition, eight to an entry, on a real disk. One
// operation is one record.
func BenchmarkApplyPush(b *testing.B) {
	for _, partitions := range []int{1, 100} {
		for _, sent := range []bool{false, true} {
			b.Run(fmt.Sprintf("partitions=%d, ids sent=%v", partitions, sent), func(b *testing.B) { benchmarkPush(b, partitions, sent) })
		}
	}
}

// cpuTime is what the process has used of the processors, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// benchmarkPush applies pushes of 100 records, spread over so many partitions.
func benchmarkPush(b *testing.B, partitions int, sent bool) {
	segments, err := segment.Open(segment.Options{FS: vfs.Default, Dir: b.TempDir(), Generation: 1})
	if err != nil {
		b.Fatal(err)
	}
	s, err := state.Open(state.Options{Dir: b.TempDir(), Segments: segments, Fatal: func(err error) { b.Fatal(err) }})
	if err != nil {
		b.Fatal(err)
	}
	const records, pushes = 100, 8
	payload := `{"x":"` + strings.Repeat("a", 248) + `"}`
	var entries [][]byte
	n := uint32(0)
	for len(entries)*records*pushes < b.N {
		var commands []command.Command
		for range pushes {
			items := make([]item, partitions)
			for i := range records {
				it := &items[i%partitions]
				it.queue, it.partition = "q", fmt.Sprint("p", i%partitions)
				tx := ""
				if sent {
					tx = fmt.Sprintf("order-%d-%d", n, i)
				}
				it.messages = append(it.messages, tx+"="+payload)
			}
			commands = append(commands, pushOf(&n, 0, items...))
		}
		entries = append(entries, entry(stages.Micros(1_760_000_000_000_000)+stages.Micros(n), commands...))
	}
	b.SetBytes(256)
	before := cpuTime(b)
	b.ResetTimer()
	for i, e := range entries {
		if _, err := s.Apply(uint64(i+1), e); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if err := segments.Close(); err != nil {
		b.Fatal(err)
	}
}
