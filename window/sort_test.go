package window

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen/stages"
)

// listing makes n appends in stamp order over parts partitions; every tenth name has two incarnations.
func listing(rng *rand.Rand, n, parts int, spread stages.PartitionID) stages.Listing {
	l := stages.Listing{K: 1, Names: map[stages.PartitionID]string{}}
	next := map[stages.PartitionID]int64{}
	ts := stages.Micros(0)
	for range n {
		i := rng.IntN(parts)
		p := stages.PartitionID(i) * spread
		if i%10 == 1 {
			l.Names[p] = fmt.Sprintf("p-%x", (i-1)*7919)
		} else {
			l.Names[p] = fmt.Sprintf("p-%x", i*7919)
		}
		ts++ // a name has one append a stamp
		l.Appends = append(l.Appends, stages.Header{TS: ts, Partition: p, Base: next[p], Count: 2, Ref: stages.Ref{Off: uint32(ts)}})
		next[p] += 2
	}
	return l
}

func TestSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, spread := range []stages.PartitionID{1, 1 << 40} {
		for _, n := range []int{0, 1, 2, 17, 5000} {
			for _, parts := range []int{1, 3, 300} {
				l := listing(rng, n, parts, spread)
				want := slices.Clone(l.Appends)
				slices.SortStableFunc(want, func(a, b stages.Header) int { return compare(l.Names, a, b) })
				shuffled := l
				shuffled.Appends = slices.Clone(l.Appends)
				rng.Shuffle(n, func(i, j int) {
					shuffled.Appends[i], shuffled.Appends[j] = shuffled.Appends[j], shuffled.Appends[i]
				})
				if d := cmp.Diff(want, Sort(l)); d != "" {
					t.Errorf("%d appends, %d partitions: %s", n, parts, d)
				}
				if d := cmp.Diff(want, Sort(shuffled)); d != "" {
					t.Errorf("%d appends in any order, %d partitions: %s", n, parts, d)
				}
			}
		}
	}
}

// The names are compared as bytes, and a name that was deleted and created again is one partition in the object.
func TestSortIncarnations(t *testing.T) {
	l := stages.Listing{
		Names: map[stages.PartitionID]string{1: "b", 2: "a", 3: "b", 4: "B", 5: "ä", 6: ""},
		Appends: []stages.Header{
			{TS: 1, Partition: 1, Base: 5}, {TS: 1, Partition: 2}, {TS: 2, Partition: 3}, {TS: 3, Partition: 5},
			{TS: 4, Partition: 1, Base: 6}, {TS: 5, Partition: 4}, {TS: 6, Partition: 6}, {TS: 7, Partition: 3, Base: 1},
		},
	}
	var got []string
	for _, h := range Sort(l) {
		got = append(got, fmt.Sprintf("%s %d %d", l.Names[h.Partition], h.TS, h.Base))
	}
	want := []string{" 6 0", "B 5 0", "a 1 0", "b 1 5", "b 2 0", "b 4 6", "b 7 1", "ä 3 0"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestSortWithoutName(t *testing.T) {
	defer func() {
		if p := recover(); p != "window 7: partition 3 has no name in the listing" {
			t.Errorf("panic %v", p)
		}
	}()
	Sort(stages.Listing{K: 7, Appends: []stages.Header{{Partition: 3}}})
}

func BenchmarkSort(b *testing.B) {
	for _, parts := range []int{100, 100_000} {
		b.Run(fmt.Sprint(parts), func(b *testing.B) {
			l := listing(rand.New(rand.NewPCG(1, 2)), 2_000_000, parts, 1)
			work := slices.Clone(l.Appends)
			for b.Loop() {
				b.StopTimer()
				copy(work, l.Appends)
				b.StartTimer()
				Sort(stages.Listing{Names: l.Names, Appends: work})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(work)), "ns/append")
		})
	}
}
