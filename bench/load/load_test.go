package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

type request struct {
	Items []struct {
		Queue, Partition, TransactionID string
		Payload                         json.RawMessage
	}
}

// stub answers as a broker does and remembers what it was sent.
type stub struct {
	mu     sync.Mutex
	bodies []request
	enough func()
	want   int
	answer string
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	var q request
	if err := json.Unmarshal(data, &q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, q)
	if len(s.bodies) == s.want {
		s.enough()
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, "["+strings.Repeat(s.answer+",", len(q.Items)-1)+s.answer+"]")
}

func run(t *testing.T, o Options, answer string, pushes int) ([]request, Result, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &stub{want: pushes, enough: cancel, answer: answer}
	server := httptest.NewServer(s)
	defer server.Close()
	o.Address = strings.TrimPrefix(server.URL, "http://")
	r, err := Run(ctx, o)
	return s.bodies, r, err
}

func TestPushes(t *testing.T) {
	for _, spread := range []int{1, 5} {
		o := Options{Queue: "q-7", Connections: 3, Batch: 5, Spread: spread, Partitions: 10, Payload: 256, Duration: time.Minute, Run: 7}
		bodies, r, err := run(t, o, `{"status":"queued"}`, 40)
		if err != nil || r.Pushes == 0 || r.Messages != int64(r.Pushes)*5 || r.P50 > r.P99 || r.P99 > r.Max {
			t.Fatalf("%+v %v", r, err)
		}
		ids, partitions := map[string]bool{}, map[string]bool{}
		for _, b := range bodies {
			here := map[string]bool{}
			for _, it := range b.Items {
				if it.Queue != "q-7" || ids[it.TransactionID] || len(it.Payload) != 256 {
					t.Fatalf("%+v", it)
				}
				ids[it.TransactionID], partitions[it.Partition], here[it.Partition] = true, true, true
			}
			if len(b.Items) != 5 || len(here) != spread {
				t.Errorf("%d items in %d partitions", len(b.Items), len(here))
			}
		}
		if len(partitions) != 10 {
			t.Errorf("%d partitions", len(partitions))
		}
	}
}

func TestDuplicatesAreAnError(t *testing.T) {
	o := Options{Queue: "q-7", Connections: 1, Batch: 2, Spread: 1, Partitions: 1, Payload: 256, Duration: time.Minute}
	if _, _, err := run(t, o, `{"status":"duplicate"}`, 1<<30); err == nil || !strings.Contains(err.Error(), "0 of 2 queued") {
		t.Errorf("%v", err)
	}
}

// A push is counted from when it was due.
func TestRate(t *testing.T) {
	o := Options{Queue: "q-7", Connections: 2, Batch: 10, Rate: 1000}
	began := time.Now().Add(-time.Hour)
	for n, want := range []time.Duration{10 * time.Millisecond, 30 * time.Millisecond} {
		if due, ok := turn(t.Context(), o, 1, uint64(n), began); !ok || due.Sub(began) != want {
			t.Errorf("push %d is due after %s", n, due.Sub(began))
		}
	}
}

func TestValidate(t *testing.T) {
	good := Options{Queue: "q-7", Connections: 1, Batch: 10, Spread: 5, Partitions: 5, Payload: 256, Duration: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Spread = 3 }, func(o *Options) { o.Partitions = 4 }, func(o *Options) { o.Connections = 0 }, func(o *Options) { o.Duration = 0 }, func(o *Options) { o.Queue = "" },
	} {
		bad := good
		change(&bad)
		if bad.Validate() == nil {
			t.Errorf("%+v", bad)
		}
	}
}

func TestBodyIsHTTP(t *testing.T) {
	b := newBody(Options{Address: "h:1", Batch: 3, Payload: 256}, 0)
	head, body, ok := bytes.Cut(b.bytes, []byte("\r\n\r\n"))
	if !ok || !json.Valid(body) || !strings.Contains(string(head), fmt.Sprintf("Content-Length: %d", len(body))) {
		t.Errorf("%s", b.bytes)
	}
}
