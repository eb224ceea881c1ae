package upload

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"queen/internal/fakes3"
)

// P6: stores refuse the SDK's default checksums, trailers and chunked bodies.
func TestP6NoChecksumHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		if _, err := send(t.Context(), newTestStage(b, 5<<20, nil), testJob(), pattern(20<<20)); err != nil {
			t.Fatal(err)
		}
		for _, r := range b.s3.Requests() {
			for name := range r.Header {
				if low := strings.ToLower(name); strings.HasPrefix(low, "x-amz-checksum") || strings.HasPrefix(low, "x-amz-sdk-checksum") ||
					low == "x-amz-trailer" || low == "content-encoding" || low == "expect" {
					t.Errorf("%s sends %s", r.Op, name)
				}
			}
			if r.Header.Get("Content-Length") == "" && r.Bytes > 0 || len(r.Header["Transfer-Encoding"]) > 0 {
				t.Errorf("%s sends a body of unknown length", r.Op)
			}
			if strings.Contains(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING") || r.Header.Get("X-Amz-Content-Sha256") == "UNSIGNED-PAYLOAD" {
				t.Errorf("%s does not sign its body", r.Op)
			}
		}
	})
}

// P7: a front end rewrites Accept-Encoding on the way, and what it rewrites must not be signed.
func TestP7AcceptEncodingIsNotSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{Proxy: func(r *http.Request) {
			r.Header.Set("Accept-Encoding", r.Header.Get("Accept-Encoding")+",gzip(gfe)")
		}}, nil)
		ctx := t.Context()
		if err := b.Put(ctx, "queen/a=b/c%20d", "text/plain", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, found, err := b.Get(ctx, "queen/a=b/c%20d", 10); err != nil || !found {
			t.Fatal(found, err)
		}
		if err := b.Probe(ctx, "queen"); err != nil {
			t.Fatal(err)
		}
		for _, err := range b.List(ctx, "queen/", "") {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range b.s3.Requests() {
			if strings.Contains(strings.ToLower(r.Header.Get("Authorization")), "accept-encoding") {
				t.Errorf("%s signs accept-encoding", r.Op)
			}
		}
	})
}

// P14: the key is percent-encoded once more on the wire, `=` and `%` included.
func TestP14KeyOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		if err := b.Put(t.Context(), "queen/queue=a%2Fb/w", "text/plain", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if got := b.s3.Requests()[0].Path; got != "/lake/queen/queue%3Da%252Fb/w" {
			t.Errorf("path %s", got)
		}
		if keys := b.s3.Keys(); keys[0] != "queen/queue=a%2Fb/w" {
			t.Errorf("key %s", keys[0])
		}
	})
}

// P35: a tag is an opaque string, whatever it looks like and however its header is spelled.
func TestP35OpaqueETags(t *testing.T) {
	for _, tag := range []string{`"abc-2"`, "unquoted", `"` + strings.Repeat("f", 32) + `"`, `W/"x<&>'y"`} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{ETag: func([]byte) string { return tag }}, nil)
			data := pattern(33 << 20)
			if _, err := send(t.Context(), newTestStage(b, 5<<20, nil), testJob(), data); err != nil {
				t.Fatalf("tag %s: %v", tag, err)
			}
			if got, _ := b.s3.Object(testData); !bytes.Equal(got, data) {
				t.Errorf("tag %s: %d bytes stored", tag, len(got))
			}
		})
	}
}

// P37: encryption is asked for on PUT and on multipart create, and nowhere else.
func TestP37EncryptionHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.SSE, o.KMSKeyID = "aws:kms", "key-1" })
		if _, err := send(t.Context(), newTestStage(b, 5<<20, nil), testJob(), pattern(17<<20)); err != nil {
			t.Fatal(err)
		}
		for _, r := range b.s3.Requests() {
			want := r.Op == "put" || r.Op == "multipart_create"
			got := r.Header.Get("X-Amz-Server-Side-Encryption") == "aws:kms" && r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") == "key-1"
			none := len(r.Header["X-Amz-Server-Side-Encryption"]) == 0 && len(r.Header["X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"]) == 0
			if want && !got || !want && !none {
				t.Errorf("%s: %v", r.Op, r.Header)
			}
		}
	})
}

// P38 and P39: no Content-Encoding on an object, no header without a value, none that nobody asked for.
func TestP38P39NoUnwantedHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		if _, err := send(t.Context(), newTestStage(b, 5<<20, nil), testJob(), pattern(17<<20)); err != nil {
			t.Fatal(err)
		}
		for _, r := range b.s3.Requests() {
			for name, values := range r.Header {
				switch name {
				case "Content-Encoding", "X-Amz-Acl", "X-Amz-Tagging", "X-Amz-Storage-Class", "Accept-Encoding", "Expect":
					t.Errorf("%s sends %s: %q", r.Op, name, values)
				}
				if len(values) != 1 || values[0] == "" {
					t.Errorf("%s sends %s: %q", r.Op, name, values)
				}
			}
		}
	})
}

// Every operation is counted under its name with the code that came back.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Script(fakes3.Rule{Op: "multipart_part", Times: 1, Status: 503}, fakes3.Rule{Op: "put", Times: 1, Cut: fakes3.CutBefore})
		if _, err := send(t.Context(), newTestStage(b, 5<<20, nil), testJob(), pattern(17<<20)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Get(t.Context(), testManifest, 1<<20); err != nil {
			t.Fatal(err)
		}
		b.tryAbort(t.Context(), "k", "none")
		want := map[string]int{
			"multipart_create 200": 1, "multipart_part 503": 1, "multipart_part 200": 2, "multipart_complete 200": 1,
			"put 0": 1, "put 200": 1, "get 200": 1, "multipart_abort 404": 1,
		}
		if got := fmt.Sprint(b.seen); got != fmt.Sprint(want) {
			t.Errorf("counted %s", got)
		}
	})
}

// The bucket is part of the host name when path style is off.
func TestVirtualHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.PathStyle = false })
		if err := b.Put(t.Context(), "queen/k", "text/plain", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if r := b.s3.Requests()[0]; r.Host != "lake.fakes3.test" || r.Path != "/queen/k" {
			t.Errorf("%s %s", r.Host, r.Path)
		}
	})
}
