package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"queen/broker/command"
	"queen/broker/raftnode"
	"queen/stages"
)

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// manyPartitions is a push to n partitions.
func manyPartitions(n int) string {
	var b strings.Builder
	b.WriteString(`{"items":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"queue":"q","partition":"p%d","payload":1}`, i)
	}
	b.WriteString("]}")
	return b.String()
}

// refusal is a request that must be refused, and how; want is a part of the answer.
type refusal struct {
	method, target, body string
	status               int
	want                 string
}

func long(n int) string { return strings.Repeat("n", n) }

func pushRefusals() []refusal {
	return []refusal{
		{"POST", "/api/v1/push", ``, 400, `{"error":"bad body: unexpected end at byte 0","code":"bad_body"}`},
		{"POST", "/api/v1/push", `[]`, 400, `{"error":"bad body: '{' was expected at byte 0","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{}`, 400, `{"error":"bad body: items is missing at byte 0","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":{}}`, 400, `{"error":"bad body: '[' was expected at byte 9","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[5]}`, 400, `{"error":"bad body: '{' was expected at byte 10","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[]} x`, 400, `{"error":"bad body: nothing more was expected at byte 13","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[],"items":[]}`, 400, `{"error":"bad body: items is given twice at byte 12","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"q"}]}`, 400, `{"error":"bad body: payload is missing in item 0 at byte 10","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[{"payload":1}]}`, 400, `{"error":"bad body: queue is missing in item 0 at byte 10","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"","payload":1}]}`, 400, `{"error":"bad body: queue is missing in item 0 at byte 10","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":7,"payload":1}]}`, 400, `{"error":"bad body: queue must be a string at byte 19","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"q","partition":7,"payload":1}]}`, 400, `{"error":"bad body: partition must be a string at byte 35","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1,"transactionId":7}]}`, 400, `{"error":"bad body: transactionId must be a string at byte 51","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"\ud800","payload":1}]}`, 400, `{"error":"bad body: queue holds half a surrogate pair at byte 19","code":"bad_body"}`},
		{"POST", "/api/v1/push", "{\"items\":[{\"queue\":\"q\xff\",\"payload\":1}]}", 400, `{"error":"bad body: invalid UTF-8 at byte 21","code":"bad_body"}`},
		{"POST", "/api/v1/push", "{\"items\":[{\"queue\":\"q\",\"payload\":\"a\xffb\"}]}", 400, `{"error":"bad body: invalid UTF-8 at byte 35","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1},{"queue":"q","payload":1,"payload":2}]}`, 400, `{"error":"bad body: payload is given twice at byte 61","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1},{"queue":"q","payload":01}]}`, 400, `{"error":"bad body: bad number at byte 60","code":"bad_body"}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1,"transactionId":"` + long(65_536) + `"}]}`, 400, `{"error":"transactionId of item 0 has 65536 bytes, at most 65535 are allowed","code":"bad_request"}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"` + long(405) + `","payload":1}]}`, 413, `{"error":"queue is too long: 405 bytes; queue and partition may have 411 together","code":"name_too_long"}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1,"partition":"` + long(411) + `"}]}`, 413, `{"error":"partition is too long: 411 bytes; queue and partition may have 411 together","code":"name_too_long"}`},
		{"POST", "/api/v1/push", manyPartitions(100_001), 413, `{"error":"a push may go to at most 100000 partitions","code":"payload_too_large"}`},
	}
}

