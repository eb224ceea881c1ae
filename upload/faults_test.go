package upload

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/internal/fakes3"
)

// B8: a clock that is an hour off. The store's time is taken from its first refusal; what follows is signed with it, and is not refused.
func TestWrongClockIsLearned(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{Now: func() time.Time { return time.Now().Add(ahead) }}, nil)
			if err := b.Put(t.Context(), "k", "text/plain", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := b.Put(t.Context(), "k", "text/plain", []byte("x")); err != nil || b.counted("put 403") != 1 || b.counted("put 200") != 2 {
				t.Errorf("%v: %s", err, transcript(b.s3.Requests()))
			}
			fresh := newBucket(t, fakes3.Options{Now: func() time.Time { return time.Now().Add(ahead) }}, nil)
			if err := fresh.Probe(t.Context(), "queen"); err != nil {
				t.Errorf("probe: %v", err)
			}
		})
	}
}

// B8: a store that refuses its own time says so once more and no oftener, and the sentence has the distance.
func TestWrongClockIsSaid(t *testing.T) {
	for ahead, words := range map[time.Duration]string{
		2 * time.Hour:     "this machine's clock is 2h0m0s behind the store's",
		-90 * time.Minute: "this machine's clock is 1h30m0s ahead of the store's",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, nil)
			date := time.Now().Add(ahead).UTC().Format(http.TimeFormat)
			b.s3.Script(fakes3.Rule{Status: 403, Code: "RequestTimeTooSkewed", Header: http.Header{"Date": {date}}})
			if err := b.Put(t.Context(), "k", "text/plain", []byte("x")); err == nil || len(b.s3.Requests()) != 2 || !strings.Contains(err.Error(), words) {
				t.Errorf("%d requests, %v", len(b.s3.Requests()), err)
			}
		})
	}
}

// P18: an answer that comes byte by byte ends with the attempt, whatever it is of.
func TestP18TrickledAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		rule fakes3.Rule
		do   func(ctx context.Context, b *bucket) error
	}{
		"object": {fakes3.Rule{Op: "get", Trickle: time.Second}, func(ctx context.Context, b *bucket) error {
			_, _, err := b.Get(ctx, "big", 1<<20)
			return err
		}},
		"completion": {fakes3.Rule{Op: "multipart_complete", Trickle: time.Second}, func(ctx context.Context, b *bucket) error {
			id, err := b.create(ctx, "k", "text/plain")
			if err != nil {
				return err
			}
			etag, err := b.part(ctx, "k", id, 1, [][]byte{[]byte("x")}, sha([]byte("x")))
			if err != nil {
				return err
			}
			return b.complete(ctx, "k", id, []string{etag}, 1)
		}},
		"refusal": {fakes3.Rule{Op: "put", Status: 403, Body: strings.Repeat(" ", 1000), Trickle: time.Second}, func(ctx context.Context, b *bucket) error {
			return b.Put(ctx, "k", "text/plain", []byte("x"))
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Attempts = 1 })
			b.s3.Put("big", pattern(10_000))
			b.s3.Script(c.rule)
			within(t, 120*time.Second, 121*time.Second, func() {
				err := c.do(t.Context(), b)
				if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), "the attempt took too long: over 2m0s") && e.Status < 300 {
					t.Errorf("%s: %v", name, err)
				}
			})
		})
	}
}

// P18: an opened object may take as long as it likes while bytes come, and no longer than the limit while none do.
func TestP18OpenedObjectStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Put("k", pattern(20))
		b.s3.Script(fakes3.Rule{Op: "get", Trickle: 50 * time.Second, Times: 1}, fakes3.Rule{Op: "get", Trickle: 70 * time.Second})
		body, err := b.Open(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(body); err != nil || len(got) != 20 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if body.Close() != nil {
			t.Error("close")
		}
		within(t, 60*time.Second, 61*time.Second, func() {
			body, err := b.Open(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			defer body.Close()
			if _, err := io.ReadAll(body); !errors.Is(err, errIdle) || err.Error() != "get s3://lake/k: the object has stopped in the middle: no byte of it has come for 1m0s" {
				t.Errorf("got %v", err)
			}
		})
	})
}

