package api

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestARequestIsUsedAgain: a push is parsed into what an earlier one has left, and nothing of that shows, whether that one was accepted or refused
// in its middle.
func TestARequestIsUsedAgain(t *testing.T) {
	bodies := []string{
		`{"items":[{"queue":"a","partition":"p","payload":1,"transactionId":"t1","traceId":"0190a0b0-0000-7000-8000-0000000000ff"},{"queue":"b","payload":[1,` + "\n" + `2]},{"queue":"a","partition":"p","payload":{}}]}`,
		`{"items":[{"queue":"b","payload":2}]}`,
		`{"items":[{"queue":"a","partition":"p","payload":3},{"queue":"a","partition":"p","payload":4}`, // cut
		`{"items":[{"queue":"a","partition":"p","payload":3},{"queue":"a","partition":"q","transactionId":5,"payload":4}]}`,
		`{"items":[]}`,
		`{"items":[{"queue":"a","partition":"x","payload":1},{"queue":"a","partition":"y","payload":1}]}`,
		`{"items":[{"queue":"a","partition":"z","payload":1},{"queue":"a","partition":"y","payload":1}]}`,
		`{"items":[` + strings.TrimSuffix(strings.Repeat(`{"queue":"c","partition":"p","payload":"x"},`, 300), ",") + `]}`,
		`{"items":[{"payload":5}]}`, // no queue, though the one before had one
		`{"items":[{"queue":"c","payload":5},{"queue":"c","partition":null,"payload":5},{"queue":"c","partition":"Default","payload":5}]}`,
	}
	for i, first := range bodies {
		for j, second := range bodies {
			want, werr := parsePush([]byte(second))
			got := &pushRequest{byQueue: make(map[string]int), byGroup: make(map[groupKey]int)}
			_ = got.parse([]byte(first)) // some of them are refused
			if !got.clear() {
				t.Fatalf("body %d is not kept", i)
			}
			err := got.parse([]byte(second))
			if fmt.Sprint(err) != fmt.Sprint(werr) {
				t.Fatalf("%d after %d: %v, want %v", j, i, err, werr)
			}
			if err != nil {
				continue
			}
			if fmt.Sprint(got.queues) != fmt.Sprint(want.queues) || fmt.Sprintf("%+v", got.groups) != fmt.Sprintf("%+v", want.groups) ||
				len(got.items) != len(want.items) || len(got.items) > 0 && !reflect.DeepEqual(got.items, want.items) {
				t.Fatalf("%d after %d: %+v, want %+v", j, i, got, want)
			}
		}
	}
}

// TestNamesLikeTheItemBefore: what names the queue and the partition in the same bytes as the item before is in its group, and nothing else is.
func TestNamesLikeTheItemBefore(t *testing.T) {
	names := []string{`"queue":"a"`, `"queue":"a","partition":null`, `"queue":"a","partition":"Default"`, `"queue":"a","partition":""`, `"queue":"a","partition":"p"`,
		`"queue":"a","partition":"\u0070"`, `"queue":"a","partition":"q"`, `"queue":"b","partition":"q"`, `"queue":"\u0062","partition":"q"`, `"queue":"b"`}
	groups := []string{"a/Default", "a/Default", "a/Default", "a/Default", "a/p", "a/p", "a/q", "b/q", "b/q", "b/Default"}
	for i := range names {
		for j := range names {
			p, err := parsePush([]byte(`{"items":[{` + names[i] + `,"payload":1},{` + names[j] + `,"payload":2},{"payload":3,` + names[j] + `},{` + names[i] + `,"payload":4}]}`))
			if err != nil {
				t.Fatal(err)
			}
			for n, want := range []string{groups[i], groups[j], groups[j], groups[i]} {
				if g := p.groups[p.items[n].group]; p.queues[g.queue]+"/"+g.partition != want {
					t.Errorf("%s, then %s: item %d is in %s/%s", names[i], names[j], n, p.queues[g.queue], g.partition)
				}
			}
		}
	}
}

// TestALargeRequestIsNotKept: one huge push must not hold its memory for ever.
func TestALargeRequestIsNotKept(t *testing.T) {
	for _, body := range []string{
		`{"items":[` + strings.TrimSuffix(strings.Repeat(`{"queue":"c","payload":1},`, keepItems+1), ",") + `]}`,
		manyGroups(keepGroups + 1),
	} {
		p, err := parsePush([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if p.clear() {
			t.Errorf("%d items in %d groups are kept", cap(p.items), cap(p.groups))
		}
	}
}

func manyGroups(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"queue":"c","partition":"p%d","payload":1}`, i)
	}
	return `{"items":[` + b.String()[1:] + `]}`
}
