package encode

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"queen/encode/rowstest"
	"queen/stages"
)

// object is one object as the stage hands it on.
type object struct {
	of    *stages.Object
	data  []byte
	stats stages.Stats
}

// objectsOf runs a job through the stage and returns its objects.
func objectsOf(t *testing.T, l *log, f Format, layout string, readers int) (all []object) {
	t.Helper()
	j := job(l, f)
	j.Intent.Layout = layout
	s := newStage(t, l, &stages.Chunks{})
	s.readers = readers
	ended := false
	cur := object{}
	err := s.Do(t.Context(), j, func(c stages.Chunk) error {
		if c.Job != j || ended || c.Cut && c.End || cur.data != nil && c.Object != cur.of {
			t.Errorf("chunk of %+v, cut %v, end %v, behind the end: %v", c.Object, c.Cut, c.End, ended)
		}
		cur.of, cur.data, ended = c.Object, append(cur.data, c.Data...), c.End
		c.Release()
		if c.End && len(c.Data) == 0 && c.Object == nil && layout != "merged" {
			return nil
		}
		if c.Cut || c.End {
			cur.stats = c.Stats
			all = append(all, cur)
			cur = object{}
		}
		return nil
	})
	if err != nil || !ended {
		t.Fatal(err, ended)
	}
	return all
}

// random is a window of random partitions, some of which were deleted and made anew within it.
func random(seed uint64) *log {
	r := rand.New(rand.NewPCG(seed, 7))
	l := &log{}
	id := stages.PartitionID(1 + r.IntN(5))
	names := []string{"", "a", "a b", "a-b", "a~", "a/b", "ключ", "é", "e\u0301", "\x00", "a\"", "zz"}
	ts := stages.Micros(1791007200000000)
	for _, name := range names[:r.IntN(len(names)+1)] {
		for range 1 + r.IntN(3) { // incarnations
			id++
			base := int64(0)
			if r.IntN(2) == 0 {
				base = r.Int64N(1 << 40)
			}
			for range 1 + r.IntN(4) {
				ts += stages.Micros(1 + r.IntN(3_000_000))
				var records []stages.Record
				for range 1 + r.IntN(5) {
					records = append(records, record(fmt.Sprint("tx", r.Uint64()), fmt.Sprintf(`{"n":%d}`, r.Uint64())))
				}
				l.add(id, name, ts, base, records...)
				base += int64(len(records) + r.IntN(3))
			}
		}
	}
	slices.SortStableFunc(l.bodies, func(a, b rowstest.Append) int { return cmp.Compare(l.names[a.H.Partition], l.names[b.H.Partition]) })
	return l
}

// What is merged into one object, and what is spread over one a partition, are the same records in the same order; each object holds its
// partition alone, and says which offsets. Neither cores nor readers change a byte of either.
func TestLayoutsHoldTheSame(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for seed := range uint64(25) {
		l := random(seed)
		for _, f := range formats(t) {
			runtime.GOMAXPROCS(1)
			merged, spread := objectsOf(t, l, f, "merged", 1), objectsOf(t, l, f, "per-partition", 1)
			runtime.GOMAXPROCS(8)
			for name, want := range map[string][]object{"merged": merged, "per-partition": spread} {
				got := objectsOf(t, l, f, name, 4)
				if !slices.EqualFunc(got, want, func(a, b object) bool { return bytes.Equal(a.data, b.data) && a.stats == b.stats }) {
					t.Errorf("seed %d, %s, %s: other bytes with 8 cores and 4 readers", seed, f.Ext(), name)
				}
			}
			compareLayouts(t, fmt.Sprintf("seed %d, %s", seed, f.Ext()), f, merged, spread)
		}
	}
}

func compareLayouts(t *testing.T, what string, f Format, merged, spread []object) {
	t.Helper()
	if len(merged) != 1 || merged[0].of != nil {
		t.Fatalf("%s: merged into %d objects", what, len(merged))
	}
	want := collect(t, f.Decode(bytes.NewReader(merged[0].data)))
	var got []Row
	sum := stages.Stats{}
	last := ""
	for i, o := range spread {
		rows := collect(t, f.Decode(bytes.NewReader(o.data)))
		got = append(got, rows...)
		if i > 0 && o.of.Partition <= last {
			t.Errorf("%s: partition %q behind %q", what, o.of.Partition, last)
		}
		last = o.of.Partition
		low, high := rows[0].Offset, rows[0].Offset
		for _, r := range rows {
			low, high = min(low, r.Offset), max(high, r.Offset)
			if r.Partition != last {
				t.Errorf("%s: a record of %q in the object of %q", what, r.Partition, last)
			}
		}
		if *o.of != (stages.Object{Partition: last, First: low, Last: high}) || o.stats.Records != int64(len(rows)) || o.stats.Partitions != 1 {
			t.Errorf("%s: object %+v, stats %+v: its offsets are %d to %d, its records %d", what, o.of, o.stats, low, high, len(rows))
		}
		if i == 0 {
			sum.MinTS, sum.MaxTS = o.stats.MinTS, o.stats.MaxTS
		}
		sum = stages.Stats{Records: sum.Records + o.stats.Records, Partitions: sum.Partitions + 1,
			MinTS: min(sum.MinTS, o.stats.MinTS), MaxTS: max(sum.MaxTS, o.stats.MaxTS)}
	}
	if len(want) > 0 && sum != merged[0].stats || len(want) == 0 && len(spread) != 0 {
		t.Errorf("%s: sums %+v, merged %+v, %d objects", what, sum, merged[0].stats, len(spread))
	}
	if !slices.EqualFunc(got, want, func(a, b Row) bool {
		return a.Partition == b.Partition && a.Offset == b.Offset && a.TxID == b.TxID && a.TS == b.TS && bytes.Equal(a.Payload, b.Payload)
	}) {
		t.Errorf("%s: %d records in objects of their own, %d merged: not the same", what, len(got), len(want))
	}
}

