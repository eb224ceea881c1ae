package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"queen/broker/segment"
	"queen/stages"
)

// parsePush parses one body.
func parsePush(body []byte) (*pushRequest, error) {
	p := newPushRequest()
	if err := p.parse(body); err != nil {
		return nil, err
	}
	return p, nil
}

func TestParsePushGroups(t *testing.T) {
	p, err := parsePush([]byte(`{"x":[1],"items":[
		{"queue":"a","payload":1},
		{"queue":"a","partition":"","payload":[1,
			2],"transactionId":"t1"},
		{"queue":"b","partition":"p","payload":null,"transactionId":null,"traceId":"0190A0B0-0000-7000-8000-0000000000FF"},
		{"queue":"\u0061","partition":"Default","payload":"x","traceId":7,"other":{}},
		{"queue":"a","partition":"p","payload":{},"transactionId":""}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, it := range p.items {
		g := p.groups[it.group]
		got = append(got, fmt.Sprintf("%s/%s tx=%q trace=%v %s", p.queues[g.queue], g.partition, it.tx, it.trace != nil, it.payload))
	}
	want := []string{
		`a/Default tx="" trace=false 1`, "a/Default tx=\"t1\" trace=false [1,\n\t\t\t2]", `b/p tx="" trace=true null`,
		`a/Default tx="" trace=false "x"`, `a/p tx="" trace=false {}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if p.groups[0].flags != stages.FlagLineBreaks || p.groups[1].flags != 0 || p.groups[2].flags != 0 {
		t.Errorf("flags of %+v", p.groups)
	}
}

// TestBlocksFit: the size that is computed for a record is the size that it gets.
func TestBlocksFit(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 16383, 16384, 65535} {
		for _, trace := range []*[16]byte{nil, {1}} {
			it := item{tx: bytes.Repeat([]byte("t"), n), payload: bytes.Repeat([]byte("1"), n), trace: trace}
			m := segment.Message{TxID: it.tx, Payload: it.payload}
			if trace != nil {
				m.Trace = trace[:]
			}
			if got := len(segment.AppendMessage(nil, m)); got != recordSize(&it, n) {
				t.Errorf("record of %d bytes, computed %d", got, recordSize(&it, n))
			}
		}
	}
}

// FuzzPushParse: what is accepted is JSON and UTF-8 by the standard library, its payloads are slices of the body that are valid
// on their own, and groups add up; what is refused has a 4xx and a fault inside the body.
func FuzzPushParse(f *testing.F) {
	for _, s := range []string{
		`{"items":[]}`, `{"items":[{"queue":"q","payload":{"total":42.00}}]}`, `{"items":[{"queue":"q","payload":1},{"queue":"q","partition":"p","payload":[
1],"transactionId":"t","traceId":"0190a0b0-0000-7000-8000-0000000000ff"}]} `, `{"items":[{"queue":"q"}]}`, `{"items":null}`, `[]`,
		`{"items":[{"queue":"\ud800","payload":1}]}`, "{\"items\":[{\"queue\":\"q\",\"payload\":\"\xff\"}]}", `{"items":[{"queue":"q","queue":"q","payload":1}]}`,
		`{"items":[],"items":[]}`, `{"\u0069tems":[{"queue":5,"payload":1}]}`,
	} {
		f.Add([]byte(s))
	}
	at := regexp.MustCompile(` at byte (\d+)$`)
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := parsePush(body)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Status < 400 || e.Status > 499 {
				t.Fatalf("%q: %v", body, err)
			}
			if m := at.FindStringSubmatch(e.Text); m != nil {
				if n, _ := strconv.Atoi(m[1]); n > len(body) {
					t.Fatalf("%q: %s", body, e.Text)
				}
			} else if e.Code == codeBadBody {
				t.Fatalf("%q: no offset in %q", body, e.Text)
			}
			return
		}
		checkAccepted(t, body, p)
	})
}

func checkAccepted(t *testing.T, body []byte, p *pushRequest) {
	if !isJSON(body) {
		t.Fatalf("accepted %q", body)
	}
	var ref struct {
		Items []struct{ Payload json.RawMessage }
	}
	if err := json.Unmarshal(body, &ref); err != nil || len(ref.Items) != len(p.items) {
		// Members that differ only in case are one to encoding/json; then there is nothing to compare with.
		ref.Items = nil
	}
	counts, sizes := make([]int, len(p.groups)), make([]int, len(p.groups))
	rest := body
	for _, it := range p.items {
		if !json.Valid(it.payload) || !utf8.Valid(it.payload) {
			t.Fatalf("payload %q", it.payload)
		}
		i := bytes.Index(rest, it.payload) // payloads follow one another in the body
		if i < 0 {
			t.Fatalf("payload %q is not in what is left of the body", it.payload)
		}
		rest = rest[i+len(it.payload):]
		counts[it.group]++
		sizes[it.group] += recordSize(&it, len(it.payload))
	}
	if ref.Items != nil && !bytes.Contains(bytes.ToLower(body), []byte(`\u`)) && bytes.Count(bytes.ToLower(body), []byte(`"payload"`)) == len(p.items) {
		for i, it := range p.items {
			if ref.Items[i].Payload != nil && !bytes.Equal(ref.Items[i].Payload, it.payload) {
				t.Fatalf("payload %d is %q, encoding/json says %q", i, it.payload, ref.Items[i].Payload)
			}
		}
	}
	for i, g := range p.groups {
		if g.count != counts[i] || g.size != sizes[i] || p.queues[g.queue] == "" || g.partition == "" {
			t.Fatalf("group %d is %+v, counted %d records of %d bytes", i, g, counts[i], sizes[i])
		}
	}
}

func BenchmarkParsePush100(b *testing.B) {
	payload := `{"orderId":"ord-2026-000123456","customer":{"id":482910,"name":"Maria Rossi","vip":true},"items":[{"sku":"A-1002","qty":2,"price":19.90},{"sku":"B-77","qty":1,"price":5.00}],"total":44.80,"currency":"EUR","note":null,"ts":"2026-10-03T06:37:37.501942Z"}`
	var items []string
	for i := range 100 {
		items = append(items, fmt.Sprintf(`{"queue":"orders","partition":"c1","payload":%s,"transactionId":"0190a0b0-0000-7000-8000-%012d"}`, payload, i))
	}
	body := []byte(`{"items":[` + strings.Join(items, ",") + `]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parsePush(body); err != nil {
			b.Fatal(err)
		}
	}
}
