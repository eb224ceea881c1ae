package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"queen/lake"
	"queen/stages"
)

// bucketLake is the bucket as an audit reads it.
type bucketLake struct{ w *world }

func (b bucketLake) List(_ context.Context, prefix string) iter.Seq2[lake.Object, error] {
	return func(yield func(lake.Object, error) bool) {
		for _, key := range b.w.s3.Keys() {
			data, _ := b.w.s3.Object(key)
			if strings.HasPrefix(key, prefix) && !yield(lake.Object{Key: key, Size: int64(len(data))}, nil) {
				return
			}
		}
	}
}

func (b bucketLake) Open(_ context.Context, key string) (io.ReadCloser, error) {
	data, ok := b.w.s3.Object(key)
	if !ok {
		return nil, errors.New("no such object: " + key)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// check waits until the nodes agree and everything is in the lake, and says what is wrong.
func (w *world) check() {
	w.settle()
	logs := w.logs()
	for range 30 { // retention goes on, and one node may be an entry ahead of another
		if logs[0] == logs[1] && logs[1] == logs[2] {
			break
		}
		time.Sleep(time.Second)
		logs = w.logs()
	}
	for id := 2; id <= nodes; id++ {
		if logs[id-1] != logs[0] {
			w.fail("node %d and node 1 differ:\n%s", id, firstDifference(logs[0], logs[id-1]))
		}
	}
	w.atRest()
	w.checkHistory()
	w.checkStamps()
	w.checkPuts()
	w.owners.check(w)
	windows, records, lost := 0, int64(0), int64(0)
	for _, queue := range queueNames() {
		o := lake.Options{Prefix: "queen", Queue: queue, Log: lake.HTTPLog{URL: "http://node", Client: &http.Client{Transport: w.node[w.pick(nodes)].runs()}}}
		sum, err := lake.Verify(w.t.Context(), bucketLake{w}, o, func(f lake.Fault) { w.fail("%s", f) })
		if err != nil {
			w.fail("audit: %v", err)
		}
		if all := int(sum.Records + sum.Lost); all != w.hist.total[queue] || queue != short && (sum.Lost != 0 || sum.Compared != sum.Records) {
			w.fail("the lake of %s: %s; %d records were acknowledged", queue, sum, w.hist.total[queue])
		}
		windows, records, lost = windows+sum.Windows, records+sum.Records, lost+sum.Lost
	}
	w.countMu.Lock()
	defer w.countMu.Unlock()
	w.counts["windows"], w.counts["records"], w.counts["lost to retention"] = windows, int(records), int(lost)
}

// settle waits until every queue's pointer is above what the log holds.
func (w *world) settle() {
	var last uint64 // what some node has applied by now, with the clients gone
	for _, m := range w.node {
		if l := m.runs(); l != nil {
			last = max(last, l.broker.State().Applied())
		}
	}
	for range 600 {
		if w.done(last) {
			return
		}
		time.Sleep(time.Second)
	}
	for _, m := range w.node {
		l := m.runs()
		if l == nil {
			w.fail("node %d is off", m.id)
			continue
		}
		w.fail("node %d after ten minutes of peace: %+v\n%s", m.id, l.broker.Status(), l.sinkStatus())
	}
}

// sinkStatus is the sink's own report, a line a queue.
func (l *life) sinkStatus() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sink == nil {
		return "no sink"
	}
	text, err := json.Marshal(l.sink.Status())
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), `{"bufferedBytes"`, "\n"+`{"bufferedBytes"`)
}

func (w *world) done(last uint64) bool {
	for _, m := range w.node {
		l := m.runs()
		if l == nil || !l.ready.Load() || l.broker.State().Applied() < last {
			return false
		}
	}
	for _, queue := range queueNames() {
		sum, err := lake.Verify(w.t.Context(), bucketLake{w}, lake.Options{Prefix: "queen", Queue: queue}, func(lake.Fault) {})
		if err != nil || int(sum.Records+sum.Lost) < w.hist.total[queue] {
			return false
		}
	}
	return true
}

