package node

import (
	"log"
	"net/http"
	"strings"
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

// newServer returns a server of HTTP/1.1 only. The handler gets every request as it came: no mux cleans paths before it.
func newServer(handler http.Handler, logger zerolog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      handler,
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
