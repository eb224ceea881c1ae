package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"queen/test/harness"
)

// What the clients write.
const (
	pushers    = 5
	partitions = 4 // of each queue
	pushEvery  = 25 * time.Millisecond
	askLimit   = 4 * time.Second  // of one request: whoever does not answer by then was stopped or cut off
	giveUp     = 12 * time.Second // of one push with all its attempts, at most: a client may be less patient
)

func queues() []string {
	return []string{"orders", "clicks", "payments", "audit", "mail", "stock"}
}

// record is one message that a client sent: number seq of its own, counted over all queues.
type record struct {
	queue, partition string
	acked            bool
	offset           int64 // as the answer said, when acked
}

// pusher is a client that sends one push after the other, each until it has a clear answer or gives up, to any node.
type pusher struct {
	id    int
	sent  []record // by seq; only this client's goroutine writes, until it has ended
	nodes []*node
	http  *http.Client
	r     *rand.Rand
	sum   *sums
}

// sums are counts over all clients.
type sums struct {
	pushes, records, unclear, refused, gaveUp atomic.Int64

	mu    sync.Mutex
	texts map[string]int // what else was answered
}

func (s *sums) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil {
		s.texts = map[string]int{}
	}
	s.texts[text]++
}

func txID(client, seq int) string { return fmt.Sprintf("c%d-%07d", client, seq) }

// payload is what record seq of a client holds: text that tells it from each other one, of lengths that differ.
func payload(client, seq int) string {
	return fmt.Sprintf(`{"c":%d, "n":%d,"total":%d.00,"pad":"%s"}`, client, seq, seq%977, strings.Repeat("x", (seq*37+client)%300))
}

// run sends pushes until ctx ends.
func (p *pusher) run(ctx context.Context) {
	tick := time.NewTicker(pushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.push(ctx)
	}
}

// push makes one push of 1 to 3 appends and sends it until its fate is known.
func (p *pusher) push(ctx context.Context) {
	first := len(p.sent)
	var items []harness.Item
	for range 1 + p.r.IntN(3) {
		queue, partition := queues()[p.r.IntN(len(queues()))], fmt.Sprintf("p%d", p.r.IntN(partitions))
		count := 1
		if p.r.IntN(3) == 0 {
			count += p.r.IntN(40)
		}
		for range count {
			seq := len(p.sent)
			p.sent = append(p.sent, record{queue: queue, partition: partition, offset: -1})
			items = append(items, harness.Item{Queue: queue, Partition: partition, TxID: txID(p.id, seq), Payload: payload(p.id, seq)})
		}
	}
	body, until := harness.PushBody(items), time.Now().Add(time.Duration(p.r.Int64N(int64(giveUp))))
	for node := p.r.IntN(len(p.nodes)); ; node = p.r.IntN(len(p.nodes)) {
		offsets, err := p.ask(p.nodes[node], body, len(items))
		if err == nil {
			for i, offset := range offsets {
				p.sent[first+i].acked, p.sent[first+i].offset = true, offset
			}
			p.sum.pushes.Add(1)
			p.sum.records.Add(int64(len(items)))
			return
		}
		if ctx.Err() != nil || time.Now().After(until) {
			p.sum.gaveUp.Add(1)
			return
		}
		select {
		case <-time.After(50*time.Millisecond + time.Duration(p.r.IntN(150))*time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// ask sends a push to one node. An error says that this answer does not tell what became of it; the sum counts why.
func (p *pusher) ask(n *node, body []byte, items int) ([]int64, error) {
	status, out, err := post(p.http, n.url+"/api/v1/push", body)
	if err != nil {
		if errors.Is(err, errNotSent) {
			p.sum.refused.Add(1)
		} else {
			p.sum.unclear.Add(1)
		}
		return nil, err
	}
	if status != http.StatusCreated {
		var e struct{ Code string }
		if json.Unmarshal(out, &e) != nil || e.Code == "" {
			e.Code = string(out)
		}
		switch e.Code {
		case "no_leader", "storage_full":
			p.sum.refused.Add(1)
		default:
			p.sum.unclear.Add(1)
		}
		p.sum.note(fmt.Sprintf("push %d %s", status, e.Code))
		if status >= 500 && e.Code == "internal" {
			p.sum.note(fmt.Sprintf("push 500 of node %d at %s: %s", n.id, time.Now().UTC().Format("15:04:05.000"), out))
		}
		return nil, fmt.Errorf("push: %d %s", status, out)
	}
	var results []struct {
		Status string
		Offset int64
	}
	if err := json.Unmarshal(out, &results); err != nil || len(results) != items {
		p.sum.note("push 201 that can't be read")
		return nil, fmt.Errorf("push answer: %v: %s", err, out)
	}
	offsets := make([]int64, items)
	for i, r := range results {
		if offsets[i] = r.Offset; r.Status != "queued" && r.Status != "duplicate" {
			p.sum.note("push item " + r.Status)
			return nil, fmt.Errorf("push item %d: %s", i, r.Status)
		}
	}
	return offsets, nil
}

// errNotSent wraps an error of a request that cannot have reached the node.
var errNotSent = errors.New("not sent")

// post sends one request, once: a connection that broke is not tried again, since the first try may have been heard.
func post(c *http.Client, url string, body []byte) (int, []byte, error) {
	req, err := http.NewRequest(http.MethodPost, url, io.NopCloser(bytes.NewReader(body))) // no GetBody: no silent second try
	if err != nil {
		return 0, nil, err
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) {
			return 0, nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
		return 0, nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return resp.StatusCode, out, err
}
