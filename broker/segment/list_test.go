package segment

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"

	"queen/stages"
)

// An append of a listing costs what the sink's budget is told that it costs.
func TestAppendBytes(t *testing.T) {
	if n := unsafe.Sizeof(stages.Append{}); n+4 != stages.AppendBytes {
		t.Errorf("an append takes %d bytes, and 4 more while it is sorted: AppendBytes is %d", n, stages.AppendBytes)
	}
}

// Partitions cost no more than the budget is told when their ids lie so far apart that a map has to find them: what is held when the listing is
// done is the map, and the Parts beside it.
func TestPartBytes(t *testing.T) {
	if n := unsafe.Sizeof(stages.Part{}); n >= stages.PartBytes {
		t.Errorf("a partition takes %d bytes: PartBytes is %d", n, stages.PartBytes)
	}
	for _, n := range []int{20_000, 50_000, 100_000, 160_000, 230_000} {
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		l := newLister(1, 1, n)
		before := heap()
		var e []byte
		for i := range n {
			e = appendEntry(e[:0], head{partition: stages.PartitionID(i * 1000), count: 1}, 0, frameHeaderLen+5)
			l.add(1, e)
		}
		list := l.done()
		held := heap() - before
		if len(list.Parts) != n || l.seen.far == nil || list.Parts[n-1].ID != stages.PartitionID((n-1)*1000) {
			t.Fatal(len(list.Parts), l.seen.far == nil)
		}
		if held > int64(n)*stages.PartBytes {
			t.Errorf("%d partitions: %d bytes for each, charged are %d", n, held/int64(n), stages.PartBytes)
		}
		runtime.KeepAlive(l)
		runtime.KeepAlive(list)
	}
}

// Whatever a range begins and ends with, its listing is that of its headers, and the memory for it is taken once, with little to spare.
func TestListRanges(t *testing.T) {
	s, m := open(t, vfs.NewMem(), 20_000), newMaker(3, 50)
	var stamps []stages.Micros
	var all []Frame
	for range 900 {
		fs := m.call(30)
		all = append(all, fs...)
		stamps = append(stamps, fs[0].TS)
		mustAppend(t, s, 1, fs)
	}
	v := s.View(1)
	if v.Tail().Seg < 4 {
		t.Fatal(v.Tail())
	}
	rng := rand.New(rand.NewPCG(5, 6))
	some := func() stages.Micros { return stamps[rng.IntN(len(stamps))] + stages.Micros(rng.IntN(2)) }
	ranges := [][2]stages.Micros{{stages.Beginning, maxMicros}, {stages.Beginning, 0}, {maxMicros, maxMicros}, {5, 4}}
	for range 300 {
		ranges = append(ranges, [2]stages.Micros{some(), some()})
	}
	for _, r := range ranges {
		hs, err := headersOf(v.Headers(r[0], r[1]))
		if err != nil {
			t.Fatal(err)
		}
		in := slices.DeleteFunc(slices.Clone(all), func(f Frame) bool { return f.TS < r[0] || f.TS >= r[1] })
		if len(hs) != len(in) {
			t.Fatalf("[%d, %d): %d headers of %d", r[0], r[1], len(hs), len(in))
		}
		for i, h := range hs {
			if err := differs(h, in[i]); err != nil {
				t.Fatalf("[%d, %d): %v", r[0], r[1], err)
			}
		}
		list, err := v.List(t.Context(), r[0], r[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := sameListing(list, hs); err != nil {
			t.Fatalf("[%d, %d): %v", r[0], r[1], err)
		}
		if room := v.count(r[0], r[1]); cap(list.Appends) != room || room > len(hs)+4*chunkEntries {
			t.Errorf("[%d, %d): %d appends in room for %d, counted were %d", r[0], r[1], len(hs), cap(list.Appends), room)
		}
	}
}

// The length of a body and of its frame say the same.
func TestBodyLen(t *testing.T) {
	for _, n := range []int{1, 2, blockLen - 1, blockLen, blockLen + 1, blockLen + 4, 2*blockLen - 1, 2 * blockLen, 2*blockLen + 1, 77*blockLen - 3, maxBody - 1, maxBody} {
		if got := bodyLen(uint32(frameLen(n))); int(got) != n {
			t.Errorf("a body of %d bytes: %d", n, got)
		}
	}
}

// Ids map to what was set, wherever they lie, and a table takes no more than its limit.
func TestPlaces(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for name, next := range map[string]func(i int) stages.PartitionID{
		"rising":  func(i int) stages.PartitionID { return stages.PartitionID(1000 + i) },
		"falling": func(i int) stages.PartitionID { return stages.PartitionID(2000 - i) },
		"to zero": func(i int) stages.PartitionID { return stages.PartitionID(max(0, 30-i)) },
		"near":    func(int) stages.PartitionID { return stages.PartitionID(rng.IntN(3000) + 5) },
		"far":     func(int) stages.PartitionID { return stages.PartitionID(rng.Uint64()) },
		"ends": func(i int) stages.PartitionID {
			return []stages.PartitionID{math.MaxUint64, 0, math.MaxInt64, 1, math.MaxInt64 + 1}[i%5]
		},
	} {
		for _, limit := range []uint64{1, 10, 64, 5000} {
			p, want := places{limit: limit}, map[stages.PartitionID]uint32{}
			for i := range 1000 {
				id := next(i)
				at, ok := p.get(id)
				if n, there := want[id]; ok != there || ok && at != n {
					t.Fatalf("%s, limit %d: id %d is at %d, %v, want %d, %v", name, limit, id, at, ok, n, there)
				}
				if !ok {
					p.set(id, uint32(len(want)))
					want[id] = uint32(len(want))
				}
				if uint64(len(p.table)) > limit {
					t.Fatalf("%s: a table of %d, limit %d", name, len(p.table), limit)
				}
			}
			if far := name == "far" || name == "ends"; far && p.far == nil || !far && limit == 5000 && p.far != nil {
				t.Errorf("%s, limit %d: by map is %v", name, limit, p.far != nil)
			}
			for id, n := range want {
				if at, ok := p.get(id); !ok || at != n {
					t.Fatalf("%s, limit %d: id %d is at %d, %v, want %d", name, limit, id, at, ok, n)
				}
			}
		}
	}
}

func BenchmarkList(b *testing.B) {
	const n = 600_000
	s, _ := benchStore(b, 1, n)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		list, err := s.View(1).List(b.Context(), 0, maxMicros)
		if err != nil || len(list.Appends) != n {
			b.Fatal(err, len(list.Appends))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/append")
}