func fetchAndKVRefusals() []refusal {
	return []refusal{
		{"POST", "/api/v1/fetch", `{`, 400, `{"error":"bad body: unexpected end at byte 1"}`},
		{"POST", "/api/v1/fetch", `{}`, 400, `{"error":"bad body: entries is missing at byte 0"}`},
		{"POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":-1}]}`, 400, `{"error":"bad body: entry 0: offset is negative"}`},
		{"POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":1.5}]}`, 400, `{"error":"bad body: offset must be an integer at byte 34"}`},
		{"POST", "/api/v1/fetch", `{"entries":[{"offset":1}]}`, 400, `{"error":"bad body: entry 0: queue is missing"}`},
		{"POST", "/api/v1/fetch", `{"entries":[` + strings.Repeat(`{"queue":"q"},`, 1024) + `{"queue":"q"}]}`, 400, `{"error":"too many entries: at most 1024 are allowed"}`},
		{"POST", "/api/v1/fetch/offsets", `{"entries":[{"queue":"q"}]}`, 400, `{"error":"bad body: entry 0: timestamp is missing"}`},
		{"POST", "/api/v1/fetch/offsets", `{"entries":[{"queue":"q","timestamp":null}]}`, 400, `{"error":"bad body: entry 0: timestamp is missing"}`},
		{"POST", "/api/v1/fetch/offsets", `{"entries":[{"timestamp":1}]}`, 400, `{"error":"bad body: entry 0: queue is missing"}`},
		{"POST", "/api/v1/fetch/offsets", `{"entries":[{"queue":"q","timestamp":1},{"queue":"q","timestamp":1.5}]}`, 400, `{"error":"bad body: entry 1: timestamp is neither whole milliseconds since the epoch nor a time such as 2026-10-03T06:00:00Z"}`},
		{"POST", "/api/v1/fetch/offsets", `{"entries":[{"queue":"q","timestamp":"1790935200000"}]}`, 400, `{"error":"bad body: entry 0: timestamp is neither`},
		{"POST", "/api/v1/fetch/offsets", `{"entries":[{"queue":"q","timestamp":true}]}`, 400, `{"error":"bad body: entry 0: timestamp is neither`},
		{"POST", "/api/v1/fetch/offsets", `{"entries":[` + strings.Repeat(`{"queue":"q","timestamp":1},`, 1024) + `{"queue":"q","timestamp":1}]}`, 400, `{"error":"too many entries: at most 1024 are allowed"}`},
		{"GET", "/api/v1/resources/queues/q", ``, 404, `{"error":"Queue not found"}`},
		{"GET", "/api/v1/resources/queues/%ff", ``, 400, `{"error":"a path segment is not percent-encoded UTF-8"}`},
		{"POST", "/api/v1/kv", `{"operations":[{"op":"get","ns":"n"`, 400, `{"error":"kv_bad_request","reason":"kv_bad_body","detail":"unexpected end at byte 35"}`},
		{"POST", "/api/v1/kv", "[{\"op\":\"get\",\"ns\":\"n\",\"key\":\"\xff\"}]", 400, `{"error":"kv_bad_request","reason":"kv_bad_body","detail":"invalid UTF-8 at byte 29"}`},
		{"POST", "/api/v1/kv", `[{"op":"putIfAbsent","ns":"n","key":"x\ud800","value":1,"forever":true}]`, 400, `{"error":"kv_bad_request","reason":"kv_bad_key","detail":"operation 0: key holds half a surrogate pair"}`},
		{"POST", "/api/v1/kv", `[{"op":"putIfAbsent","ns":"n","key":"\udfff\ud83d\ude00","value":1,"forever":true}]`, 400, `{"error":"kv_bad_request","reason":"kv_bad_key"`},
		{"POST", "/api/v1/kv", `[{"op":"getMany","ns":"n","keys":["a","\ud83d\u0041"]}]`, 400, `{"error":"kv_bad_request","reason":"kv_bad_body"`},
		{"POST", "/api/v1/kv", `[{"op":"getPrefix","ns":"n","prefix":"a\ud800"}]`, 400, `{"error":"kv_bad_request","reason":"kv_prefix_required"`},
		{"POST", "/api/v1/kv", `[{"op":"fly","ns":"n","key":"k"}]`, 400, `{"error":"kv_bad_request","reason":"kv_unknown_op"`},
		{"POST", "/api/v1/kv", `[{"op":"put","ns":"n","key":"k","value":1}]`, 400, `{"error":"kv_bad_request","reason":"kv_expiry_not_specified"`},
		{"POST", "/api/v1/kv", `[{"op":"put","ns":"n","key":"k","value":1,"forever":true,"tenant":"t"}]`, 400, `{"error":"kv_bad_request","reason":"kv_tenant_not_an_input"`},
		{"POST", "/api/v1/kv", `[{"op":"put","ns":"n","key":"k","value":"` + long(65_536) + `","forever":true}]`, 413, `{"error":"payload_too_large"`},
		{"POST", "/api/v1/kv", `[{"op":"put","ns":"queen-s3","key":"k","value":1,"forever":true}]`, 403, `{"error":"read_only_namespace","reason":"kv_sink_namespace","detail":"this namespace is written by the S3 sink and is read-only over HTTP"}`},
		{"DELETE", "/api/v1/kv/queen-s3/k", ``, 403, `{"error":"read_only_namespace","reason":"kv_sink_namespace"`},
		{"GET", "/api/v1/kv/n/k?x=1", ``, 400, `{"error":"kv_bad_request","reason":"kv_no_query_string","detail":"a query string is not allowed here"}`},
		{"GET", "/api/v1/kv/n/k?", ``, 400, `{"error":"kv_bad_request","reason":"kv_no_query_string"`},
		{"GET", "/api/v1/kv/N/k", ``, 400, `{"error":"kv_bad_request","reason":"kv_bad_namespace"`},
		{"GET", "/api/v1/kv/n/", ``, 400, `{"error":"kv_bad_request","reason":"kv_bad_key"`},
		{"GET", "/api/v1/kv/n/%ff", ``, 400, `{"error":"kv_bad_request","reason":"kv_bad_key"`},
		{"PUT", "/api/v1/kv/n/k", `{"value":1,"forever":true,"k\u0065y":"x"}`, 400, `{"error":"kv_bad_request","reason":"kv_field_in_path","detail":"key is in the path and can't be in the body"}`},
		{"PUT", "/api/v1/kv/n/k", `{"value":1`, 400, `{"error":"kv_bad_request","reason":"kv_bad_body"`},
		{"PUT", "/api/v1/kv/n/k", ``, 400, `{"error":"kv_bad_request","reason":"kv_bad_body"`},
	}
}

