package harness

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Fault is what a broken way to the bucket does with one request; pass hands it on to the bucket.
type Fault func(w http.ResponseWriter, r *http.Request, pass http.Handler)

// Break has every request answered by a fault from now on; nil heals the way.
func (p *Proxy) Break(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// Down closes each connection without a word.
func Down(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// HalfRead reads half of each body and closes the connection. What has none passes.
func HalfRead(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	if r.ContentLength <= 0 {
		pass.ServeHTTP(w, r)
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2) // whatever comes of it, the connection ends
	panic(http.ErrAbortHandler)
}

// NineOfTen answers nine of ten requests with 503.
func NineOfTen() Fault {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if n.Add(1)%10 == 0 {
			pass.ServeHTTP(w, r)
			return
		}
		Refuse(503, "SlowDown", "Please reduce your request rate.", nil)(w, r, pass)
	}
}

// Refuse answers each request with an error document, and headers beside it.
func Refuse(status int, code, words string, header map[string]string) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, words)
		}
	}
}

// Puts has a fault for uploads alone.
func Puts(f Fault) Fault {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			pass.ServeHTTP(w, r)
			return
		}
		f(w, r, pass)
	}
}

// Under has a fault for the keys that hold a text alone.
func Under(part string, f Fault) Fault {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if !strings.Contains(r.URL.Path, part) {
			pass.ServeHTTP(w, r)
			return
		}
		f(w, r, pass)
	}
}

// Ahead is a Date header of a store whose clock is so far ahead of this machine's.
func Ahead(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
