package encode_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/broker/segment"
	"queen/encode"
	"queen/internal/rounds"
	"queen/stages"
	"queen/window"
)

// A window out of a real segment store, through listing, sort, reader and format: the loop that a backfill is.

// stored is a log of so many appends of so many records, of about 300 bytes, over so many partitions.
func stored(t testing.TB, o segment.Options, appends, records, partitions int) *segment.Store {
	t.Helper()
	o.Generation = 3
	s, err := segment.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	next := make([]int64, partitions)
	var frames []segment.Frame
	n := 0
	for i := range appends {
		p := i * 7919 % partitions
		f := segment.Frame{Partition: stages.PartitionID(p + 1), TS: stages.Micros(1791009457501942 + int64(i)*1000), Base: next[p], Count: int32(records)}
		for range records {
			n++
			m := segment.Message{Payload: fmt.Appendf(nil, `{"order":%d,"status":"status %d","total":%d.50,"text":"%0*d"}`, n, n%9, n%1000, 220, n)}
			m.ID[0], m.ID[9], m.ID[15] = byte(n), byte(n>>8), byte(n>>16)
			if n%3 == 0 {
				m.TxID = fmt.Appendf(nil, "tx-%d", n)
			}
			f.Body = segment.AppendMessage(f.Body, m)
			f.Weight += int32(stages.RecordWeight(36, 11, len(m.Payload)))
		}
		next[p] += int64(records)
		if frames = append(frames, f); len(frames) == 64 || i == appends-1 {
			if _, _, err := s.Append(1, frames); err != nil {
				t.Fatal(err)
			}
			frames = frames[:0]
		}
	}
	return s
}

// rowsOf lists and sorts all of a store, as window k.
func rowsOf(t testing.TB, s *segment.Store, k uint64) encode.Rows {
	t.Helper()
	list, err := s.View(1).List(context.Background(), stages.Beginning, 1<<62)
	if err != nil {
		t.Fatal(err)
	}
	list.K = k
	for i := range list.Parts {
		list.Parts[i].Name = fmt.Sprintf("cust-%06d", list.Parts[i].ID)
	}
	sorted := window.Sort(list)
	return encode.Rows{Appends: sorted, List: &list, Readers: 3,
		Read: func(ctx context.Context, appends []stages.Append, into func(int, stages.Body) error) error {
			return s.Bodies(ctx, &list, appends, into)
		}}
}

// The bytes of an object do not depend on how its bodies were read: mapped, read from the same files, or from a file system in memory.
func TestMappedAndReadBytes(t *testing.T) {
	appends, seal := rounds.Of(30_000, 3_000), int64(rounds.Of(4<<20, 400<<10))
	const records, partitions = 3, 500
	onDisk := stored(t, segment.Options{FS: vfs.Default, Dir: t.TempDir(), SealBytes: seal}, appends, records, partitions)
	inMemory := stored(t, segment.Options{FS: vfs.NewMem(), Dir: "segments", SealBytes: seal}, appends, records, partitions)
	if n := onDisk.View(1).Tail().Seg; n < 5 {
		t.Fatalf("the log ends in segment %d: too few are sealed", n)
	}
	for _, f := range encode.Formats() {
		var sums []string
		for _, r := range []encode.Rows{rowsOf(t, onDisk, 1), rowsOf(t, onDisk, 0), rowsOf(t, inMemory, 1)} {
			var out bytes.Buffer
			stats, err := f.Encode(t.Context(), &out, r)
			if err != nil || stats.Records != int64(appends*records) || stats.Partitions != partitions {
				t.Fatalf("%s: %+v, %v", f.Ext(), stats, err)
			}
			sum := sha256.Sum256(out.Bytes())
			sums = append(sums, hex.EncodeToString(sum[:8]))
		}
		if sums[0] != sums[1] || sums[0] != sums[2] {
			t.Errorf("%s: mapped, read, in memory: %v", f.Ext(), sums)
		}
	}
}

// A window of one append a partition is listed and sorted in what its appends and partitions are charged, garbage counted. Names are the state's.
func TestListingMemory(t *testing.T) {
	const n = 100_000
	s := stored(t, segment.Options{FS: vfs.Default, Dir: t.TempDir()}, n, 1, n)
	names := make([]string, n+1)
	for i := range names {
		names[i] = fmt.Sprintf("cust-%06d", i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list, err := s.View(1).List(t.Context(), stages.Beginning, 1<<62)
	for i := range list.Parts {
		list.Parts[i].Name = names[list.Parts[i].ID]
	}
	sorted := window.Sort(list)
	runtime.ReadMemStats(&after)
	if err != nil || len(sorted) != n || len(list.Parts) != n {
		t.Fatal(err, len(sorted), len(list.Parts))
	}
	if cap(list.Parts) != n {
		t.Errorf("room for %d partitions, there are %d", cap(list.Parts), n)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > n*(stages.AppendBytes+stages.PartBytes)+64<<10 {
		t.Errorf("%d bytes an append of its own partition, charged are %d and %d", took/n, stages.AppendBytes, stages.PartBytes)
	}
}

func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWindow reports processor time, the least of all rounds, because other programs take caches and cores: of listing, of sorting, and of
// reading and formatting.
func BenchmarkWindow(b *testing.B) {
	for _, records := range []int{1, 10, 100} {
		for _, partitions := range []int{100, 100_000} {
			appends := 300_000 / records
			partitions = min(partitions, appends)
			b.Run(fmt.Sprintf("%d/%d", records, partitions), func(b *testing.B) {
				s := stored(b, segment.Options{FS: vfs.Default, Dir: b.TempDir()}, appends, records, partitions)
				plain, err := encode.Lookup("jsonl", "none")
				if err != nil {
					b.Fatal(err)
				}
				var lines bytes.Buffer
				if _, err := plain.Encode(b.Context(), &lines, rowsOf(b, s, 1)); err != nil {
					b.Fatal(err)
				}
				list, sort, format := time.Hour, time.Hour, time.Hour
				b.ReportAllocs()
				for b.Loop() {
					start := used()
					l, err := s.View(1).List(b.Context(), stages.Beginning, 1<<62)
					if err != nil {
						b.Fatal(err)
					}
					list = min(list, used()-start)
					l.K = 1
					for i := range l.Parts {
						l.Parts[i].Name = fmt.Sprintf("cust-%06d", l.Parts[i].ID)
					}
					start = used()
					sorted := window.Sort(l)
					sort = min(sort, used()-start)
					r := rowsOf(b, s, 1)
					r.Appends, r.List = sorted, &l
					start = used()
					if _, err := plain.Encode(b.Context(), io.Discard, r); err != nil {
						b.Fatal(err)
					}
					format = min(format, used()-start)
				}
				per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(appends) }
				b.ReportMetric(per(list), "ns-list/append")
				b.ReportMetric(per(sort), "ns-sort/append")
				b.ReportMetric(per(format), "ns-format/append")
				b.ReportMetric(float64(format.Nanoseconds())/float64(lines.Len()), "ns-format/byte")
			})
		}
	}
}
