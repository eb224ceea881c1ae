package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

// raw sends bytes to a real server, on a connection of their own, and returns the answer and its body.
func raw(t *testing.T, addr, request string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(body)
}

// Over a real connection nothing is redirected or cleaned either, and a body that is too large ends the connection.
func TestRealServer(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxBody = 1000 })
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent()) // pebble's own goroutines end later, in the cleanup
	server := httptest.NewServer(f.h)
	defer server.Close()
	addr := server.Listener.Addr().String()
	for _, path := range []string{"//health", "/x/../health", "/./health", "/health//", "/%2e%2e/health", "/api/v1/kv/n/../../health"} {
		r, body := raw(t, addr, "GET "+path+" HTTP/1.1\r\nHost: q\r\nConnection: close\r\n\r\n")
		want := http.StatusNotFound
		if strings.Contains(path, "/kv/") {
			want = http.StatusOK // the key is "../../health"
		}
		if r.StatusCode != want || r.Header.Get("Location") != "" {
			t.Errorf("%s: %d %s", path, r.StatusCode, body)
		}
	}
	_, body := raw(t, addr, "GET /api/v1/kv/n/é%2Fé HTTP/1.1\r\nHost: q\r\nConnection: close\r\n\r\n")
	if !strings.Contains(body, `"key":"é/é"`) {
		t.Errorf("raw bytes in a path: %s", body)
	}
	r, _ := raw(t, addr, "POST /api/v1/push HTTP/1.1\r\nHost: q\r\nContent-Length: 1001\r\n\r\n")
	if r.StatusCode != http.StatusRequestEntityTooLarge || !r.Close {
		t.Errorf("too large: %d, close %v", r.StatusCode, r.Close)
	}
	r, body = raw(t, addr, "HEAD /health HTTP/1.1\r\nHost: q\r\nConnection: close\r\n\r\n")
	if r.StatusCode != http.StatusOK || len(body) != 0 {
		t.Errorf("HEAD: %d %q", r.StatusCode, body)
	}
}

func TestMetrics(t *testing.T) {
	other := prometheus.NewRegistry()
	lag := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "queen_s3_lag_seconds", Help: "lag"}, []string{"queue"})
	other.MustRegister(lag)
	lag.WithLabelValues("a\"b\nc").Set(3)
	f := newFixture(t, func(o *Options) { o.Gatherers = []prometheus.Gatherer{other} })
	r := httptest.NewRequest("GET", "/metrics/prometheus", nil)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0, application/vnd.google.protobuf")
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	for _, want := range []string{
		`queen_raft_index{kind="applied"} 7`, `queen_raft_index{kind="committed"} 8`, `queen_raft_index{kind="log"} 9`, "queen_raft_inflight 3",
		`queen_s3_lag_seconds{queue="a\"b\nc"} 3`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("%s is missing in\n%s", want, w.Body)
		}
	}
	if ct := w.Header().Get("Content-Type"); !strings.HasPrefix(ct, "text/plain; version=0.0.4") {
		t.Errorf("content type %s", ct)
	}
}

func TestStatusBlock(t *testing.T) {
	var block any
	f := newFixture(t, func(o *Options) { o.Status = func() any { return block } })
	for _, c := range []struct {
		block any
		want  string
	}{
		{nil, `{"status":"ok","engine":"raft"}`},
		{map[string]any{"mode": "in-process"}, `{"status":"ok","engine":"raft","s3":{"mode":"in-process"}}`},
	} {
		block = c.block
		if got := f.ok(t, http.StatusOK, "GET", "/status", ""); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// TestHealth: what makes a node not ready.
func TestHealth(t *testing.T) {
	for _, c := range []struct {
		role, leader string
		ready        bool
		failure      string
		status       int
	}{
		{"leader", "1", true, "", 200},
		{"leader", "1", false, "", 503}, // its term's barrier is not applied
		{"follower", "2", false, "", 200},
		{"follower", "", false, "", 503},
		{"candidate", "", false, "", 503},
		{"leader", "1", true, "disk failed", 503},
	} {
		f := newFixture(t, nil)
		f.report.Role, f.report.Leader, f.report.Ready, f.report.Failure = c.role, c.leader, c.ready, c.failure
		w := f.do("GET", "/health", nil)
		if w.Code != c.status {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
		if c.failure != "" && !strings.Contains(w.Body.String(), `"failure":"disk failed"`) {
			t.Errorf("%s", w.Body)
		}
	}
}

func TestOptions(t *testing.T) {
	_, err := New(Options{MaxBody: 1 << 40})
	for _, want := range []string{"broker", "body limit", "clock", "random"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
	if s := fmt.Sprint(refuse(codeNoLeader, "")); s != "no_leader: no leader is known: try again" {
		t.Errorf("error text %q", s)
	}
}
