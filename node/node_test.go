package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"queen/config"
	"queen/internal/fakes3"
	"queen/internal/logline"
	"queen/lake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is a log that a test reads while the node writes it.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// open starts a node on a free port, with these settings.
func open(t *testing.T, dir string, settings ...string) (*Node, *output) {
	t.Helper()
	c, err := config.FromEnv(append(settings, "PORT=0", "QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_RAFT_DIR="+dir))
	if err != nil {
		t.Fatal(err)
	}
	logs := &output{}
	n, err := New(Options{Config: c, Now: time.Now, Log: logline.New(logs, false, time.Now), Fatal: func(err error) { t.Error("fatal:", err) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error("close:", err)
		}
	})
	return n, logs
}

func call(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const guide = `{"items":[{"queue":"orders","partition":"cust-1","payload":{"order":1,"status":"new","total":42.00}},` +
	`{"queue":"orders","partition":"cust-2","payload":{"order":2,"status":"new","total":17.50}},` +
	`{"queue":"orders","partition":"cust-1","payload":{"order":1,"status":"paid","total":42.00}}]}`

func TestServesAndKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	n, logs := open(t, dir)
	if status, text := call(t, "POST", n.URL()+"/api/v1/push", guide); status/100 != 2 {
		t.Fatalf("push: %d %s", status, text)
	}
	if status, text := call(t, "GET", n.URL()+"/health", ""); status != 200 || !strings.Contains(text, `"version":"`+Version+`"`) {
		t.Errorf("health: %d %s", status, text)
	}
	if _, text := call(t, "GET", n.URL()+"/status", ""); strings.Contains(text, `"s3"`) {
		t.Errorf("status shows a sink that is off: %s", text)
	}
	for _, want := range []string{" INFO queen: listening url=" + n.URL(), " INFO queen: data dir=" + dir + " node=1", " INFO queen: the S3 sink is off"} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("no line %q in\n%s", want, logs)
		}
	}
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	again, _ := open(t, dir)
	status, text := call(t, "POST", again.URL()+"/api/v1/fetch", `{"entries":[{"queue":"orders","partition":"cust-1","offset":1}]}`)
	if status != 200 || !strings.Contains(text, `"payload":{"order":1,"status":"paid","total":42.00}`) {
		t.Errorf("after a restart: %d %s", status, text)
	}
}

