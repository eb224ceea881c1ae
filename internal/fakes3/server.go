// Package fakes3 is a scripted S3 server for tests: objects in memory, every request recorded, and rules that delay, hold, cut or
// change any answer.
//
// It listens on TCP and on net.Pipe (Dial fits http.Transport.DialContext), so the real AWS SDK runs against it inside
// testing/synctest, where ten minutes of back-off take no time. It speaks PUT, GET, HEAD, LIST v2 and multipart, of one bucket in
// path style, and checks signatures when it is given a secret (sigv4.go). It is not a store: it keeps nothing and knows no
// versions, permissions or ranges. script.go has the rules, handle.go the operations.
package fakes3

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Options of a server.
type Options struct {
	Bucket string
	Secret string // not empty: requests must be signed with it; Accept names others
	// Now is the server's clock: it dates answers, and a request that is dated 15 minutes off it is refused. nil: any date is good.
	Now func() time.Time
	// Proxy changes a request before its signature is checked, as a front end on the way would.
	Proxy func(r *http.Request)
	// ETag makes the tag of an object or part; nil: its quoted MD5.
	ETag func(data []byte) string
}

// Server is one bucket. Its zero value is not usable; New makes one.
//
// Invariants: every request is recorded once, in the order in which it arrived, before any rule acts on it. A connection handed out
// by Dial is served until either side closes it. When Close has returned, no goroutine of the server is left.
type Server struct {
	o      Options
	pipes  *pipeListener
	http   *http.Server
	serve  sync.WaitGroup
	live   sync.WaitGroup // handlers
	closed chan struct{}

	mu       sync.Mutex
	objects  map[string]object
	uploads  map[string]*upload
	nextID   int
	requests []*Request
	rules    []*Rule
	accepted *Credentials // nil: whoever signs with Options.Secret
	deaf     bool
	ended    bool
}

type object struct {
	data        []byte
	contentType string
	etag        string
}

// New starts a server that is reached through Dial.
func New(o Options) *Server {
	s := &Server{
		o: o, pipes: newPipeListener(), closed: make(chan struct{}),
		objects: map[string]object{}, uploads: map[string]*upload{},
	}
	s.http = &http.Server{Handler: http.HandlerFunc(s.handle)}
	s.serve.Go(func() { _ = s.http.Serve(s.pipes) })
	return s
}

// ListenTCP also serves a free port of the loopback interface and returns its endpoint.
func (s *Server) ListenTCP() (endpoint string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.serve.Go(func() { _ = s.http.Serve(l) })
	return "http://" + l.Addr().String(), nil
}

// Endpoint is what a client that uses Dial may call the server.
func (s *Server) Endpoint() string { return "http://fakes3.test" }

// Dial connects to the server whatever the address. A deaf server accepts and never reads.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	s.mu.Lock()
	deaf := s.deaf
	s.mu.Unlock()
	if deaf {
		return client, nil
	}
	select {
	case s.pipes.conns <- server:
		return client, nil
	case <-s.closed:
	case <-ctx.Done():
	}
	client.Close()
	server.Close()
	return nil, errors.New("connection refused")
}

// Deaf makes connections from now on be accepted and never read, or served again.
func (s *Server) Deaf(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = on
}

// Close ends all connections and waits for every goroutine of the server. It is safe to call twice.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.ended {
		s.ended = true
		close(s.closed)
	}
	s.mu.Unlock()
	_ = s.http.Close()
	_ = s.pipes.Close()
	s.serve.Wait()
	s.live.Wait()
}

// Put places an object as if it had been uploaded before.
func (s *Server) Put(key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = object{data: data, etag: s.etag(data)}
}

// Object returns the bytes stored under a key.
func (s *Server) Object(key string) (data []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	return o.data, ok
}

// Keys returns all keys, sorted.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedKeys(s.objects)
}

// OpenUploads is how many multipart uploads were begun and neither completed nor aborted.
func (s *Server) OpenUploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// Requests returns all requests so far in the order of their arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
	}
	return out
}

// pipeListener hands the server ends of pipes to http.Server.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

var _ net.Listener = (*pipeListener)(nil)

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "fakes3", Net: "pipe"} }
