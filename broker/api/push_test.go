package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"queen/broker/command"
	"queen/internal/rounds"
)

// pushed is one element of a push's answer.
type pushed struct {
	Index         int
	MessageID     string `json:"message_id"`
	TransactionID string `json:"transaction_id"`
	QueueName     string
	Status        string
	Offset        int64
}

// A push that is larger than an entry may be is refused whole.
func TestPushEncodedLimit(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxBody = command.MaxEntry })
	wrapper := len(pushBody([]byte(`""`)))
	w := f.do("POST", "/api/v1/push", pushBody([]byte(`"`+strings.Repeat("x", command.MaxEntry-wrapper)+`"`)))
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), `"code":"payload_too_large"`) {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
	f.untouched(t, "too large")
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", string(pushBody([]byte(`"`+strings.Repeat("x", command.MaxEntry-wrapper-200)+`"`))))
}

// The most partitions that a push may have, and more items than one write of the answer holds.
func TestPushLarge(t *testing.T) {
	f, n := newFixture(t, nil), rounds.Of(100_000, 10_000)
	answer := f.ok(t, http.StatusCreated, "POST", "/api/v1/push", manyPartitions(n))
	var all []pushed
	if err := json.Unmarshal([]byte(answer), &all); err != nil || len(all) != n {
		t.Fatalf("%d elements, %v", len(all), err)
	}
	for i, p := range all {
		if p.Index != i || p.Status != "queued" || p.Offset != 0 || p.TransactionID != p.MessageID || i > 0 && p.MessageID <= all[i-1].MessageID {
			t.Fatalf("element %d is %+v", i, p)
		}
	}
	if f.proposed != 1 {
		t.Errorf("%d commands for one push", f.proposed)
	}
}

// A stale push has stored nothing and is prepared again, with the same ids.
func TestPushStale(t *testing.T) {
	f := newFixture(t, nil)
	f.stale = 2
	answer := f.ok(t, http.StatusCreated, "POST", "/api/v1/push", string(pushBody([]byte("1"))))
	if !strings.Contains(answer, `"offset":0`) || f.proposed != 3 {
		t.Errorf("%d proposals, %s", f.proposed, answer)
	}
}

// Between two tries something has to be applied here: a state that answers "stale" and shows nothing new is not asked again and
// again, and the wait ends with the request.
func TestPushStaleWaits(t *testing.T) {
	f := newFixture(t, nil)
	f.stale, f.hushed = 1<<30, true
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		f.h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/api/v1/push", bytes.NewReader(pushBody([]byte("1")))))
		answered <- w
	}()
	tries := func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.proposed }
	for tries() == 0 {
		runtime.Gosched()
	}
	for range 1000 { // time for many more
		runtime.Gosched()
	}
	if n := tries(); n != 1 {
		t.Errorf("%d tries while nothing was applied", n)
	}
	f.mu.Lock()
	_, err := f.apply(command.KindTick, nil)
	f.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for tries() < 2 {
		runtime.Gosched()
	}
	cancel()
	if w := <-answered; w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"code":"timeout"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Transaction ids and names at their limits, with escapes.
func TestPushLimits(t *testing.T) {
	f := newFixture(t, nil)
	tx := strings.Repeat("é", 32_767) + "x" // 65,535 bytes
	name := strings.Repeat("n", 200)
	body := fmt.Sprintf(`{"items":[{"queue":%q,"partition":%q,"payload":1,"transactionId":"\u0041%s"}]}`, name, strings.Repeat("p", 211), tx[1+1:])
	answer := f.ok(t, http.StatusCreated, "POST", "/api/v1/push", body)
	var all []pushed
	if err := json.Unmarshal([]byte(answer), &all); err != nil || all[0].TransactionID != "A"+tx[2:] || all[0].QueueName != name {
		t.Errorf("%.300s: %v", answer, err)
	}
}

// Many pushes at once keep offsets gapless and ids unique.
func TestPushConcurrent(t *testing.T) {
	f := newFixture(t, nil)
	const clients, rounds = 8, 20
	answers := make([][]pushed, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for range rounds {
				w := f.do("POST", "/api/v1/push", []byte(`{"items":[{"queue":"q","payload":1},{"queue":"q","payload":2}]}`))
				var got []pushed
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got) != 2 || got[1].Offset != got[0].Offset+1 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				answers[c] = append(answers[c], got...)
			}
		})
	}
	wg.Wait()
	ids, offsets := map[string]bool{}, map[int64]bool{}
	for _, list := range answers {
		for _, p := range list {
			ids[p.MessageID], offsets[p.Offset] = true, true
		}
	}
	if want := clients * rounds * 2; len(ids) != want || len(offsets) != want || !offsets[0] || !offsets[int64(want-1)] {
		t.Errorf("%d ids, %d offsets", len(ids), len(offsets))
	}
}

// BenchmarkPush100 is a push of 100 messages of about 250 bytes through handler and state, without raft.
func BenchmarkPush100(b *testing.B) {
	f := newFixture(b, nil)
	payload := `{"orderId":"ord-2026-000123456","customer":{"id":482910,"name":"Maria Rossi","vip":true},"items":[{"sku":"A-1002","qty":2,"price":19.90},{"sku":"B-77","qty":1,"price":5.00}],"total":44.80,"currency":"EUR","note":null,"ts":"2026-10-03T06:37:37.501942Z"}`
	body := []byte(`{"items":[` + strings.TrimSuffix(strings.Repeat(`{"queue":"orders","partition":"c1","payload":`+payload+`},`, 100), ",") + `]}`)
	b.ReportAllocs()
	for b.Loop() {
		if w := f.do("POST", "/api/v1/push", body); w.Code != http.StatusCreated {
			b.Fatal(w.Code, w.Body)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/msg")
}
