package contract

import (
	"slices"
	"testing"
)

// The table of section 4, row by row, with how many numbers each row holds: none may be lost from the list, and none counted twice.
func TestEveryRowOnce(t *testing.T) {
	want := []struct {
		part    string
		numbers int
	}{
		{"backfill of one queue, JSONL+zstd", 1}, {"the same, Parquet+zstd", 1}, {"encoders alone", 2}, {"memory of the sink", 2},
		{"cost of scale", 4}, {"lag", 2}, {"push", 3}, {"restart", 2},
	}
	got, names, whats := map[string]int{}, map[string]bool{}, map[string]bool{}
	var order []string
	for _, r := range Rows() {
		if got[r.Part]++; got[r.Part] == 1 {
			order = append(order, r.Part)
		}
		if names[r.ID] || whats[r.What] {
			t.Errorf("%s, %q: twice", r.ID, r.What)
		}
		names[r.ID], whats[r.What] = true, true
		if r.What == "" || r.Must == "" || (r.Kind == "") == (r.Needs == "") {
			t.Errorf("%+v: a row has either a measurement or what it needs first", r)
		}
	}
	for i, w := range want {
		if i >= len(order) || order[i] != w.part || got[w.part] != w.numbers {
			t.Errorf("%q: %d numbers, not %d; the parts are %q", w.part, got[w.part], w.numbers, order)
		}
	}
	if len(order) != len(want) {
		t.Errorf("%d parts, not %d", len(order), len(want))
	}
}

func TestFind(t *testing.T) {
	if r, ok := Find("push.p99"); !ok || r.Kind != "latency" || !slices.Contains(Rows(), r) {
		t.Errorf("%+v %v", r, ok)
	}
	if r, ok := Find("push"); ok {
		t.Errorf("%+v", r)
	}
}
