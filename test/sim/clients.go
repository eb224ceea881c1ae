package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

const (
	clients = 4
	queues  = 4 // the last one keeps its records for a while only
	short   = "q3"
)

func queueNames() []string {
	var names []string
	for q := range queues {
		names = append(names, fmt.Sprint("q", q))
	}
	return names
}

// history is what clients were told.
type history struct {
	w     *world
	mu    sync.Mutex
	acked map[string][]string // queue/partition -> payloads, in the order of their pushes
	total map[string]int      // by queue
}

func newHistory(w *world) *history {
	return &history{w: w, acked: map[string][]string{}, total: map[string]int{}}
}

// record is one message of a push.
type record struct {
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	TransactionID string          `json:"transactionId"`
	Payload       json.RawMessage `json:"payload"`
}

// client pushes batches one after the other until ctx ends: each goes to any node, and is repeated with the same transaction ids until it is answered well.
func (h *history) client(ctx context.Context, id int) {
	for n := 0; ctx.Err() == nil; n++ {
		batch := h.batch(id, n)
		for !h.push(batch) {
			if ctx.Err() != nil {
				h.finish(batch)
				return
			}
			time.Sleep(h.w.between(50*time.Millisecond, 500*time.Millisecond))
		}
		time.Sleep(h.w.between(50*time.Millisecond, 900*time.Millisecond))
	}
}

// configure gives the queues a dedup window that no step of a clock outlives: it runs on the log's clock, which believes a leader that is an hour ahead.
func (h *history) configure() {
	for _, queue := range queueNames() {
		keep := ""
		if queue == short {
			keep = `,"retentionEnabled":true,"retentionSeconds":10`
		}
		body := fmt.Appendf(nil, `{"queue":"%s","options":{"dedupWindowSeconds":1000000%s}}`, queue, keep)
		for taken := false; !taken; {
			time.Sleep(100 * time.Millisecond)
			if l := h.w.node[h.w.pick(nodes)].runs(); l != nil && l.ready.Load() {
				status, _ := l.request(context.Background(), "POST", "/api/v1/configure", body)
				taken = status == http.StatusOK || status == http.StatusCreated
			}
		}
	}
}

// goodbye pushes a last batch of each client to the queue that keeps its records for a while only: what retention took before the sink had read it is in the manifest of
// the next window, and there is none while nothing comes.
func (h *history) goodbye() {
	time.Sleep(2 * time.Minute) // until retention waits for no sink any more
	for id := range clients {
		const n = 1_000_000*queues + queues - 1
		h.finish(h.batch(id, n))
	}
}

// finish repeats the last batch when nothing goes wrong any more: whether it was stored must be known.
func (h *history) finish(batch []record) {
	for range 600 {
		if h.push(batch) {
			return
		}
		time.Sleep(time.Second)
	}
	h.w.fail("a batch of client %s is not taken in ten minutes of peace", batch[0].TransactionID)
}

func (h *history) batch(id, n int) []record {
	size := 1 + h.w.pick(6)
	var out []record
	for i := range size {
		text := fmt.Sprintf(`{"client":%d,"n":%d,"i":%d,"pad":"%0*d"}`, id, n, i, 20+h.w.pick(200), n)
		out = append(out, record{Queue: fmt.Sprint("q", n%queues), Partition: fmt.Sprintf("c%d", id), TransactionID: fmt.Sprintf("c%d-%d-%d", id, n, i), Payload: json.RawMessage(text)})
	}
	return out
}

// push sends a batch to some node; false: it may have been stored or not.
func (h *history) push(batch []record) bool {
	l := h.w.node[h.w.pick(nodes)].runs()
	if l == nil || !l.ready.Load() {
		return false
	}
	body, err := json.Marshal(map[string]any{"items": batch})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	status, text := l.request(ctx, "POST", "/api/v1/push", body)
	switch {
	case l.dark.Load():
		return false // it was off when it answered
	case status == http.StatusCreated:
	case status == http.StatusServiceUnavailable:
		h.w.count("push unclear or refused")
		return false
	default:
		h.w.fail("a push is answered %d %s", status, text)
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range batch {
		at := r.Queue + "/" + r.Partition
		h.acked[at] = append(h.acked[at], string(r.Payload))
		h.total[r.Queue]++
	}
	return true
}

// request asks the node's HTTP API.
func (l *life) request(ctx context.Context, method, path string, body []byte) (int, []byte) {
	r := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// RoundTrip makes the node's API one that an HTTP client reaches.
func (l *life) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, r)
	return w.Result(), nil
}
