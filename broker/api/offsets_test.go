package api

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"queen/stages"
)

// What fetch/offsets says is what a walk through all records finds, for every stamp and the moments beside it.
func TestOffsetsAgreeWithFetch(t *testing.T) {
	f := newFixture(t, nil)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 120 {
		var items []string
		for range 1 + rng.IntN(4) {
			items = append(items, fmt.Sprintf(`{"queue":"q","partition":"p%d","payload":1}`, rng.IntN(5)))
		}
		f.ok(t, http.StatusCreated, "POST", "/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`)
	}
	for p := range 5 {
		records := fetch(t, f, fmt.Sprintf(`{"entries":[{"queue":"q","partition":"p%d","offset":0}]}`, p)).Entries[0].Records
		var moments []stages.Micros
		for _, r := range records {
			at, err := stages.ParseISO(r.TS)
			if err != nil {
				t.Fatal(err)
			}
			moments = append(moments, at-1, at, at+1)
		}
		slices.Sort(moments)
		for _, at := range moments {
			var got struct {
				Entries []struct {
					Offset *int64
					TS     *string
				}
			}
			answer := f.ok(t, http.StatusOK, "POST", "/api/v1/fetch/offsets", fmt.Sprintf(`{"entries":[{"queue":"q","partition":"p%d","timestamp":%q}]}`, p, at.ISO()))
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(records, func(r record) bool { return r.TS >= at.ISO() }) // ISO text sorts as time
			e := got.Entries[0]
			if i < 0 && (e.Offset != nil || e.TS != nil) || i >= 0 && (e.Offset == nil || *e.Offset != records[i].Offset || *e.TS != records[i].TS) {
				t.Fatalf("p%d at %s: %s, want record %d of %d", p, at.ISO(), answer, i, len(records))
			}
		}
	}
}

// The detail of a queue names every partition once, over several pages, and its sums are those of the listing.
func TestDetailPages(t *testing.T) {
	f := newFixture(t, nil)
	n := detailPage*2 + 7
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"queue":"q","partition":"p%d","payload":1}`, i))
	}
	for _, some := range [][]string{items, items[:10]} {
		f.ok(t, http.StatusCreated, "POST", "/api/v1/push", `{"items":[`+strings.Join(some, ",")+`]}`)
	}
	var got struct {
		Partitions []struct {
			Name                         string
			Messages                     int64
			OldestMessage, NewestMessage string
		}
		Segments struct{ Messages int64 }
		Totals   struct{ Total, Pending int64 }
	}
	if err := json.Unmarshal([]byte(f.ok(t, http.StatusOK, "GET", "/api/v1/resources/queues/q", "")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Partitions) != n || got.Totals.Total != int64(n+10) || got.Totals.Pending != got.Totals.Total || got.Segments.Messages != got.Totals.Total {
		t.Fatalf("%d partitions, totals %+v, want %d and %d", len(got.Partitions), got.Totals, n, n+10)
	}
	for i, p := range got.Partitions {
		want := int64(1)
		if i < 10 {
			want = 2
		}
		if p.Name != fmt.Sprintf("p%d", i) || p.Messages != want || p.OldestMessage != "2026-10-02T10:00:01.000000Z" || (p.NewestMessage > p.OldestMessage) != (i < 10) {
			t.Fatalf("partition %d: %+v", i, p)
		}
	}
}
