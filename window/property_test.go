package window

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen/stages"
)

// trial is one random queue: what was pushed, and under which rules it is cut.
type trial struct {
	rules    Rules
	position stages.Micros
	marks    []stages.Mark
	ceiling  stages.Micros // above all marks
}

func newTrial(rng *rand.Rand) trial {
	const hour = int64(time.Hour / time.Microsecond)
	tr := trial{rules: Rules{
		Target: 1 + rng.Int64N(60),
		MaxAge: math.MaxInt64,
		Align:  []Align{Hour, Day, None}[rng.IntN(3)],
	}}
	if rng.IntN(2) == 0 {
		tr.rules.MaxAppends = 1 + rng.Int64N(12)
	}
	ts := stages.Micros(rng.Int64N(4*hour) - 2*hour)
	tr.position = ts
	if rng.IntN(3) == 0 {
		tr.position = stages.Beginning
	}
	for range rng.IntN(200) {
		switch rng.IntN(8) {
		case 0, 1, 2, 3: // the same stamp again
		case 4, 5:
			ts++
		case 6:
			ts = ts.Add(time.Duration(rng.Int64N(int64(20 * time.Minute))))
		case 7:
			if rng.IntN(4) == 0 {
				ts = ts.Add(time.Duration(rng.Int64N(int64(60 * time.Hour))))
			} else {
				ts = ts.Add(time.Hour - 1).Floor(time.Hour) // exactly on a boundary
			}
		}
		tr.marks = append(tr.marks, stages.Mark{TS: ts, Weight: rng.Int64N(20)})
	}
	tr.ceiling = ts.Add(time.Duration(rng.Int64N(int64(2*time.Hour)))) + 1
	return tr
}

// asSource cuts like package source: in the middle of a look the ceiling is the last mark's stamp.
func (tr trial) asSource(rng *rand.Rand) []stages.Batch {
	var out []stages.Batch
	rest := tr.marks
	for len(rest) > 0 {
		n := 1 + rng.IntN(len(rest))
		out = append(out, stages.Batch{Marks: rest[:n], Ceiling: rest[n-1].TS})
		rest = rest[n:]
	}
	return append(out, stages.Batch{Ceiling: tr.ceiling})
}

// anyhow cuts at any place with any ceiling that a batch may have, also below marks that it holds.
func (tr trial) anyhow(rng *rand.Rand) []stages.Batch {
	var out []stages.Batch
	rest, low := tr.marks, stages.Beginning
	for len(rest) > 0 {
		n := rng.IntN(min(len(rest), 9) + 1)
		b := stages.Batch{Marks: rest[:n]}
		rest = rest[n:]
		high := tr.ceiling
		if len(rest) > 0 {
			high = rest[0].TS
		}
		from := max(low, tr.marks[0].TS.Add(-time.Hour))
		b.Ceiling = from + stages.Micros(rng.Int64N(max(int64(high-from), 0)+1))
		low = b.Ceiling
		out = append(out, b)
	}
	return append(out, stages.Batch{Ceiling: tr.ceiling})
}

// run cuts and checks what holds for every window, whatever closed it.
func (tr trial) run(t *testing.T, batches []stages.Batch) []stages.Window {
	return tr.cut(t, batches, false)
}

// fill does the same with a pipeline only where a window is due.
func (tr trial) fill(t *testing.T, batches []stages.Batch) []stages.Window {
	return tr.cut(t, batches, true)
}

