package api

import (
	"net/http"
	"strconv"
)

// flushAt is how much of an answer is held before it is sent, bytes.
const flushAt = 256 << 10

// stream writes one JSON answer of any length. Up to flushAt it is one write with a Content-Length; beyond, it goes out in pieces.
// The handler appends to buf and calls spill between elements.
type stream struct {
	w      http.ResponseWriter
	status int
	buf    []byte
	begun  bool // the status is out: what fails from here on can only end the connection
	err    error
}

// spill sends what is held when that is much. It reports false when the client is gone.
func (s *stream) spill() bool {
	if len(s.buf) < flushAt {
		return s.err == nil
	}
	s.send()
	return s.err == nil
}

func (s *stream) send() {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "application/json")
		s.w.WriteHeader(s.status)
	}
	if s.err == nil {
		_, s.err = s.w.Write(s.buf)
	}
	s.buf = s.buf[:0]
}

// finish sends the rest.
func (s *stream) finish() {
	if !s.begun {
		s.w.Header().Set("Content-Length", strconv.Itoa(len(s.buf)))
	}
	s.send()
}

// abort ends the answer after an error: as that error while nothing is out, else by cutting the connection, so that no client
// takes half an answer for a whole one.
func (s *server) abort(out *stream, err error) error {
	if !out.begun {
		return err
	}
	if out.err == nil { // the client is still there
		s.o.Log.Error().Err(err).Msg("answer cut short")
	}
	panic(http.ErrAbortHandler)
}