func TestWarnsOnce(t *testing.T) {
	_, logs := open(t, t.TempDir(), "QUEEN_RAFT_DIRR=x")
	if got := strings.Count(logs.String(), " WARN boot: QUEEN_RAFT_DIRR is not a setting, and is ignored; did you mean QUEEN_RAFT_DIR?\n"); got != 1 {
		t.Errorf("%d warnings in\n%s", got, logs)
	}
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := filepath.Join(t.TempDir(), "data")
	n, err := New(Options{Config: config.Config{Bind: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Dir: dir, NodeID: 1, MaxBody: 1 << 20},
		Now: time.Now, Fatal: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "listen on "+l.Addr().String()) {
		t.Errorf("%v", err)
	}
}

func TestFolderTaken(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	n, err := New(Options{Config: config.Config{Bind: "127.0.0.1", Dir: dir, NodeID: 1, MaxBody: 1 << 20}, Now: time.Now, Fatal: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Open(t.Context()); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("two nodes in one folder: %v", err)
	}
}

func TestValidate(t *testing.T) {
	_, err := New(Options{Config: config.Config{Sink: &config.Sink{CrashAt: "after_intent"}}})
	for _, want := range []string{"no clock", "no handler of fatal errors", "no way to crash"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestHTTP1Only(t *testing.T) {
	n, _ := open(t, t.TempDir())
	c, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 ")) {
		t.Errorf("HTTP/2 without TLS is answered %q %v", answer, err)
	}
}

// TestHalfSentRequest: a client that stops in the middle of a request does not hold the stop of a node, and is no failure of it.
func TestHalfSentRequest(t *testing.T) {
	n, logs := open(t, t.TempDir())
	for _, half := range []string{"POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n{", "POST /api/v1/push HTTP/1.1\r\nHo"} {
		c, err := net.Dial("tcp", n.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, half); err != nil {
			t.Fatal(err)
		}
	}
	for { // until the handler reads
		n.incoming.mu.Lock()
		reading, fresh := len(n.incoming.reading), len(n.incoming.fresh)
		n.incoming.mu.Unlock()
		if reading == 1 && fresh == 1 {
			break
		}
		runtime.Gosched()
	}
	began := time.Now()
	if err := n.Close(context.Background()); err != nil {
		t.Errorf("stop: %v", err)
	}
	if took := time.Since(began); took < bodyGrace || took > bodyGrace+2*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if text := logs.String(); strings.Count(text, " WARN queen: ") != 1 || !strings.Contains(text, " WARN queen: requests that did not come to their end were cut off requests=2\n") ||
		!strings.Contains(text, " INFO queen: stopped\n") {
		t.Errorf("the log says\n%s", text)
	}
}

// bucket reads the fake store as a lake.
type bucket struct{ *fakes3.Server }

var _ lake.Store = bucket{}

func (b bucket) List(_ context.Context, prefix string) iter.Seq2[lake.Object, error] {
	return func(yield func(lake.Object, error) bool) {
		for _, key := range b.Keys() {
			data, _ := b.Object(key)
			if strings.HasPrefix(key, prefix) && !yield(lake.Object{Key: key, Size: int64(len(data))}, nil) {
				return
			}
		}
	}
}

func (b bucket) Open(_ context.Context, key string) (io.ReadCloser, error) {
	data, ok := b.Object(key)
	if !ok {
		return nil, fmt.Errorf("no object %s", key)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// TestMirrors pushes the guide's records to a whole node and audits what reaches the store, against the log (contract S1, S2, S9).
func TestMirrors(t *testing.T) {
	store := fakes3.New(fakes3.Options{Bucket: "lake", Secret: "queen-secret-key"})
	defer store.Close()
	endpoint, err := store.ListenTCP()
	if err != nil {
		t.Fatal(err)
	}
	n, logs := open(t, t.TempDir(), "QUEEN_S3_EMBEDDED=true", "QUEEN_S3_QUEUES=*", "QUEEN_S3_ENDPOINT="+endpoint, "QUEEN_S3_REGION=us-east-1",
		"QUEEN_S3_PATH_STYLE=true", "QUEEN_S3_BUCKET=lake", "QUEEN_S3_ACCESS_KEY=queen", "QUEEN_S3_SECRET_KEY=queen-secret-key",
		"QUEEN_S3_START=earliest", "QUEEN_S3_MAX_WINDOW_MS=100", "QUEEN_S3_SAFE_GUARD_MS=0", "QUEEN_S3_DISCOVERY_INTERVAL_MS=20")
	if status, text := call(t, "POST", n.URL()+"/api/v1/push", guide); status/100 != 2 {
		t.Fatalf("push: %d %s", status, text)
	}
	awaitRecords(t, n, 3)
	if _, text := call(t, "GET", n.URL()+"/metrics/prometheus", ""); !strings.Contains(text, `queen_s3_records_written_total{queue="orders"} 3`) {
		t.Errorf("metrics do not count the records:\n%.2000s", text)
	}
	var faults []string
	summary, err := lake.Verify(t.Context(), bucket{store}, lake.Options{Prefix: "queen", Log: lake.HTTPLog{URL: n.URL(), Client: fresh()}},
		func(f lake.Fault) { faults = append(faults, f.String()) })
	if err != nil || len(faults) > 0 || summary.Records != 3 || summary.Compared != 3 {
		t.Errorf("%s, %v %q", summary, err, faults)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if strings.Contains(logs.String(), "queen-secret-key") {
		t.Error("the secret is in the log")
	}
	if !strings.Contains(logs.String(), " INFO queen-s3: window committed queue=orders k=1 records=3") {
		t.Errorf("no line of the window in\n%s", logs)
	}
}

func fresh() *http.Client { return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} }

func awaitRecords(t *testing.T, n *Node, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, text := call(t, "GET", n.URL()+"/status", "")
		var s struct {
			S3 struct {
				Sinks []struct{ Queues []struct{ Records int } }
			}
		}
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, sink := range s.S3.Sinks {
			for _, q := range sink.Queues {
				got += q.Records
			}
		}
		if got == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d of %d records: %s", got, want, text)
		case <-tick.C:
		}
	}
}
