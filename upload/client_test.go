package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/internal/fakes3"
)

// P18: a store that accepts and never answers, one that never reads, and one that stops in the middle of a body.
func TestP18SilenceIsBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		rule fakes3.Rule
		deaf bool
		most time.Duration // of one attempt
	}{
		{name: "held", rule: fakes3.Rule{Hold: make(chan struct{})}, most: 60 * time.Second},
		{name: "stalled body", rule: fakes3.Rule{Stall: make(chan struct{})}, most: 120 * time.Second},
		{name: "deaf", deaf: true, most: 120 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.rule.Hold != nil {
					c.rule.Hold = make(chan struct{}) // a channel of this bubble
				}
				if c.rule.Stall != nil {
					c.rule.Stall = make(chan struct{})
				}
				b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Attempts = 1 })
				b.s3.Script(c.rule)
				b.s3.Deaf(c.deaf)
				var err error
				within(t, c.most, c.most+time.Second, func() { err = b.Put(t.Context(), "k", "text/plain", pattern(1<<20)) })
				var e *Error
				if !errors.As(err, &e) || !e.Retryable || e.Status != 0 {
					t.Fatalf("got %v", err)
				}
				if n := b.counted("put 0"); n != 1 {
					t.Errorf("counted %d attempts without an answer", n)
				}
			})
		})
	}
}

// P18: the end of the context ends a hung request at once.
func TestP18CancelEndsAHungRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Script(fakes3.Rule{Hold: make(chan struct{})})
		cause := errors.New("the sink stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(cause) })
		within(t, 3*time.Second, 3*time.Second, func() {
			if err := b.Put(ctx, "k", "text/plain", []byte("x")); !errors.Is(err, cause) {
				t.Errorf("got %v", err)
			}
		})
	})
}

// P27: ten minutes of 503 are waited out with growing pauses; the SDK adds no retries of its own.
func TestP27TenMinutesOf503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Script(fakes3.Rule{Status: 503, Code: "SlowDown", Body: "Please reduce your request rate."})
		time.AfterFunc(10*time.Minute, b.s3.Unscript)
		start := time.Now()
		rounds := 0
		for {
			err := b.Put(t.Context(), "k", "text/plain", []byte("x"))
			if err == nil {
				break
			}
			var e *Error
			if !errors.As(err, &e) || !e.Retryable || e.Code != "SlowDown" || e.Status != 503 {
				t.Fatalf("got %v", err)
			}
			rounds++
		}
		// Each round: attempts at 0, 1, 3, 7, 15 and 31 s.
		if took := time.Since(start); took < 10*time.Minute || took > 11*time.Minute || rounds != 19 {
			t.Errorf("took %v in %d rounds", took, rounds)
		}
		if n := b.counted("put 503"); n < 115 || n > 125 {
			t.Errorf("%d attempts answered 503", n)
		}
		if n := b.counted("put 200"); n != 1 {
			t.Errorf("%d attempts answered 200", n)
		}
	})
}

// P27: waits are spread over [step/10, step], and Retry-After is a floor of at most a minute.
func TestP27Waits(t *testing.T) {
	for _, c := range []struct {
		random     float64
		retryAfter string
		want       time.Duration // six attempts
	}{
		{0, "", 3100 * time.Millisecond},
		{1, "", 31 * time.Second},
		{0, "3", 15100*time.Millisecond - 100*time.Millisecond},
		{1, "20", 100 * time.Second},
		{0, "86400", 300 * time.Second},
		{0, "soon", 3100 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(c.random, c.retryAfter), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t, fakes3.Options{}, func(o *ClientOptions) { o.Random = func() float64 { return c.random } })
				rule := fakes3.Rule{Status: 429, Header: http.Header{}}
				if c.retryAfter != "" {
					rule.Header.Set("Retry-After", c.retryAfter)
				}
				b.s3.Script(rule)
				within(t, c.want, c.want, func() {
					var e *Error
					if err := b.Put(t.Context(), "k", "text/plain", []byte("x")); !errors.As(err, &e) || e.Status != 429 {
						t.Errorf("got %v", err)
					}
				})
				if n := len(b.s3.Requests()); n != 6 {
					t.Errorf("%d attempts", n)
				}
			})
		})
	}
}

// An answer that no store gives for an object that it holds is not a success, whatever its status: something between answered. The number of
// parts in a tag must be that of the parts sent.
func TestAnswersThatAreNoSuccess(t *testing.T) {
	md5 := strings.Repeat("0", 32)
	for name, rule := range map[string]fakes3.Rule{
		"no content":          {Op: "put", Status: 204, Times: 1},
		"a page of a proxy":   {Op: "put", Status: 200, Body: "<html>maintenance</html>", Times: 1},
		"a page for complete": {Op: "multipart_complete", Status: 200, Body: "<html>maintenance</html>", Times: 1},
		"another part count": {Op: "multipart_complete", Status: 200, Times: 1,
			Body: `<CompleteMultipartUploadResult><ETag>&quot;` + md5 + `-9&quot;</ETag></CompleteMultipartUploadResult>`},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, nil)
			b.s3.Script(rule)
			data := pattern(33 << 20)
			threshold := int64(5 << 20)
			if rule.Op == "put" {
				threshold = 64 << 20
			}
			if _, err := send(t.Context(), newTestStage(b, threshold, nil), testJob(), data); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, _ := b.s3.Object(testData); !bytes.Equal(got, data) {
				t.Errorf("%s: taken for a success, and %d bytes are stored", name, len(got))
			}
		})
	}
}

