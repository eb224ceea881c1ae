package node

import (
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Limits of one connection. A long poll lasts at most 30 s, and the largest body is 48 MiB: a client that needs longer than
// this for either is gone.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 2 * time.Minute
	writeTimeout      = 3 * time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// incoming knows the requests that have not come in whole. A client that stops sending in the middle of one would hold the stop of
// the node for as long as it likes: cut ends such reads, and no others. A request that came in whole gets its answer.
type incoming struct {
	next http.Handler

	mu      sync.Mutex
	reading map[*body]struct{}    // bodies that have not been read to their end
	fresh   map[net.Conn]struct{} // connections without a whole header yet
}

func newIncoming(next http.Handler) *incoming {
	return &incoming{next: next, reading: make(map[*body]struct{}), fresh: make(map[net.Conn]struct{})}
}

var _ http.Handler = (*incoming)(nil)

// body is a request body that tells when it has been read to its end.
type body struct {
	io.ReadCloser
	of   *incoming
	conn *http.ResponseController
}

// ServeHTTP implements http.Handler.
func (b *incoming) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		b.next.ServeHTTP(w, r)
		return
	}
	one := &body{ReadCloser: r.Body, of: b, conn: http.NewResponseController(w)}
	b.mu.Lock()
	b.reading[one] = struct{}{}
	b.mu.Unlock()
	defer b.done(one)
	own := *r // a handler may not change the request
	own.Body = one
	b.next.ServeHTTP(w, &own)
}

// state is told by the server how its connections are.
func (b *incoming) state(c net.Conn, s http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s == http.StateNew {
		b.fresh[c] = struct{}{}
	} else {
		delete(b.fresh, c)
	}
}

func (b *incoming) done(one *body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reading, one)
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.of.done(b)
	}
	return n, err
}

// cut ends the reads that are under way, and says how many.
func (b *incoming) cut() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for one := range b.reading {
		if one.conn.SetReadDeadline(time.Unix(1, 0)) == nil { // it fails when the connection is gone
			n++
		}
	}
	for c := range b.fresh {
		_ = c.Close() // whoever reads there finds out
		n++
	}
	return n
}

// newServer returns a server of HTTP/1.1 only. The handler gets every request as it came: no mux cleans paths before it.
func newServer(handler *incoming, logger zerolog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      handler,
		ConnState:                    handler.state,
		Protocols:                    &protocols,
		ReadHeaderTimeout:            readHeaderTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true, // OPTIONS * too is the handler's
		ErrorLog:                     log.New(lines{logger}, "", 0),
	}
}

// lines hands net/http's own complaints (a broken connection, a handler that panicked) to our log, one line each.
type lines struct{ to zerolog.Logger }

// Write implements io.Writer.
func (l lines) Write(text []byte) (int, error) {
	l.to.Warn().Msg(strings.TrimSpace(string(text)))
	return len(text), nil
}