// What answers may send without end: of a document 16 MiB are read, and no more. An object has its own limit.
func TestEndlessDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", maxDocument+1)
		b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Attempts = 1 })
		b.s3.Script(fakes3.Rule{Op: "multipart_create", Status: 200, Body: "<InitiateMultipartUploadResult>" + long},
			fakes3.Rule{Op: "put", Status: 403, Body: "<Error><Code>" + long})
		if _, err := b.create(t.Context(), "k", "text/plain"); err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
			t.Errorf("document: %.200v", err)
		}
		err := b.Put(t.Context(), "k", "text/plain", []byte("x"))
		if e, ok := errors.AsType[*Error](err); !ok || e.Status != 403 || e.Retryable || len(err.Error()) > 1000 {
			t.Errorf("refusal: %.300v", err)
		}
	})
}

// A store's words are shown as one printable line of bounded length.
func TestStoresWordsAreTamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Script(fakes3.Rule{Status: 400, Code: "Bad\nCode" + strings.Repeat("c", 200), Body: "one\r\n2026-01-01 ERROR forged \u202e" + strings.Repeat("m", 1000),
			Header: http.Header{"X-Amz-Request-Id": {"id" + strings.Repeat("i", 200)}}})
		err := b.Put(t.Context(), "k", "text/plain", []byte("x"))
		if text := err.Error(); strings.ContainsAny(text, "\r\n\x1b\u202e") || len(text) > 800 || !strings.Contains(text, "one 2026-01-01 ERROR forged") {
			t.Errorf("%q", text)
		}
	})
}

// A redirect is not followed: it would carry bytes and a signature to wherever somebody says.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, nil)
			b.s3.Script(fakes3.Rule{Status: status, Header: http.Header{"Location": {"http://elsewhere.test/lake/k"}}})
			err := b.Put(t.Context(), "k", "text/plain", []byte("x"))
			e, ok := errors.AsType[*Error](err)
			if reqs := b.s3.Requests(); !ok || e.Retryable || len(reqs) != 1 || reqs[0].Host != "fakes3.test" || e.Hint == "" {
				t.Errorf("%d: %d requests, %v", status, len(b.s3.Requests()), err)
			}
			if err := b.Probe(t.Context(), "queen"); err == nil {
				t.Errorf("%d: the probe is content", status)
			}
		})
	}
}

// B8: a bucket in another region, seen by the probe, whose first question has no body in its answer.
func TestProbeNamesTheRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Script(fakes3.Rule{Op: "head", Status: 301, Header: http.Header{"X-Amz-Bucket-Region": {"eu-west-1"}}},
			fakes3.Rule{Op: "get", Status: 301, Code: "PermanentRedirect", Body: "use another endpoint", Header: http.Header{"X-Amz-Bucket-Region": {"eu-west-1"}}})
		if err := b.Probe(t.Context(), "queen"); err == nil || !strings.Contains(err.Error(), "the bucket is in region eu-west-1, requests are signed for us-east-1") {
			t.Error(err)
		}
	})
}

// P36: each right that is missing is named, and none is asked for that is not needed: a window goes up with PutObject and GetObject alone.
func TestP36MissingRight(t *testing.T) {
	for op, right := range map[string]string{"put": "s3:PutObject", "multipart_create": "s3:PutObject", "multipart_part": "s3:PutObject",
		"multipart_complete": "s3:PutObject", "list": "s3:ListBucket", "multipart_abort": "s3:AbortMultipartUpload", "get": "s3:GetObject", "head": "s3:GetObject"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, nil)
			b.s3.Script(fakes3.Rule{Op: op, Status: 403, Code: "AccessDenied", Body: "Access Denied"})
			_, err := send(t.Context(), newTestStage(b, 5<<20, nil), testJob(), pattern(17<<20))
			switch op {
			case "list", "get", "head", "multipart_abort":
				if err != nil {
					t.Errorf("without %s on %s no window goes up: %v", right, op, err)
				}
				if got := permission(Op(op)); got != right {
					t.Errorf("%s needs %s, it is called %s", op, right, got)
				}
			default:
				if err == nil || !strings.Contains(err.Error(), right+" on this bucket and prefix") {
					t.Errorf("%s: %v", op, err)
				}
			}
			if op == "get" || op == "head" {
				b.s3.Script(fakes3.Rule{Op: "get", Status: 403, Code: "AccessDenied"})
				if err := b.Probe(t.Context(), "queen"); op == "head" && (err == nil || !strings.Contains(err.Error(), right)) {
					t.Errorf("probe without %s: %v", right, err)
				}
			}
		})
	}
}

