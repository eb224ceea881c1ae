package chaos

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// The ways in which the bucket misbehaves.
type bucketFault int

const (
	bucketWell bucketFault = iota
	bucketDown             // the connection is closed without an answer
	bucketBusy             // 503 SlowDown
	bucketSlow             // each answer takes 1.5 s
	bucketCut              // half of the request reaches the store, or half of the answer the sink
	bucketLost             // the store does what it was asked, and the answer is lost
)

// bucket is the proxy between the sinks and their store. It plays faults, and remembers every body that came in whole for a key.
type bucket struct {
	server  *http.Server
	forward *httputil.ReverseProxy

	mu       sync.Mutex
	fault    bucketFault
	hit      int                        // requests that met the fault
	bodies   map[string]map[string]bool // key -> sha256 of bodies, hex
	requests int
	odd      []string // requests that the suite does not know how to judge
}

func newBucket(t testing.TB, target string) *bucket {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	b := &bucket{bodies: map[string]map[string]bool{}}
	b.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // the host is signed
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	b.server = &http.Server{Handler: b}
	return b
}

func (b *bucket) set(f bucketFault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault, b.hit = f, 0
}

func (b *bucket) hits() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hit
}

// take notes a request and returns the fault that it meets.
func (b *bucket) take(r *http.Request, body []byte) bucketFault {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests++
	if b.fault != bucketWell {
		b.hit++
	}
	switch {
	case r.Method == http.MethodPut && r.URL.RawQuery == "" || r.Method == http.MethodPut && r.URL.Query().Get("x-id") == "PutObject" && len(r.URL.Query()) == 1:
		sum := sha256.Sum256(body)
		if want := r.Header.Get("X-Amz-Content-Sha256"); want != hex.EncodeToString(sum[:]) {
			b.odd = append(b.odd, fmt.Sprintf("PUT %s: the body's sha256 is not the signed one (%s): it can't be compared", r.URL, want))
			break
		}
		if b.bodies[r.URL.Path] == nil {
			b.bodies[r.URL.Path] = map[string]bool{}
		}
		b.bodies[r.URL.Path][hex.EncodeToString(sum[:])] = true
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
	default:
		b.odd = append(b.odd, r.Method+" "+r.URL.String())
	}
	return b.fault
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it was cut before it was here: no body of anything
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch b.take(r, body) {
	case bucketDown:
		panic(http.ErrAbortHandler)
	case bucketBusy:
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
		return
	case bucketSlow:
		select {
		case <-time.After(1500 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	case bucketCut:
		if r.Method == http.MethodPut && len(body) > 1 {
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), broken{}))
			b.forward.ServeHTTP(&deaf{header: http.Header{}}, r)
			panic(http.ErrAbortHandler)
		}
		half := &deaf{header: http.Header{}}
		b.forward.ServeHTTP(half, r)
		w.Header().Set("Content-Length", fmt.Sprint(half.body.Len()+1)) // and then less
		w.WriteHeader(half.status)
		w.Write(half.body.Bytes()[:half.body.Len()/2])
		panic(http.ErrAbortHandler)
	case bucketLost:
		b.forward.ServeHTTP(&deaf{header: http.Header{}}, r)
		panic(http.ErrAbortHandler)
	}
	b.forward.ServeHTTP(w, r)
}

// broken is a body whose sender went away.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// deaf takes an answer that nobody hears.
type deaf struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (d *deaf) Header() http.Header         { return d.header }
func (d *deaf) WriteHeader(status int)      { d.status = status }
func (d *deaf) Write(p []byte) (int, error) { return d.body.Write(p) }

// rewritten returns the keys that were sent with more than one body. Checkpoints may be.
func (b *bucket) rewritten() (keys []string, objects int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, sums := range b.bodies {
		objects++
		if len(sums) > 1 && !strings.Contains(key, "/checkpoint/") {
			keys = append(keys, key)
		}
	}
	return keys, objects
}

func (b *bucket) oddities() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.odd...)
}