func configureRefusals() []refusal {
	return []refusal{
		{"POST", "/api/v1/configure", `{}`, 400, `"code":"bad_body"}`},
		{"POST", "/api/v1/configure", `{"queue":"q","mode":"x"}`, 400, `"code":"bad_request"}`},
		{"POST", "/api/v1/configure", `{"queue":"q","options":{"leaseTime":1.5}}`, 400, `"code":"bad_request"}`},
		{"POST", "/api/v1/configure", `{"queue":"q","options":{"leaseTime":"60"}}`, 400, `"code":"bad_request"}`},
		{"POST", "/api/v1/configure", `{"queue":"q","options":{"retentionEnabled":1}}`, 400, `"code":"bad_request"}`},
		{"POST", "/api/v1/configure", `{"queue":"q","options":{"retentionSinkHold":"a/b"}}`, 400, `"code":"bad_request"}`},
		{"POST", "/api/v1/configure", `{"queue":"q","options":{"retentionSinkHoldMaxSeconds":59}}`, 400, `"code":"bad_request"}`},
		{"POST", "/api/v1/configure", `{"queue":"q","options":{"dedupWindowSeconds":-1}}`, 400, `"code":"bad_request"}`},
		{"POST", "/api/v1/configure", `{"queue":"` + long(412) + `"}`, 413, `"code":"name_too_long"}`},
	}
}

