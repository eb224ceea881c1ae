package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Broker is a running queen process.
type Broker struct {
	*Process
	URL string
	Dir string
}

// Env are the variables of one broker; the process sees no other QUEEN_ variable.
type Env map[string]string

// With returns a copy with the given pairs changed; an empty value removes a variable.
func (e Env) With(pairs ...string) Env {
	out := Env{}
	for k, v := range e {
		out[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// List returns the variables as a process takes them.
func (e Env) List() []string {
	var out []string
	for k, v := range e {
		out = append(out, k+"="+v)
	}
	return out
}

// SinkEnv are the variables of the user guide's example against a gateway: queue orders, ten-second windows, from the first record.
func SinkEnv(s3, bucket string) Env {
	return Env{
		"QUEEN_S3_EMBEDDED": "true", "QUEEN_S3_QUEUES": "orders", "QUEEN_S3_ENDPOINT": s3, "QUEEN_S3_REGION": "us-east-1",
		"QUEEN_S3_PATH_STYLE": "true", "QUEEN_S3_BUCKET": bucket, "QUEEN_S3_ACCESS_KEY": AccessKey,
		"QUEEN_S3_SECRET_KEY": SecretKey, "QUEEN_S3_START": "earliest", "QUEEN_S3_MAX_WINDOW_MS": "10000",
	}
}

// StartBroker starts a broker on dir and waits until it is healthy. wrap, when given, is a command line that runs it (strace).
func StartBroker(t testing.TB, dir string, env Env, wrap ...string) *Broker {
	t.Helper()
	b := LaunchBroker(t, dir, env, wrap...)
	b.WaitHealthy(t)
	return b
}

// LaunchBroker starts a broker and does not wait.
func LaunchBroker(t testing.TB, dir string, env Env, wrap ...string) *Broker {
	t.Helper()
	bins, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	port := FreePort(t)
	line := append(append([]string{}, wrap...), bins.Queen)
	cmd := exec.Command(line[0], line[1:]...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "QUEEN_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "QUEEN_RAFT_DIR="+dir, fmt.Sprintf("PORT=%d", port), "QUEEN_BIND_ADDR=127.0.0.1")
	for k, v := range env {
		if v != "" {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	return &Broker{Process: Start(t, cmd), URL: fmt.Sprintf("http://127.0.0.1:%d", port), Dir: dir}
}

// WaitHealthy waits until /health answers 200.
func (b *Broker) WaitHealthy(t testing.TB) {
	t.Helper()
	Eventually(t, 30*time.Second, func() (bool, string) {
		select {
		case <-b.Done():
			t.Fatalf("broker ended: %v", b.tail(20))
		default:
		}
		resp, err := http.Get(b.URL + "/health")
		if err != nil {
			return false, err.Error()
		}
		resp.Body.Close()
		return resp.StatusCode == 200, resp.Status
	})
}

// client has a limit above that of any answer: a process that was stopped gives none. hasty is one that does not wait for such a process, nor for one that waits for it.
var (
	client = &http.Client{Timeout: time.Minute}
	hasty  = &http.Client{Timeout: 2 * time.Second}
)

// Do sends one request and returns status and body.
func (b *Broker) Do(method, path string, body []byte) (int, []byte, error) {
	return b.do(client, method, path, body)
}

func (b *Broker) do(client *http.Client, method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequest(method, b.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return resp.StatusCode, out, err
}

// Item is one message of a push; Payload is JSON text.
type Item struct {
	Queue, Partition, TxID, Payload string
}

// PushBody renders items as a push request, payloads byte for byte.
func PushBody(items []Item) []byte {
	var b bytes.Buffer
	b.WriteString(`{"items":[`)
	for i, it := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		q, _ := json.Marshal(it.Queue)
		p, _ := json.Marshal(it.Partition)
		fmt.Fprintf(&b, `{"queue":%s,"partition":%s,`, q, p)
		if it.TxID != "" {
			tx, _ := json.Marshal(it.TxID)
			fmt.Fprintf(&b, `"transactionId":%s,`, tx)
		}
		b.WriteString(`"payload":`)
		b.WriteString(it.Payload)
		b.WriteByte('}')
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// Push sends items and wants every one queued or duplicate.
func (b *Broker) Push(items ...Item) error { return b.push(client, items) }

// TryPush is Push that waits for at most two seconds. When that ends it, the items may be stored.
func (b *Broker) TryPush(items ...Item) error { return b.push(hasty, items) }

func (b *Broker) push(client *http.Client, items []Item) error {
	status, out, err := b.do(client, "POST", "/api/v1/push", PushBody(items))
	if err != nil {
		return err
	}
	if status != 201 {
		return fmt.Errorf("push: %d %s", status, out)
	}
	var results []struct{ Status string }
	if err := json.Unmarshal(out, &results); err != nil || len(results) != len(items) {
		return fmt.Errorf("push answer: %v: %s", err, out)
	}
	for i, r := range results {
		if r.Status != "queued" && r.Status != "duplicate" {
			return fmt.Errorf("push item %d: %s", i, r.Status)
		}
	}
	return nil
}

// QueueRow is a row of the sink's status.
type QueueRow struct {
	Name             string
	State            string
	K                int64
	WindowsCommitted int64
	Records          int64
	RecordsLost      int64
	LagSeconds       *float64
	BufferedBytes    int64
	Redo             bool
	LastError        *struct{ Message string }
}

// Row returns the status row of a queue of the environment's sink.
func (b *Broker) Row(queue string) (QueueRow, error) {
	_, out, err := b.Do("GET", "/status", nil)
	if err != nil {
		return QueueRow{}, err
	}
	var s struct {
		S3 struct {
			Sinks []struct{ Queues []QueueRow }
		}
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return QueueRow{}, fmt.Errorf("status: %w: %s", err, out)
	}
	for _, sink := range s.S3.Sinks {
		for _, q := range sink.Queues {
			if q.Name == queue {
				return q, nil
			}
		}
	}
	return QueueRow{}, fmt.Errorf("no row for %s in %s", queue, out)
}

// WaitWindows waits until the sink's pointer of a queue is at k or beyond.
func (b *Broker) WaitWindows(t testing.TB, queue string, k int64, limit time.Duration) QueueRow {
	t.Helper()
	var last QueueRow
	Eventually(t, limit, func() (bool, string) {
		row, err := b.Row(queue)
		if err != nil {
			return false, err.Error()
		}
		last = row
		return row.K >= k, fmt.Sprintf("%+v", row)
	})
	return last
}