// spy is a format that notes what it is shown.
type spy struct {
	Format
	shown []stages.Listing
}

func (s *spy) Encode(ctx context.Context, w io.Writer, r Rows) (stages.Stats, error) {
	s.shown = append(s.shown, *r.List)
	return s.Format.Encode(ctx, w, r)
}

// What a format is shown of an object is what a window of that partition alone would show it: no name of another one, exact sums.
func TestObjectsAreWindowsOfTheirOwn(t *testing.T) {
	for seed := range uint64(25) {
		l := random(seed)
		f, _ := Lookup("jsonl", "none")
		s := &spy{Format: f}
		j := job(l, f)
		j.Intent.Layout = "per-partition"
		read := func(ctx context.Context, list *stages.Listing, appends []stages.Append, into func(int, stages.Body) error) error {
			return l.read(ctx, appends, func(i int, b stages.Body) error {
				if id := list.Parts[appends[i].Part].ID; id != b.Header().Partition {
					t.Errorf("seed %d: an append of partition %d is read as one of %d", seed, b.Header().Partition, id)
				}
				return into(i, b)
			})
		}
		st := New(func(string, string) (Format, error) { return s, nil }, read, 2, &stages.Chunks{}, "tenant")
		if err := st.Do(t.Context(), j, func(c stages.Chunk) error { c.Release(); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, list := range s.shown {
			alone := &log{names: l.names}
			for _, b := range l.bodies {
				if l.names[b.H.Partition] == list.Parts[0].Name {
					alone.bodies = append(alone.bodies, b)
				}
			}
			want := alone.listing()
			if list.Records != want.Records || list.Weight != want.Weight || list.MinTS != want.MinTS || list.MaxTS != want.MaxTS || !slices.Equal(list.Parts, want.Parts) || len(list.Appends) != len(want.Appends) {
				t.Errorf("seed %d, partition %q: shown %+v, alone it is %+v", seed, list.Parts[0].Name, list, want)
			}
		}
	}
}

// A layout of a later version is refused by name, before a body is read.
func TestUnknownLayout(t *testing.T) {
	l := odd()
	f, _ := Lookup("jsonl", "gzip")
	j := job(l, f)
	j.Intent.Layout = "by-hour"
	read := func(context.Context, *stages.Listing, []stages.Append, func(int, stages.Body) error) error {
		t.Error("a body was read")
		return nil
	}
	var unknown *UnknownError
	if err := New(Lookup, read, 1, &stages.Chunks{}, "tenant").Do(t.Context(), j, nil); !errors.As(err, &unknown) || unknown.Layout != "by-hour" {
		t.Error(err)
	}
}

// A read that comes up short, or brings another append than was asked for, while an object is measured fails the window.
func TestMeasuredReadsAreWhole(t *testing.T) {
	l := odd()
	f, _ := Lookup("jsonl", "none")
	for name, change := range map[string]func(appends []stages.Append) []stages.Append{
		"short": func(appends []stages.Append) []stages.Append { return appends[:len(appends)-1] },
		"other": func(appends []stages.Append) []stages.Append {
			return append([]stages.Append{{Off: uint32(len(l.bodies) - 1 - int(appends[0].Off))}}, appends[1:]...)
		},
	} {
		j := job(l, f)
		j.Intent.Layout = "per-partition"
		read := func(ctx context.Context, _ *stages.Listing, appends []stages.Append, into func(int, stages.Body) error) error {
			return l.read(ctx, change(appends), into)
		}
		err := New(Lookup, read, 1, &stages.Chunks{}, "tenant").Do(t.Context(), j, func(c stages.Chunk) error { c.Release(); return nil })
		if !errors.Is(err, stages.ErrDamaged) || !strings.Contains(err.Error(), "measure partition") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