// TestRefusals: each bad request gets its answer and stores nothing.
func TestRefusals(t *testing.T) {
	for _, c := range slices.Concat(pushRefusals(), fetchAndKVRefusals(), configureRefusals()) {
		f := newFixture(t, nil)
		w := f.do(c.method, c.target, []byte(c.body))
		name := fmt.Sprintf("%s %s %.120s", c.method, c.target, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s:\n got %d %s\nwant %d %s", name, w.Code, w.Body, c.status, c.want)
		}
		if ct := w.Header().Get("Content-Type"); ct != "application/json" {
			t.Errorf("%s: content type %q", name, ct)
		}
		f.untouched(t, name)
	}
}

// TestBrokerErrors: what the broker says when it can't, in the shapes of the families.
func TestBrokerErrors(t *testing.T) {
	push, get := `{"items":[{"queue":"q","payload":1}]}`, `[{"op":"get","ns":"n","key":"k"}]`
	for _, c := range []struct {
		err        error
		status     int
		code       string
		kv, reason string
	}{
		{raftnode.ErrNoLeader, 503, "no_leader", "kv_unavailable", "kv_no_leader"},
		{fmt.Errorf("propose: %w", context.DeadlineExceeded), 503, "timeout", "kv_unavailable", "kv_timeout"},
		{fmt.Errorf("%w (%w)", raftnode.ErrUnclear, context.DeadlineExceeded), 503, "outcome_unknown", "kv_unavailable", "kv_timeout"},
		{fmt.Errorf("x: %w", stages.ErrUnclear), 503, "outcome_unknown", "kv_unavailable", "kv_timeout"},
		{fmt.Errorf("%w (%w)", raftnode.ErrUnclear, raftnode.ErrDiskFull), 507, "storage_full", "storage_full", "storage_full"},
		{raftnode.ErrTooLarge, 413, "payload_too_large", "payload_too_large", ""},
		{errors.New("secret path /x"), 500, "internal", "kv_error", "kv_error"},
	} {
		f := newFixture(t, nil)
		f.refusal = c.err
		for target, body := range map[string]string{"/api/v1/push": push, "/api/v1/kv": get} {
			w := f.do("POST", target, []byte(body))
			want := `"code":"` + c.code + `"`
			if target == "/api/v1/kv" {
				want = `{"error":"` + c.kv + `","reason":"` + c.reason + `"`
			}
			retry := ""
			if c.status == 503 {
				retry = "1"
			}
			if w.Code != c.status || !strings.Contains(w.Body.String(), want) || w.Header().Get("Retry-After") != retry {
				t.Errorf("%v on %s: %d %s, Retry-After %q", c.err, target, w.Code, w.Body, w.Header().Get("Retry-After"))
			}
			if strings.Contains(w.Body.String(), "secret") {
				t.Errorf("an internal error shows itself: %s", w.Body)
			}
		}
	}
}

// TestErrorTable: every code once, with a status and a sentence.
func TestErrorTable(t *testing.T) {
	seen := map[Code]bool{}
	for _, r := range errorTable() {
		if seen[r.code] || r.status < 400 || r.text == "" || (r.status == http.StatusServiceUnavailable) != (r.retryAfter == 1) {
			t.Errorf("row %+v", r)
		}
		seen[r.code] = true
	}
}

// TestFailedState: a node whose state stopped at an error is ending. What it is asked meanwhile is 503, so that clients ask again elsewhere.
func TestFailedState(t *testing.T) {
	f := newFixture(t, nil)
	f.ok(t, 201, "POST", "/api/v1/push", `{"items":[{"queue":"q","partition":"p","payload":1}]}`)
	if _, err := f.apply(command.KindPush, []byte("no push")); err == nil {
		t.Fatal("a command that is none was applied")
	}
	for path, body := range map[string]string{
		"/api/v1/push":  `{"items":[{"queue":"q","partition":"p","payload":2}]}`,
		"/api/v1/fetch": `{"entries":[{"queue":"q","partition":"p","offset":0}]}`,
	} {
		if w := f.do("POST", path, []byte(body)); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
