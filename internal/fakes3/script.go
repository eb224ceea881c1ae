package fakes3

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"time"
)

// Request is one request as it arrived.
type Request struct {
	Seq    int    // from 1
	Op     string // put, get, head, list, delete, multipart_create, multipart_part, multipart_complete, multipart_abort
	Method string
	Host   string
	Path   string // as on the wire, still escaped
	Key    string
	Query  url.Values
	Header http.Header
	Bytes  int64  // of the body that was read
	SHA256 string // of the body that was read, hex; "" while it is not read
	Body   []byte // of requests other than put and multipart_part
	Status int    // what it was answered; 0 = nothing
}

// Cut says where a connection is closed.
type Cut int

// The places where a rule can cut.
const (
	NoCut     Cut = iota
	CutBefore     // before the body is read
	CutMid        // after half of the body
	CutAfter      // after the request has taken effect, without an answer
	CutAnswer     // after half of the answer's body
)

// Rule changes the answers to some requests. The first rule that matches a request and is not used up acts on it.
type Rule struct {
	Op    string // "" = any
	Key   string // path.Match pattern over the whole key or its last segment; "" = any
	Part  int    // number of a multipart_part; 0 = any
	Skip  int    // so many matching requests pass first
	Times int    // then it acts so often; 0 = always
	Pass  int    // of each so many requests on which it would act, one passes; 0 = none

	Delay time.Duration   // before anything else
	Hold  <-chan struct{} // wait for it after the body was read; nil = do not wait
	Stall <-chan struct{} // read half of the body, then wait for it; nil = do not
	Cut   Cut
	// Trickle sends the answer's body byte by byte, with so much time before each.
	Trickle time.Duration
	// Status other than 0 answers with it, Body and Header instead of the operation; with Apply the operation takes effect before.
	Status int
	Code   string // makes Body an S3 error document
	Body   string
	Header http.Header
	Apply  bool
	// Then changes the headers of an answer that the operation gave.
	Then func(h http.Header)

	seen int
}

// Script adds rules behind those there are.
func (s *Server) Script(rules ...Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rules {
		s.rules = append(s.rules, &r)
	}
}

// Unscript forgets all rules.
func (s *Server) Unscript() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

// rule finds the rule for a request; a copy, so that the handler needs no lock. The caller holds the lock.
func (s *Server) rule(rec *Request) Rule {
	for _, r := range s.rules {
		if r.Op != "" && r.Op != rec.Op || r.Key != "" && !matches(r.Key, rec.Key) ||
			r.Part != 0 && rec.Query.Get("partNumber") != strconv.Itoa(r.Part) {
			continue
		}
		r.seen++
		if r.seen <= r.Skip || r.Times > 0 && r.seen > r.Skip+r.Times {
			continue
		}
		if r.Pass > 0 && (r.seen-r.Skip)%r.Pass == 0 {
			continue
		}
		return *r
	}
	return Rule{}
}

// matches compares a pattern with the whole key and with its last segment.
func matches(pattern, key string) bool {
	whole, _ := path.Match(pattern, key)
	last, _ := path.Match(pattern, path.Base(key))
	return whole || last
}

// wait blocks until the channel, the request's connection or the server ends. It reports whether to go on.
func (s *Server) wait(r *http.Request, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-s.closed:
	case <-r.Context().Done():
	}
	return false
}

// read takes at most limit bytes of a body (all if negative) into the record.
func (s *Server) read(rec *Request, r *http.Request, limit int64) ([]byte, error) {
	src := io.Reader(r.Body)
	if limit >= 0 {
		src = io.LimitReader(src, limit)
	}
	data, err := io.ReadAll(src)
	sum := sha256.Sum256(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.Bytes = int64(len(data))
	rec.SHA256 = hex.EncodeToString(sum[:])
	if rec.Op != "put" && rec.Op != "multipart_part" {
		rec.Body = data
	}
	return data, err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
