package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"queen/test/harness"
)

// fetched is a record as a node's log has it.
type fetched struct {
	Offset        int64
	TransactionID string `json:"transactionId"`
	TS            string
	Payload       json.RawMessage
}

type place struct{ queue, partition string }

// readLog reads every partition from its beginning.
func (c *cluster) readLog(t testing.TB, n *node) map[place][]fetched {
	t.Helper()
	out := map[place][]fetched{}
	for _, q := range queues() {
		for p := range partitions {
			at := place{q, fmt.Sprintf("p%d", p)}
			all, err := c.readPartition(n, at)
			if err != nil {
				t.Fatalf("node %d: %v", n.id, err)
			}
			out[at] = all
		}
	}
	return out
}

func (c *cluster) readPartition(n *node, at place) (all []fetched, err error) {
	for next := int64(0); ; {
		body := fmt.Sprintf(`{"entries":[{"queue":%q,"partition":%q,"offset":%d,"maxBytes":%d}]}`, at.queue, at.partition, next, 8<<20)
		status, out, err := post(c.ask.slow, n.url+"/api/v1/fetch", []byte(body))
		if err != nil || status != http.StatusOK {
			return nil, fmt.Errorf("fetch %v: %d %s %v", at, status, out, err)
		}
		var answer struct {
			Entries []struct {
				Records       []fetched
				HighWatermark int64
				Error         string
			}
		}
		if err := json.Unmarshal(out, &answer); err != nil || len(answer.Entries) != 1 || answer.Entries[0].Error != "" {
			return nil, fmt.Errorf("fetch %v at %d: %v: %.300s", at, next, err, out)
		}
		for _, r := range answer.Entries[0].Records {
			if r.Offset != next {
				return nil, fmt.Errorf("fetch %v: offset %d where %d was due", at, r.Offset, next)
			}
			next++
		}
		all = append(all, answer.Entries[0].Records...)
		if next >= answer.Entries[0].HighWatermark {
			return all, nil
		}
	}
}

// auditLog compares what clients were told with the log, and returns every fault.
func auditLog(clients []*pusher, log map[place][]fetched) (faults faults) {
	found := make([][]int8, len(clients))
	for i, p := range clients {
		found[i] = make([]int8, len(p.sent))
	}
	for at, records := range log {
		last := make([]int, len(clients)) // highest acknowledged seq so far in this partition, plus 1
		for _, r := range records {
			var id, seq int
			if _, err := fmt.Sscanf(r.TransactionID, "c%d-%d", &id, &seq); err != nil || id >= len(clients) || seq >= len(clients[id].sent) {
				faults.add("%v offset %d: %q was sent by nobody", at, r.Offset, r.TransactionID)
				continue
			}
			sent := clients[id].sent[seq]
			if want := payload(id, seq); string(r.Payload) != want || sent.queue != at.queue || sent.partition != at.partition {
				faults.add("%s is in %v with %s; sent was %v with %s", r.TransactionID, at, r.Payload, sent, want)
			}
			if found[id][seq]++; found[id][seq] == 2 {
				faults.add("%s is in the log twice, the second time at %v offset %d", r.TransactionID, at, r.Offset)
			}
			if !sent.acked {
				continue // it may have come at any time
			}
			if sent.offset != r.Offset {
				faults.add("%s is at offset %d of %v, the answer said %d", r.TransactionID, r.Offset, at, sent.offset)
			}
			if seq < last[id]-1 {
				faults.add("%v offset %d: %s comes after %s", at, r.Offset, r.TransactionID, txID(id, last[id]-1))
			}
			last[id] = max(last[id], seq+1)
		}
	}
	for i, p := range clients {
		for seq, sent := range p.sent {
			if sent.acked && found[i][seq] == 0 {
				faults.add("%s was acknowledged in %s/%s at offset %d and is not in the log", txID(i, seq), sent.queue, sent.partition, sent.offset)
			}
		}
	}
	return faults
}

// faults are sentences about what is wrong.
type faults []string

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// report fails the test with the first faults of many.
func (f faults) report(t testing.TB) {
	t.Helper()
	slices.Sort(f)
	for _, text := range f[:min(len(f), 20)] {
		t.Error(text)
	}
	if len(f) > 20 {
		t.Errorf("and %d more like these", len(f)-20)
	}
}

// auditNodes wants the same from each node: records, queues and their options, documents.
func (c *cluster) auditNodes(t testing.TB) (log map[place][]fetched) {
	t.Helper()
	log = c.readLog(t, c.nodes[0])
	want := c.answers(t, c.nodes[0])
	for _, n := range c.nodes[1:] {
		for at, records := range c.readLog(t, n) {
			same := slices.EqualFunc(records, log[at], func(a, b fetched) bool {
				return a.Offset == b.Offset && a.TransactionID == b.TransactionID && a.TS == b.TS && bytes.Equal(a.Payload, b.Payload)
			})
			if !same {
				t.Errorf("%v on node %d (%d records) is not what it is on node 1 (%d records)", at, n.id, len(records), len(log[at]))
			}
		}
		for path, got := range c.answers(t, n) {
			if got != want[path] {
				t.Errorf("node %d answers %s with\n%s\nand node 1 with\n%s", n.id, path, got, want[path])
			}
		}
	}
	return log
}

