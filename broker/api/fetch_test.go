package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"queen/stages"
)

// record is one of a fetch.
type record struct {
	Offset        int64
	TransactionID string
	Payload       json.RawMessage
	TS            string
}

// fetched is an answer to a fetch.
type fetched struct {
	Entries []struct {
		Queue, Partition              string
		Records                       []record
		HighWatermark, LogStartOffset int64
		Error                         string
	}
}

func fetch(t *testing.T, f *fixture, body string) fetched {
	t.Helper()
	var out fetched
	if err := json.Unmarshal([]byte(f.ok(t, http.StatusOK, "POST", "/api/v1/fetch", body)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Paging by "last offset + 1" finds every record once, over appends of one and of many records, from any offset.
func TestFetchPages(t *testing.T) {
	f := newFixture(t, nil)
	want := int64(0)
	for i := range 60 {
		var items []string
		for range 1 + i%7*i {
			items = append(items, fmt.Sprintf(`{"queue":"q","payload":%d},{"queue":"q","partition":"other","payload":0}`, want))
			want++
		}
		f.ok(t, http.StatusCreated, "POST", "/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`)
	}
	for _, maxBytes := range []int{1, 100, 8 << 20} {
		next := int64(0)
		for next < want {
			got := fetch(t, f, fmt.Sprintf(`{"entries":[{"queue":"q","offset":%d,"maxBytes":%d}]}`, next, maxBytes)).Entries[0]
			size := 0
			if len(got.Records) == 0 || got.HighWatermark != want {
				t.Fatalf("at %d: %d records, high watermark %d", next, len(got.Records), got.HighWatermark)
			}
			for _, r := range got.Records {
				if r.Offset != next || string(r.Payload) != fmt.Sprint(next) {
					t.Fatalf("offset %d, payload %s, want %d", r.Offset, r.Payload, next)
				}
				next++
				size += len(r.Payload)
			}
			if len(got.Records) > 1 && size > maxBytes {
				t.Fatalf("%d bytes for a limit of %d", size, maxBytes)
			}
			if full := size >= maxBytes-4 || next == want || len(got.Records) == maxFetchRecords; !full {
				t.Fatalf("at %d: only %d bytes of %d", next, size, maxBytes)
			}
			if maxBytes == 1 && next > 50 {
				break
			}
		}
	}
}

// At most 10,000 records an entry, whatever their size; the answer is sent in pieces and is still whole.
func TestFetchRecordLimit(t *testing.T) {
	f := newFixture(t, nil)
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", `{"items":[`+strings.TrimSuffix(strings.Repeat(`{"queue":"q","payload":1},`, 10_050), ",")+`]}`)
	got := fetch(t, f, `{"entries":[{"queue":"q","offset":7},{"queue":"q","offset":10049},{"queue":"q","offset":10050}]}`)
	if n := len(got.Entries[0].Records); n != maxFetchRecords || got.Entries[0].Records[0].Offset != 7 {
		t.Errorf("%d records", n)
	}
	if len(got.Entries[1].Records) != 1 || len(got.Entries[2].Records) != 0 || got.Entries[2].Error != "" {
		t.Errorf("entries at the end: %+v", got.Entries[1:])
	}
}

// poll starts a fetch that waits and returns its answer when it comes.
func poll(ctx context.Context, f *fixture, body string) <-chan *httptest.ResponseRecorder {
	out := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		r := httptest.NewRequestWithContext(ctx, "POST", "/api/v1/fetch", strings.NewReader(body))
		w := httptest.NewRecorder()
		f.h.ServeHTTP(w, r)
		out <- w
	}()
	return out
}

func answerOf(t *testing.T, c <-chan *httptest.ResponseRecorder) string {
	t.Helper()
	select {
	case w := <-c:
		return w.Body.String()
	case <-time.After(10 * time.Second):
		t.Fatal("the long poll did not end")
		return ""
	}
}

func TestFetchWaits(t *testing.T) {
	stop := make(chan struct{})
	f := newFixture(t, func(o *Options) { o.Stop = stop })
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":"first"}]}`)

	// Woken by the second of two pushes: the first is to another partition and too little.
	c := poll(t.Context(), f, `{"entries":[{"queue":"q","offset":1}],"maxWaitMs":30000,"minBytes":40}`)
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", `{"items":[{"queue":"q","partition":"x","payload":1}]}`)
	select {
	case w := <-c:
		t.Fatalf("answered without a record: %s", w.Body)
	default:
	}
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":"second"}]}`)
	if got := answerOf(t, c); !strings.Contains(got, `"second"`) {
		t.Errorf("got %s", got)
	}

	// The time runs out.
	if got := answerOf(t, poll(t.Context(), f, `{"entries":[{"queue":"q","offset":2}],"maxWaitMs":1}`)); !strings.Contains(got, `"records":[],"highWatermark":2`) {
		t.Errorf("got %s", got)
	}

	// The client goes away, and the node stops.
	ctx, cancel := context.WithCancel(t.Context())
	gone := poll(ctx, f, `{"entries":[{"queue":"q","offset":2}],"maxWaitMs":30000}`)
	cancel()
	answerOf(t, gone)
	stopped := poll(t.Context(), f, `{"entries":[{"queue":"q","offset":2}],"maxWaitMs":30000}`)
	close(stop)
	if got := answerOf(t, stopped); !strings.Contains(got, `"highWatermark":2`) {
		t.Errorf("got %s", got)
	}
	if w := f.do("GET", "/health", nil); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"status":"settling"`) {
		t.Errorf("health of a node that stops: %d %s", w.Code, w.Body)
	}
}

// Stored bytes that cannot be read: a 500 while nothing is out, a cut connection afterwards, never half an answer.
func TestFetchDamaged(t *testing.T) {
	for _, c := range []struct {
		size int
		cut  bool
	}{{10, false}, {2 * flushAt, true}} {
		f := newFixture(t, nil)
		for range 3 {
			f.ok(t, http.StatusCreated, "POST", "/api/v1/push", string(pushBody([]byte(`"`+strings.Repeat("x", c.size)+`"`))))
		}
		f.damage = fmt.Errorf("segment /secret: %w", stages.ErrDamaged)
		w := httptest.NewRecorder()
		cut := func() (cut bool) {
			defer func() { cut = recover() == http.ErrAbortHandler }()
			f.h.ServeHTTP(w, httptest.NewRequest("POST", "/api/v1/fetch", strings.NewReader(`{"entries":[{"queue":"q","maxBytes":8388608}]}`)))
			return false
		}()
		if cut != c.cut || !cut && (w.Code != http.StatusInternalServerError || w.Body.String() != `{"error":"internal error"}`) {
			t.Errorf("payloads of %d bytes: cut %v, %d %.100s", c.size, cut, w.Code, w.Body)
		}
	}
}
