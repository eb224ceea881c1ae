package api

import (
	"net/http"
	"strings"
	"testing"

	"queen/broker/command"
	"queen/stages"
)

// TestBelowStart: what retention took is below logStart in every answer, and a reader that asks for it is told where to go on.
func TestBelowStart(t *testing.T) {
	f := newFixture(t, nil)
	f.ok(t, http.StatusOK, "POST", "/api/v1/configure", `{"queue":"q","options":{"maxWaitTimeSeconds":4}}`)
	for range 8 { // a second each
		f.ok(t, http.StatusCreated, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1},{"queue":"q","payload":2}]}`)
	}
	if _, err := f.Propose(t.Context(), command.KindRetain, command.Retain{Most: 100, Queues: []stages.QueueID{1}}.Append(nil)); err != nil {
		t.Fatal(err)
	}
	const low = `"highWatermark":16,"logStartOffset":8`
	for _, c := range []struct{ method, target, body, want string }{
		{"POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":7}]}`, `"records":[],` + low + `,"error":"OFFSET_OUT_OF_RANGE"`},
		{"POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":8}]}`, `[{"offset":8,`},
		{"POST", "/api/v1/fetch/offsets", `{"entries":[{"queue":"q","timestamp":0}]}`, `"offset":8,`},
		{"POST", "/api/v1/partitions/changed", `{"entries":[{"queue":"q"}]}`, `"lastOffset":15,"logStart":8,`},
		{"GET", "/api/v1/resources/queues/q", "", `"messages":8,`},
		{"GET", "/api/v1/resources/queues", "", `"messages":8}`},
	} {
		if got := f.ok(t, http.StatusOK, c.method, c.target, c.body); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s, want %s", c.method, c.target, got, c.want)
		}
	}
}

// TestDelete: a queue is gone at once; a push makes another one, whose offsets begin at 0 under another id.
func TestDelete(t *testing.T) {
	f := newFixture(t, nil)
	const push = `{"items":[{"queue":"a/b","payload":1,"transactionId":"t"}]}`
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", push)
	first := f.ok(t, http.StatusOK, "POST", "/api/v1/partitions/changed", `{"entries":[{"queue":"a/b"}]}`)
	for _, want := range []string{`{"deleted":true,"existed":true,"queue":"a/b"}`, `{"deleted":false,"existed":false,"queue":"a/b","message":"Queue not found"}`} {
		if got := f.ok(t, http.StatusOK, "DELETE", "/api/v1/resources/queues/a%2Fb", ""); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := f.ok(t, http.StatusOK, "POST", "/api/v1/fetch", `{"entries":[{"queue":"a/b","offset":0}]}`); !strings.Contains(got, unknownPartition) {
		t.Error(got)
	}
	if got := f.ok(t, http.StatusCreated, "POST", "/api/v1/push", push); !strings.Contains(got, `"status":"queued","offset":0`) {
		t.Errorf("an id of the queue before counts: %s", got)
	}
	if again := f.ok(t, http.StatusOK, "POST", "/api/v1/partitions/changed", `{"entries":[{"queue":"a/b"}]}`); again == first {
		t.Errorf("the same incarnation: %s", again)
	}
}