// logs reads all records of each node.
func (w *world) logs() [nodes]string {
	var out [nodes]string
	for i, m := range w.node {
		var b strings.Builder
		l := m.runs()
		for _, queue := range queueNames() {
			for c := range clients {
				for _, row := range l.read(w, queue, fmt.Sprintf("c%d", c)) {
					fmt.Fprintf(&b, "%s/c%d %d %d %s %s\n", queue, c, row.Offset, row.TS, row.TxID, row.Payload)
				}
			}
		}
		out[i] = b.String()
	}
	return out
}

func (l *life) read(w *world, queue, partition string) []lake.Row {
	log := lake.HTTPLog{URL: "http://node", Client: &http.Client{Transport: l}}
	var out []lake.Row
	for offset := int64(0); ; {
		rows, low, high, err := log.Fetch(w.t.Context(), queue, partition, offset, math.MaxInt64)
		if err != nil {
			w.fail("node %d: read %s/%s: %v", l.m.id, queue, partition, err)
			return out
		}
		out = append(out, rows...)
		if len(rows) > 0 {
			offset = rows[len(rows)-1].Offset + 1
		}
		if len(rows) == 0 && offset < low {
			offset = low
			continue
		}
		if len(rows) == 0 || offset >= high {
			return out
		}
	}
}

// checkHistory: each acknowledged record is in the log once, in its client's order.
func (w *world) checkHistory() {
	l := w.node[0].runs()
	for _, queue := range queueNames() {
		for c := range clients {
			at := fmt.Sprintf("%s/c%d", queue, c)
			var got []string
			for _, row := range l.read(w, queue, fmt.Sprintf("c%d", c)) {
				got = append(got, string(row.Payload))
			}
			want := w.hist.acked[at]
			if queue == short && len(got) < len(want) {
				want = want[len(want)-len(got):] // the others' time was over
			}
			if !slices.Equal(got, want) {
				w.fail("%s: the log has %d records, %d were acknowledged:\n%s", at, len(got), len(want), firstDifference(strings.Join(want, "\n"), strings.Join(got, "\n")))
			}
		}
	}
}

// checkStamps: pushes follow each other on one clock, so no two have one stamp, and in a partition stamps rise with offsets.
func (w *world) checkStamps() {
	l := w.node[0].runs()
	pushes := map[stages.Micros]string{}
	for _, queue := range queueNames() {
		for c := range clients {
			last, of := stages.Beginning, ""
			for _, row := range l.read(w, queue, fmt.Sprintf("c%d", c)) {
				push := row.TxID[:strings.LastIndex(row.TxID, "-")] // client and number
				if was, ok := pushes[row.TS]; ok && was != push {
					w.fail("the pushes %s and %s have one stamp, %d", was, push, row.TS)
				}
				if row.TS < last || push != of && row.TS == last {
					w.fail("%s/c%d: offset %d of push %s is stamped %d, after %d of push %s", queue, c, row.Offset, push, row.TS, last, of)
				}
				pushes[row.TS], last, of = push, row.TS, push
			}
		}
	}
}

// checkPuts: whatever was sent under a key, it was always the same.
func (w *world) checkPuts() {
	sums := map[string]string{}
	for _, r := range w.s3.Requests() {
		if r.Op != "put" || r.SHA256 == "" || strings.Contains(r.Key, "/checkpoint/") || r.Header.Get("Content-Length") != fmt.Sprint(r.Bytes) {
			continue
		}
		if was, ok := sums[r.Key]; ok && was != r.SHA256 {
			w.fail("%s was sent with two different bodies", r.Key)
		}
		sums[r.Key] = r.SHA256
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		var p, q string
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return fmt.Sprintf("line %d: %q\n     and %q", i, p, q)
		}
	}
	return "nothing"
}
