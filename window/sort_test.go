package window

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"queen/stages"
)

// listing makes n appends in stamp order over parts partitions; every tenth name has two incarnations. Sum tells them apart.
func listing(rng *rand.Rand, n, parts int) stages.Listing {
	l := stages.Listing{K: 1, Parts: make([]stages.Part, parts)}
	for i := range l.Parts {
		name := i * 7919
		if i%10 == 1 {
			name = (i - 1) * 7919
		}
		l.Parts[i] = stages.Part{ID: stages.PartitionID(parts - i), Name: fmt.Sprintf("p-%x", name)}
	}
	for i := range n {
		l.Appends = append(l.Appends, stages.Append{Part: uint32(rng.IntN(parts)), Seg: uint32(i / 1000), Off: uint32(i % 1000), Len: 1, Sum: uint32(i)})
	}
	return l
}

func clone(l stages.Listing) stages.Listing {
	l.Appends, l.Parts = slices.Clone(l.Appends), slices.Clone(l.Parts)
	return l
}

// sorted is what Sort must make of a listing, by comparing names.
func sorted(l stages.Listing) stages.Listing {
	l = clone(l)
	was := slices.Clone(l.Parts)
	slices.SortStableFunc(l.Appends, func(a, b stages.Append) int {
		return cmp.Or(cmp.Compare(was[a.Part].Name, was[b.Part].Name), comparePlaces(a, b))
	})
	slices.SortFunc(l.Parts, func(a, b stages.Part) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	for i := range l.Appends {
		l.Appends[i].Part = uint32(slices.Index(l.Parts, was[l.Appends[i].Part]))
	}
	return l
}

func TestSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 17, 5000} {
		for _, parts := range []int{1, 3, 300} {
			l := listing(rng, n, parts)
			want := sorted(l)
			shuffled := clone(l)
			rng.Shuffle(n, func(i, j int) {
				shuffled.Appends[i], shuffled.Appends[j] = shuffled.Appends[j], shuffled.Appends[i]
			})
			for what, l := range map[string]stages.Listing{"in stamp order": l, "in any order": shuffled} {
				if d := gocmp.Diff(want.Appends, Sort(l)); d != "" {
					t.Errorf("%d appends %s, %d partitions: %s", n, what, parts, d)
				}
				if d := gocmp.Diff(want.Parts, l.Parts); d != "" {
					t.Errorf("%d appends %s, %d partitions: the table: %s", n, what, parts, d)
				}
			}
		}
	}
}

// The names are compared as bytes, and a name that was deleted and created again is one partition in the object.
func TestSortNames(t *testing.T) {
	for prefix, want := range map[string]string{
		"":       " 7, B 6, a 2, a\x00 9, b 1, b 3, b 5, b 8, bb 10, ä 4, ",
		"12345-": "12345- 7, 12345-B 6, 12345-a 2, 12345-a\x00 9, 12345-b 1, 12345-b 3, 12345-b 5, 12345-b 8, 12345-bb 10, 12345-ä 4, ",
	} {
		l := stages.Listing{Parts: []stages.Part{{ID: 9, Name: "b"}, {ID: 2, Name: "a"}, {ID: 3, Name: "b"}, {ID: 4, Name: "B"}, {ID: 5, Name: "ä"},
			{ID: 6, Name: ""}, {ID: 7, Name: "bb"}, {ID: 8, Name: "a\x00"}}}
		for i := range l.Parts {
			l.Parts[i].Name = prefix + l.Parts[i].Name
		}
		for i, part := range []uint32{0, 1, 2, 4, 0, 3, 5, 2, 7, 6} {
			l.Appends = append(l.Appends, stages.Append{Part: part, Off: uint32(i + 1)})
		}
		var got string
		for _, a := range Sort(l) {
			got += fmt.Sprintf("%s %d, ", l.Parts[a.Part].Name, a.Off)
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Names that are equal in the eight bytes that are compared first, or are not even as long.
func TestSortLongNames(t *testing.T) {
	l := stages.Listing{}
	for i, name := range []string{"aaaaaaaaaaz", "b", "aaaaaaaaaay", "aaaaaaaa", "aaaaaaaa\x00", "aaaaaaa", ""} {
		l.Parts = append(l.Parts, stages.Part{ID: stages.PartitionID(i), Name: name})
		l.Appends = append(l.Appends, stages.Append{Part: uint32(i), Off: uint32(i)})
	}
	var got []string
	for _, a := range Sort(l) {
		got = append(got, l.Parts[a.Part].Name)
	}
	if want := []string{"", "aaaaaaa", "aaaaaaaa", "aaaaaaaa\x00", "aaaaaaaaaay", "aaaaaaaaaaz", "b"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Names of any bytes and lengths, many of them twice.
func TestSortRandomNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, prefix := range []string{"", "customer-"} {
		for range 50 {
			l := stages.Listing{}
			for i := range 300 {
				name := make([]byte, rng.IntN(12))
				for j := range name {
					name[j] = []byte{0, 1, 'a', 0x80, 0xff}[rng.IntN(5)]
				}
				l.Parts = append(l.Parts, stages.Part{ID: stages.PartitionID(i), Name: prefix + string(name)})
				l.Appends = append(l.Appends, stages.Append{Part: uint32(i), Off: uint32(i)})
			}
			want := sorted(l)
			if d := gocmp.Diff(want.Appends, Sort(l)); d != "" {
				t.Fatal(d)
			}
			if d := gocmp.Diff(want.Parts, l.Parts); d != "" {
				t.Fatal(d)
			}
		}
	}
}

// What Sort holds beside the listing is 4 bytes an append, as stages.AppendBytes says.
func TestSortScratch(t *testing.T) {
	const appends, parts = 1 << 20, 10
	l := listing(rand.New(rand.NewPCG(1, 2)), appends, parts)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Sort(l)
	runtime.ReadMemStats(&after)
	used := after.TotalAlloc - before.TotalAlloc
	if used > 4*appends+64<<10 {
		t.Errorf("%d bytes for %d appends", used, appends)
	}
}

func BenchmarkSort(b *testing.B) {
	for _, appends := range []int{300_000, 2_000_000} {
		for _, parts := range []int{100, 100_000} {
			b.Run(fmt.Sprintf("%d/%d", appends, parts), func(b *testing.B) {
				l := listing(rand.New(rand.NewPCG(1, 2)), appends, parts)
				work := clone(l)
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					copy(work.Appends, l.Appends)
					copy(work.Parts, l.Parts)
					b.StartTimer()
					Sort(work)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(appends), "ns/append")
			})
		}
	}
}