// P34: only what this attempt began is aborted. An upload of somebody else, for the same key too, stays; the next attempt has a new one.
func TestP34ForeignUploadsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		foreign, err := b.create(t.Context(), testData, "text/plain")
		if err != nil {
			t.Fatal(err)
		}
		b.s3.Script(fakes3.Rule{Op: "multipart_part", Part: 2, Times: 1, Status: 400, Code: "InvalidRequest"})
		s := newTestStage(b, 5<<20, nil)
		if _, err := send(t.Context(), s, testJob(), pattern(40<<20)); err == nil {
			t.Fatal("no failure")
		}
		if b.s3.OpenUploads() != 1 {
			t.Errorf("%d open uploads, the foreign one alone should be left", b.s3.OpenUploads())
		}
		if _, err := send(t.Context(), s, testJob(), pattern(40<<20)); err != nil || b.s3.OpenUploads() != 1 {
			t.Errorf("the next attempt: %v, %d open uploads", err, b.s3.OpenUploads())
		}
		var ids []string
		for _, r := range b.s3.Requests() {
			id := r.Query.Get("uploadId")
			if r.Op == "multipart_abort" && id == foreign {
				t.Error("a foreign upload was aborted")
			}
			if r.Op == "multipart_complete" || r.Op == "multipart_abort" {
				ids = append(ids, r.Op+" "+id)
			}
			if r.Query.Has("uploads") && r.Method == http.MethodGet {
				t.Error("uploads were listed")
			}
		}
		if want := []string{"multipart_abort upload-2", "multipart_complete upload-3"}; !slices.Equal(ids, want) {
			t.Errorf("ended %q, want %q", ids, want)
		}
	})
}

// P37: a store that refuses encryption headers where they do not belong, and one that has no encryption at all.
func TestP37RefusedEncryption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ sse, key string }{{"", ""}, {"AES256", ""}, {"aws:kms", ""}, {"aws:kms", "key-1"}} {
			b := newBucket(t, fakes3.Options{Proxy: func(r *http.Request) {
				if opOf(r) != OpPut && opOf(r) != OpMultipartCreate && r.Header.Get("X-Amz-Server-Side-Encryption") != "" {
					r.Header.Set("X-Amz-Content-Sha256", "refused") // it fails the signature
				}
			}}, func(o *ClientOptions) { o.SSE, o.KMSKeyID = c.sse, c.key })
			if _, err := send(t.Context(), newTestStage(b, 5<<20, nil), testJob(), pattern(17<<20)); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			for _, r := range b.s3.Requests() {
				if r.Op == "put" && (r.Header.Get("X-Amz-Server-Side-Encryption") != c.sse || r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != c.key) {
					t.Errorf("%+v: %v", c, r.Header)
				}
			}
		}
	})
}

// P56: nothing is asked of a store in which stores differ: no DELETE of an object, no condition, no listing, and no key that is the folder of
// another, which a store on a file system could not hold.
func TestP56OnlyWhatAllStoresHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Script(fakes3.Rule{Op: "multipart_part", Part: 2, Times: 1, Status: 400, Code: "InvalidRequest"})
		s := newTestStage(b, 5<<20, nil)
		redo := testJob()
		redo.Redo = true
		_, failed := send(t.Context(), s, testJob(), pattern(20<<20))
		_, err := send(t.Context(), s, redo, pattern(20<<20))
		if failed == nil || err != nil || b.Probe(t.Context(), "queen") != nil {
			t.Fatal(failed, err)
		}
		for _, r := range b.s3.Requests() {
			if r.Op == "delete" || r.Op == "list" {
				t.Errorf("%s %s", r.Op, r.Key)
			}
			for name := range r.Header {
				if strings.HasPrefix(name, "If-") || strings.HasPrefix(name, "X-Amz-Copy") || name == "Range" {
					t.Errorf("%s sends %s", r.Op, name)
				}
			}
		}
		keys := b.s3.Keys()
		for _, a := range keys {
			for _, c := range keys {
				if strings.HasPrefix(c, a+"/") {
					t.Errorf("%s lies below the key %s", c, a)
				}
			}
		}
	})
}