func (tr trial) cut(t *testing.T, batches []stages.Batch, fill bool) []stages.Window {
	c, err := New(tr.rules, tr.position, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []stages.Window
	end, k := tr.position, uint64(5)
	for _, b := range batches {
		before := k
		due, err := false, error(nil)
		if fill {
			if due, err = c.Fill(b); err != nil {
				t.Fatal(err)
			}
			b.Marks = nil
		}
		err = c.Do(t.Context(), b, func(w stages.Window) error {
			if w.End > b.Ceiling {
				t.Errorf("window %+v ends above the ceiling %d", w, b.Ceiling)
			}
			if w.Start != end || w.K != k || w.Shown < w.Start || w.Shown >= w.End {
				t.Errorf("window %+v comes after %d, k %d", w, end, k)
			}
			end, k = w.End, k+1
			out = append(out, w)
			tr.checkContent(t, w)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if fill && due != (k > before) {
			t.Errorf("ceiling %d: due %v, %d windows", b.Ceiling, due, k-before)
		}
	}
	s := c.Status()
	var weight, n int64
	for _, m := range tr.marks {
		if m.TS >= end {
			weight, n = weight+m.Weight, n+1
		}
	}
	if s.Weight != weight || s.Appends != n || c.Open() == (n == 0) {
		t.Errorf("status %+v, %d appends of weight %d are open", s, n, weight)
	}
	return out
}

func (tr trial) checkContent(t *testing.T, w stages.Window) {
	var weight, n int64
	for _, m := range tr.marks {
		if m.TS < w.Start || m.TS >= w.End {
			continue
		}
		weight, n = weight+m.Weight, n+1
		if m.TS < w.Shown || tr.rules.Align.unit() > 0 && tr.rules.Align.floor(m.TS) != tr.rules.Align.floor(w.Shown) {
			t.Errorf("window %+v holds %d", w, m.TS)
		}
	}
	if n == 0 || weight != w.Weight || n != w.Appends {
		t.Errorf("window %+v holds %d appends of weight %d", w, n, weight)
	}
}

// content says which stamps share a window.
func (tr trial) content(windows []stages.Window) [][]stages.Micros {
	var out [][]stages.Micros
	for _, w := range windows {
		var in []stages.Micros
		for _, m := range tr.marks {
			if m.TS >= w.Start && m.TS < w.End {
				in = append(in, m.TS)
			}
		}
		out = append(out, in)
	}
	return out
}

// want is the content by size, boundary and number of appends, told without ceilings or batches.
func (tr trial) want() [][]stages.Micros {
	var out [][]stages.Micros
	var open []stages.Micros
	var weight int64
	full := func(more int) bool {
		limit := int(tr.rules.MaxAppends)
		return weight >= tr.rules.Target || limit > 0 && len(open)+more > limit
	}
	for rest := tr.marks; len(rest) > 0; {
		ts, n := rest[0].TS, 1
		for n < len(rest) && rest[n].TS == ts {
			n++
		}
		crossed := len(open) > 0 && tr.rules.Align.unit() > 0 && tr.rules.Align.floor(open[0]) != tr.rules.Align.floor(ts)
		if len(open) > 0 && (crossed || full(n)) {
			out, open, weight = append(out, open), nil, 0
		}
		for _, m := range rest[:n] {
			open, weight = append(open, m.TS), weight+m.Weight
		}
		rest = rest[n:]
	}
	if len(open) > 0 {
		u := tr.rules.Align.unit()
		if full(1) || u > 0 && tr.ceiling >= tr.rules.Align.floor(open[0]).Add(u) {
			out = append(out, open)
		}
	}
	return out
}

func checkTrial(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 17))
	tr := newTrial(rng)
	want := tr.want()
	first := tr.run(t, tr.asSource(rng))
	if got := tr.content(first); !slices.EqualFunc(want, got, slices.Equal[[]stages.Micros]) {
		t.Errorf("as a source cuts: %s", cmp.Diff(want, got))
	}
	for range 3 {
		if again := tr.run(t, tr.asSource(rng)); !slices.Equal(first, again) {
			t.Errorf("cut otherwise: %s", cmp.Diff(first, again))
		}
		if got := tr.content(tr.run(t, tr.anyhow(rng))); !slices.EqualFunc(want, got, slices.Equal[[]stages.Micros]) {
			t.Errorf("cut anyhow: %s", cmp.Diff(want, got))
		}
		if got := tr.content(tr.fill(t, tr.anyhow(rng))); !slices.EqualFunc(want, got, slices.Equal[[]stages.Micros]) {
			t.Errorf("filled first: %s", cmp.Diff(want, got))
		}
	}
	tr.rules.MaxAge = time.Duration(rng.Int64N(int64(30 * time.Minute)))
	tr.run(t, tr.asSource(rng))
	batches := tr.anyhow(rng)
	if run, filled := tr.run(t, batches), tr.fill(t, batches); !slices.Equal(run, filled) {
		t.Errorf("closed by age, filled first: %s", cmp.Diff(run, filled))
	}
}

// However a sequence is cut into batches: windows tile, hold whole stamps of one calendar unit, end below the ceiling, and where only
// size, boundary and number close them they hold the same records.
func TestAnyCutting(t *testing.T) {
	for seed := range uint64(2000) {
		checkTrial(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzCutting(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(checkTrial)
}

// What a cutter keeps does not grow with the window.
func TestMemory(t *testing.T) {
	c, err := New(Rules{Target: math.MaxInt64, MaxAge: math.MaxInt64, Align: None}, 0, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	none := func(stages.Window) error { return nil }
	ts := stages.Micros(0)
	for range 100 {
		b := stages.Batch{}
		for range 4096 {
			ts++
			b.Marks = append(b.Marks, stages.Mark{TS: ts, Weight: 1})
		}
		b.Ceiling = ts
		if err := c.Do(t.Context(), b, none); err != nil {
			t.Fatal(err)
		}
		if len(c.held) != 1 || cap(c.held) > 8 {
			t.Fatalf("%d stamps held, room for %d", len(c.held), cap(c.held))
		}
	}
}

func BenchmarkCutter(b *testing.B) {
	c, err := New(Rules{Target: 1 << 27, MaxAge: time.Hour, Align: Hour}, 0, 1, nil)
	if err != nil {
		b.Fatal(err)
	}
	none := func(stages.Window) error { return nil }
	batch := stages.Batch{Marks: make([]stages.Mark, 4096)}
	for b.Loop() {
		for i := range batch.Marks {
			batch.Ceiling++
			batch.Marks[i] = stages.Mark{TS: batch.Ceiling, Weight: 300}
		}
		if err := c.Do(b.Context(), batch, none); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/append")
}