// An access key or a bucket that a store does not know is not an absent object: who looks must hear of it.
func TestAbsentIsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		for _, code := range []string{"UnknownAccessKey", "NoSuchBucket"} {
			b.s3.Script(fakes3.Rule{Op: "get", Status: 404, Code: code, Times: 1})
			if _, found, err := b.Get(t.Context(), "k", 10); found || err == nil || !strings.Contains(err.Error(), code) {
				t.Errorf("404 %s: found %v, %v", code, found, err)
			}
		}
		if _, found, err := b.Get(t.Context(), "k", 10); found || err != nil {
			t.Errorf("404 NoSuchKey: found %v, %v", found, err)
		}
	})
}

// P36: the probe needs no more than the sink does, and a refused look is told from an absent object.
func TestP36Probe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		if err := b.Probe(t.Context(), "queen"); err != nil {
			t.Fatalf("404: %v", err)
		}
		if r := b.s3.Requests(); len(r) != 2 || r[0].Op != "head" || r[0].Key != "queen/" || r[1].Op != "get" {
			t.Errorf("requests: %s", transcript(r))
		}
		for _, code := range []string{"NoSuchBucket", "UnknownAccessKey"} { // a HEAD cannot tell them from a missing key
			b.s3.Script(fakes3.Rule{Op: "get", Status: 404, Code: code, Times: 1})
			if err := b.Probe(t.Context(), "queen"); err == nil || !strings.Contains(err.Error(), code) {
				t.Errorf("404 %s: %v", code, err)
			}
		}
		b.s3.Script(fakes3.Rule{Op: "get", Status: 403, Code: "AccessDenied", Times: 1}) // no leave to list, and none is needed
		if err := b.Probe(t.Context(), "queen"); err != nil {
			t.Errorf("403 where the key is absent: %v", err)
		}
		b.s3.Script(fakes3.Rule{Op: "head", Status: 403, Times: 2}, fakes3.Rule{Op: "get", Status: 403, Code: "InvalidAccessKeyId", Times: 1})
		if err := b.Probe(t.Context(), "queen"); err == nil || !strings.Contains(err.Error(), "InvalidAccessKeyId") {
			t.Errorf("403 without a reason: %v", err)
		}
		if err := b.Probe(t.Context(), "queen"); err == nil {
			t.Error("a refused HEAD is good as soon as a GET finds nothing")
		}
		b.s3.Script(fakes3.Rule{Status: 403})
		err := b.Probe(t.Context(), "queen")
		var e *Error
		if !errors.As(err, &e) || e.Status != 403 || !strings.Contains(err.Error(), "s3:GetObject") {
			t.Fatalf("403: %v", err)
		}
	})
}

// P40: a body is sent again from its first byte, whole and with its length.
func TestP40BodyIsReplayed(t *testing.T) {
	for _, cut := range []fakes3.Cut{fakes3.CutBefore, fakes3.CutMid, fakes3.CutAfter} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, nil)
			b.s3.Script(fakes3.Rule{Op: "put", Times: 2, Cut: cut})
			data := pattern(3 << 20)
			within(t, 3*time.Second, 3*time.Second, func() {
				if err := b.Put(t.Context(), "k", "text/plain", data); err != nil {
					t.Fatalf("cut %d: %v", cut, err)
				}
			})
			reqs := b.s3.Requests()
			last := reqs[len(reqs)-1]
			if len(reqs) != 3 || last.SHA256 != sha(data) || last.Header.Get("Content-Length") != fmt.Sprint(len(data)) {
				t.Errorf("cut %d: %s", cut, transcript(reqs, "Content-Length"))
			}
		})
	}
}

// A GET whose body breaks in the middle is asked for again as a whole.
func TestHalfReadAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		data := pattern(100_000)
		b.s3.Put("k", data)
		b.s3.Script(fakes3.Rule{Op: "get", Times: 2, Cut: fakes3.CutAnswer})
		got, found, err := b.Get(t.Context(), "k", 1<<20)
		if err != nil || !found || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes, %v, %v", len(got), found, err)
		}
		if _, _, err := b.Get(t.Context(), "k", 99_999); err == nil {
			t.Error("an object over the limit was read")
		}
		if _, found, err := b.Get(t.Context(), "none", 10); found || err != nil {
			t.Errorf("absent: %v %v", found, err)
		}
		if size, found, err := b.Head(t.Context(), "k"); size != 100_000 || !found || err != nil {
			t.Errorf("head: %d %v %v", size, found, err)
		}
		if _, found, err := b.Head(t.Context(), "none"); found || err != nil {
			t.Errorf("head of nothing: %v %v", found, err)
		}
		if _, err := b.Open(t.Context(), "none"); !IsAbsent(err) {
			t.Errorf("open of nothing: %v", err)
		}
	})
}

func TestListWalksPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		for i := range 2500 {
			b.s3.Put(fmt.Sprintf("queen/<&> %04d", i), []byte("xy"))
		}
		n := 0
		for o, err := range b.List(t.Context(), "queen/", "queen/<&> 0099") {
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("queen/<&> %04d", n+100); o.Key != want || o.Size != 2 {
				t.Fatalf("got %+v, want %s", o, want)
			}
			n++
		}
		if n != 2400 || len(b.s3.Requests()) != 3 {
			t.Errorf("%d keys in %d pages", n, len(b.s3.Requests()))
		}
	})
}