// P57: two completions at once, of which a gateway lets one lose with 404 or 409: the object decides, or a new attempt.
func TestP57RacingCompletes(t *testing.T) {
	for name, rules := range map[string][]fakes3.Rule{
		"the winner's answer was lost":  {{Op: "multipart_complete", Times: 1, Cut: fakes3.CutAfter}},
		"a conflict that passes":        {{Op: "multipart_complete", Times: 1, Status: 409, Code: "OperationAborted"}},
		"a conflict, and it is done":    {{Op: "multipart_complete", Times: 1, Status: 409, Code: "OperationAborted", Apply: true}},
		"busy, and it is done":          {{Op: "multipart_complete", Times: 1, Status: 500, Code: "InternalError", Apply: true}},
		"a put that meets a late one":   {{Op: "put", Times: 2, Status: 409, Code: "ConditionalRequestConflict"}},
		"good status, error, and done":  {{Op: "multipart_complete", Times: 1, Status: 200, Code: "InternalError", Apply: true}},
		"good status, error, not done":  {{Op: "multipart_complete", Times: 2, Status: 200, Code: "InternalError"}},
		"an upload that a rule removed": {{Op: "multipart_complete", Times: 1, Status: 500}, {Op: "multipart_complete", Times: 1, Status: 404, Code: "NoSuchUpload"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, nil)
			b.s3.Script(rules...)
			data := pattern(17 << 20)
			s := newTestStage(b, 5<<20, nil)
			_, err := send(t.Context(), s, testJob(), data)
			if e, ok := errors.AsType[*Error](err); ok && e.Retryable { // the sink begins the window anew
				_, err = send(t.Context(), s, testJob(), data)
			}
			if got, _ := b.s3.Object(testData); err != nil || !bytes.Equal(got, data) || b.s3.OpenUploads() != 0 {
				t.Errorf("%s: %v, %d bytes, %d open uploads", name, err, len(got), b.s3.OpenUploads())
			}
		})
	}
}

// P61: a thousand failures of every kind leave no connection and no goroutine (TestMain looks for those).
func TestP61NothingIsLeft(t *testing.T) {
	b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Attempts, o.Dial = 1, nil })
	endpoint, err := b.s3.ListenTCP()
	if err != nil {
		t.Fatal(err)
	}
	o := b.o
	o.Endpoint, o.Dial = endpoint, nil
	client, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Put(t.Context(), "long", "text/plain", pattern(1<<20)); err != nil {
		t.Fatal(err)
	}
	faults := []fakes3.Rule{{Cut: fakes3.CutBefore}, {Cut: fakes3.CutMid}, {Op: "put", Cut: fakes3.CutAfter}, {Op: "put", Status: 503}, {Status: 403, Code: "AccessDenied"}, {Status: 200}, {Status: 500, Body: "<x"}}
	run := func(n int) {
		for i := range n {
			b.s3.Unscript()
			b.s3.Script(faults[i%len(faults)])
			if err := client.Put(t.Context(), "k", "text/plain", pattern(10_000)); err == nil {
				t.Fatalf("fault %d is none", i%len(faults))
			}
			if i%3 == 0 {
				_, _, _ = client.Get(t.Context(), "long", 10)
				_ = client.Probe(t.Context(), "queen")
			}
			if b.s3.Unscript(); i%10 == 0 { // the answer is left where the limit is
				if _, _, err := client.Get(t.Context(), "long", 10); err == nil {
					t.Fatal("an object over the limit is read")
				}
			}
		}
	}
	run(10)
	before := openFiles(t)
	run(1000)
	if after := openFiles(t); after > before+8 { // connections that wait for the next request, on both sides
		t.Errorf("%d open files, %d before", after, before)
	}
	client.Close()
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// P17: nothing that was handed over is lost by a fault that passes: fifty broken answers of every kind, and the window is there.
func TestP17FiftyFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Script(fakes3.Rule{Times: 10, Cut: fakes3.CutBefore}, fakes3.Rule{Times: 10, Status: 500}, fakes3.Rule{Times: 10, Status: 503},
			fakes3.Rule{Times: 10, Cut: fakes3.CutMid}, fakes3.Rule{Times: 10, Cut: fakes3.CutAfter})
		data := pattern(40 << 20)
		s := newTestStage(b, 5<<20, nil)
		for n := 0; ; n++ {
			up, err := send(t.Context(), s, testJob(), data)
			if err == nil {
				if up.Records != 3 {
					t.Error("another window came out")
				}
				break
			}
			if e, ok := errors.AsType[*Error](err); !ok || !e.Retryable || n > 20 {
				t.Fatal(err)
			}
		}
		if got, _ := b.s3.Object(testData); !bytes.Equal(got, data) {
			t.Errorf("%d bytes", len(got))
		}
		if n := len(b.s3.Requests()); n < 50 {
			t.Errorf("%d requests", n)
		}
	})
}
