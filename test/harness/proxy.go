package harness

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Request is what the proxy saw of one request, in order of arrival.
type Request struct {
	Method, Key string
	Manifest    bool // a PUT of a manifest
	Data        bool // a PUT of a data object, or of one of its parts
}

// Proxy stands between a broker and its bucket. It passes everything on, records it, and can hold requests.
type Proxy struct {
	URL string

	mu   sync.Mutex
	seen []Request
	hold func(Request) <-chan struct{} // nil: pass
	open map[int]Request               // requests that have arrived and were not answered
	next int

	fault Fault // nil: pass
}

// StartProxy starts a proxy in front of target.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{open: map[int]Request{}}
	ended := make(chan struct{})
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // the host is signed
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, held := p.arrive(r)
		defer p.leave(id)
		if held != nil {
			select {
			case <-held:
			case <-r.Context().Done():
				return
			case <-ended: // a test that failed lets nothing go that it held
				return
			}
		}
		p.mu.Lock()
		fault := p.fault
		p.mu.Unlock()
		if fault != nil {
			fault(w, r, forward)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(ended)
		s.Close()
	})
	p.URL = s.URL
	return p
}

func (p *Proxy) arrive(r *http.Request) (int, <-chan struct{}) {
	req := Request{Method: r.Method, Key: r.URL.Path}
	put := r.Method == http.MethodPut
	req.Manifest = put && strings.Contains(req.Key, "/_queen/")
	req.Data = put && strings.Contains(req.Key, "/w-")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, req)
	p.next++
	p.open[p.next] = req
	if p.hold == nil {
		return p.next, nil
	}
	return p.next, p.hold(req)
}

func (p *Proxy) leave(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, id)
}

// Hold sets what is asked about each new request: a channel holds the request until it is closed, nil lets it pass.
func (p *Proxy) Hold(f func(Request) <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = f
}

// Uploads returns how many requests so far uploaded a data object, or a part of one, whose key holds text.
func (p *Proxy) Uploads(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, r := range p.seen {
		if r.Data && strings.Contains(r.Key, text) {
			n++
		}
	}
	return n
}

// Open returns the requests that have arrived and were not answered yet.
func (p *Proxy) Open() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Request
	for _, r := range p.open {
		out = append(out, r)
	}
	return out
}