// answers are what a node says of its state. The rows of leases move by themselves, so the sink's documents are not among them.
func (c *cluster) answers(t testing.TB, n *node) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, q := range queues() {
		path := "/api/v1/resources/queues/" + q
		var body json.RawMessage
		if status, err := n.get(c.ask.slow, path, &body); err != nil || status != http.StatusOK {
			t.Fatalf("node %d: GET %s: %d %v", n.id, path, status, err)
		}
		out[path] = string(body)
	}
	for after, page := "", 0; ; page++ {
		body := fmt.Sprintf(`[{"op":"getPrefix","ns":%q,"prefix":"k","limit":1000,"after":%q}]`, kvSpace, after)
		if after == "" {
			body = fmt.Sprintf(`[{"op":"getPrefix","ns":%q,"prefix":"k","limit":1000}]`, kvSpace)
		}
		status, text, err := post(c.ask.slow, n.url+"/api/v1/kv", []byte(body))
		if err != nil || status != http.StatusOK {
			t.Fatalf("node %d: kv: %d %s %v", n.id, status, text, err)
		}
		out[fmt.Sprintf("kv page %d", page)] = string(text)
		var answer struct{ Results []struct{ NextAfter *string } }
		if err := json.Unmarshal(text, &answer); err != nil || len(answer.Results) != 1 {
			t.Fatalf("node %d: kv: %v: %s", n.id, err, text)
		}
		if answer.Results[0].NextAfter == nil {
			return out
		}
		after = *answer.Results[0].NextAfter
	}
}

// drained waits until the pointer of every queue is beyond its last record, and returns how many windows there are.
func (c *cluster) drained(t testing.TB, log map[place][]fetched, limit time.Duration) (windows int64) {
	t.Helper()
	for _, q := range queues() {
		last := ""
		for at, records := range log {
			if at.queue == q && len(records) > 0 {
				last = max(last, records[len(records)-1].TS) // stamps of one width: as text as in time
			}
		}
		var k int64
		harness.Eventually(t, limit, func() (bool, string) {
			body := fmt.Sprintf(`[{"op":"get","ns":"queen-s3","key":"s3:default:%s:committed"}]`, q)
			status, text, err := post(c.ask.slow, c.nodes[0].url+"/api/v1/kv", []byte(body))
			if err != nil || status != http.StatusOK {
				return false, fmt.Sprintf("%d %s %v", status, text, err)
			}
			var answer struct {
				Results []struct {
					Value struct {
						K    int64
						TEnd string
					}
				}
			}
			if err := json.Unmarshal(text, &answer); err != nil || len(answer.Results) != 1 {
				return false, fmt.Sprintf("%v: %s", err, text)
			}
			p := answer.Results[0].Value
			k = p.K
			return p.TEnd > last, fmt.Sprintf("the last record of %s is of %s, its lake ends at %s\n%s", q, last, p.TEnd, c.sinks())
		})
		windows += k
	}
	return windows
}

// sinks says what each node's sink says of itself.
func (c *cluster) sinks() string {
	var b strings.Builder
	for _, n := range c.nodes {
		rows, err := n.rows(c.ask.slow)
		fmt.Fprintf(&b, "node %d: %v", n.id, err)
		for _, r := range rows {
			fmt.Fprintf(&b, " %s:%s own=%v k=%d", r.Name, r.State, r.OwnedHere, r.K)
			if r.LastError != nil {
				fmt.Fprintf(&b, " (%s)", r.LastError.Message)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// audit wants that no key was ever sent with two bodies, and nothing that the suite can't judge.
func (b *bucket) audit() (faults faults, objects int) {
	keys, objects := b.rewritten()
	for _, key := range keys {
		faults.add("%s was sent with different bodies", key)
	}
	for _, odd := range b.oddities() {
		faults.add("a request to the store that this suite does not record: %s", odd)
	}
	return faults, objects
}

// auditKV wants a history that the model allows.
func auditKV(t testing.TB, h *kvHistory) {
	t.Helper()
	unclear := 0
	for _, op := range h.ops {
		if op.Output.(kvOut).unclear {
			unclear++
		}
	}
	t.Logf("%d operations on documents, %d unclear writes", len(h.ops), unclear)
	model := kvModel()
	for _, part := range model.Partition(h.ops) {
		switch porcupine.CheckOperationsTimeout(kvModel(), part, time.Minute) {
		case porcupine.Illegal:
			t.Errorf("the history of document %s fits no order:", part[0].Input.(kvIn).key)
			slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
			for _, op := range part {
				t.Logf("  %8.3f to %8.3f s, client %d: %+v -> %+v", float64(op.Call)/1e9, float64(op.Return)/1e9, op.ClientId, op.Input, op.Output)
			}
		case porcupine.Unknown:
			t.Errorf("the history of document %s (%d operations) could not be decided within a minute", part[0].Input.(kvIn).key, len(part))
		}
	}
}

// auditLogs looks for what no process may print, whatever is done to it.
func (c *cluster) auditLogs(t testing.TB) {
	t.Helper()
	for _, n := range c.nodes {
		for _, p := range n.processes() {
			for _, line := range p.Lines() {
				if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
					t.Errorf("node %d: %s", n.id, line)
				}
			}
		}
	}
}
