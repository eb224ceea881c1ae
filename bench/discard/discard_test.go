package discard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/encode"
	"queen/stages"
	"queen/upload"
)

// The product's own client must take the server for a store: a window of one PUT and one of several parts.
func TestUploads(t *testing.T) {
	server := httptest.NewServer(&Server{})
	defer server.Close()
	client, err := upload.New(upload.ClientOptions{Endpoint: server.URL, Region: "r", Bucket: "b", AccessKey: "a", SecretKey: "s", PathStyle: true, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Probe(t.Context(), "queen"); err != nil {
		t.Errorf("probe: %v", err)
	}
	if _, found, err := client.Get(t.Context(), "k", 10); found || err != nil {
		t.Errorf("get: %v %v", found, err)
	}
	f, err := encode.Lookup("jsonl", "zstd")
	if err != nil {
		t.Fatal(err)
	}
	const size = 40 << 20
	for k, threshold := range []int64{size, 16 << 20} {
		stage := upload.NewStage(upload.StageOptions{Client: client, Sink: "s", Tenant: stages.DefaultTenant, Threshold: threshold,
			Describe: func(string, string) (string, string, error) { return f.Ext(), f.ContentType(), nil }})
		job := &stages.Job{Queue: stages.QueueInfo{ID: 1, Name: "q"}, Intent: stages.Intent{K: uint64(k + 1), Start: 1, End: 2, Layout: "merged", Align: "none", Prefix: "p"}}
		done := false
		for i := range size >> 20 {
			err := stage.Do(t.Context(), stages.Chunk{Job: job, Data: make([]byte, 1<<20), End: i == size>>20-1}, func(*stages.Uploaded) error { done = true; return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		if !done {
			t.Error("not uploaded")
		}
	}
	seen := ask(t, server.URL, http.MethodGet)
	if len(seen.Manifests) != 2 || seen.Bytes < 2*size {
		t.Errorf("%d bytes, %d manifests", seen.Bytes, len(seen.Manifests))
	}
	if m, err := upload.ParseManifest(seen.Manifests[1]); err != nil || m.K != 2 || m.Bytes != size {
		t.Errorf("%+v %v", m, err)
	}
	if len(seen.Spans) != 2 || seen.Spans[0] <= 0 || seen.Spans[1] <= 0 {
		t.Errorf("uploads took %v", seen.Spans)
	}
	ask(t, server.URL, http.MethodDelete)
	if again := ask(t, server.URL, http.MethodGet); again.Requests != 0 || len(again.Manifests) != 0 {
		t.Errorf("%+v", again)
	}
}

func ask(t *testing.T, url, method string) (seen Seen) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url+Control, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

// An upload's time begins with its first request and ends with its manifest; the pause before the next one is nobody's.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		send := func(path, body string) {
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, path, strings.NewReader(body)))
		}
		for _, pause := range []time.Duration{time.Second, 3 * time.Second} {
			send("/b/data", "x")
			<-time.After(pause)
			send("/b/data2", "y")
			send("/b/_queen/m", "{}")
			<-time.After(time.Minute)
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodHead, "/b", nil))
		}
		if want := []time.Duration{time.Second, 3 * time.Second}; !slices.Equal(s.seen.Spans, want) {
			t.Errorf("%v", s.seen.Spans)
		}
	})
}
