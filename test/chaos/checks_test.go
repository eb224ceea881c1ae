package chaos

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAuditLog: each way in which a log can break its word is found, and one that keeps it is not blamed.
func TestAuditLog(t *testing.T) {
	at := place{"orders", "p1"}
	rec := func(offset int64, seq int) fetched {
		return fetched{Offset: offset, TransactionID: txID(0, seq), Payload: []byte(payload(0, seq))}
	}
	for name, c := range map[string]struct {
		log  []fetched
		want string // part of the one fault; empty: none
	}{
		"as told":             {[]fetched{rec(0, 0), rec(1, 1)}, ""},
		"unclear, stored":     {[]fetched{rec(0, 0), rec(1, 1), rec(2, 2)}, ""},
		"missing":             {[]fetched{rec(0, 0)}, "was acknowledged"},
		"twice":               {[]fetched{rec(0, 0), rec(1, 1), rec(2, 2), rec(3, 2)}, "is in the log twice"},
		"another offset":      {[]fetched{rec(0, 0), rec(2, 1)}, "the answer said 1"},
		"another payload":     {[]fetched{rec(0, 0), {Offset: 1, TransactionID: txID(0, 1), Payload: []byte(payload(0, 2))}}, "sent was"},
		"sent by nobody":      {[]fetched{rec(0, 0), rec(1, 1), {Offset: 2, TransactionID: txID(0, 9)}}, "sent by nobody"},
		"not a client's name": {[]fetched{rec(0, 0), rec(1, 1), {Offset: 2, TransactionID: "x"}}, "sent by nobody"},
	} {
		p := &pusher{sent: []record{{at.queue, at.partition, true, 0}, {at.queue, at.partition, true, 1}, {at.queue, at.partition, false, -1}}}
		check(t, name, auditLog([]*pusher{p}, map[place][]fetched{at: c.log}), c.want)
	}
	swapped := &pusher{sent: []record{{at.queue, at.partition, true, 1}, {at.queue, at.partition, true, 0}}}
	check(t, "out of order", auditLog([]*pusher{swapped}, map[place][]fetched{at: {rec(0, 1), rec(1, 0)}}), "comes after")
	elsewhere := map[place][]fetched{{"orders", "p2"}: {rec(0, 0)}}
	check(t, "elsewhere", auditLog([]*pusher{{sent: []record{{at.queue, at.partition, true, 0}}}}, elsewhere), "sent was")
}

func check(t *testing.T, name string, got faults, want string) {
	t.Helper()
	if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
		t.Errorf("%s: faults %q, want one with %q", name, got, want)
	}
}

// TestBucket: the proxy plays each fault and knows when a key was sent with another body.
func TestBucket(t *testing.T) {
	stored := map[string]string{}
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Method == http.MethodPut && err == nil {
			stored[r.URL.Path] = string(body)
		}
		io.WriteString(w, stored[r.URL.Path])
	}))
	defer store.Close()
	b := newBucket(t, store.URL)
	front := httptest.NewServer(b)
	defer front.Close()
	send := func(method, key, body string) (int, string, error) {
		req, err := http.NewRequest(method, front.URL+key, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(body))
		req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		out, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(out), err
	}
	for _, c := range []struct {
		fault        bucketFault
		method       string
		status       int // 0: no whole answer
		reaches      bool
		key, content string
	}{
		{bucketWell, "PUT", 200, true, "/lake/a", "whole"}, {bucketDown, "PUT", 0, false, "/lake/b", "never"}, {bucketBusy, "PUT", 503, false, "/lake/c", "never"},
		{bucketCut, "PUT", 0, false, "/lake/d", "half"}, {bucketLost, "PUT", 0, true, "/lake/e", "whole"}, {bucketCut, "GET", 0, true, "/lake/a", "whole"},
	} {
		b.set(c.fault)
		body := c.content
		if c.method == "GET" {
			body = ""
		}
		status, _, err := send(c.method, c.key, body)
		if whole := err == nil; whole != (c.status != 0) || whole && status != c.status {
			t.Errorf("fault %d, %s: status %d, %v; want %d", c.fault, c.method, status, err, c.status)
		}
		if got := stored[c.key]; (got == c.content) != c.reaches || !c.reaches && got != "" {
			t.Errorf("fault %d, %s: the store has %q", c.fault, c.method, got)
		}
		if hit := b.hits() > 0; hit != (c.fault != bucketWell) {
			t.Errorf("fault %d: hit is %v", c.fault, hit)
		}
	}
	b.set(bucketWell)
	if got, keys := b.audit(); len(got) != 0 || keys != 5 {
		t.Errorf("%d keys, faults %q before any was sent twice", keys, got)
	}
	for _, again := range []struct{ key, body string }{{"/lake/a", "whole"}, {"/lake/checkpoint/a", "1"}, {"/lake/checkpoint/a", "2"}, {"/lake/b", "another"}} {
		if _, _, err := send("PUT", again.key, again.body); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := b.audit()
	check(t, "another body", got, "/lake/b was sent with different bodies")
	if _, _, err := send("DELETE", "/lake/a", ""); err != nil {
		t.Fatal(err)
	}
	if got, _ = b.audit(); len(got) != 2 {
		t.Errorf("faults %q after a DELETE", got)
	}
}
