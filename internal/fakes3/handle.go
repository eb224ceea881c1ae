package fakes3

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answer is what an operation says.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		cut()
	}
	s.live.Add(1)
	s.mu.Unlock()
	defer s.live.Done()
	rec, rule := s.record(r)
	if !s.pause(r, rule.Delay) {
		cut()
	}
	if rule.Cut == CutBefore {
		cut()
	}
	if rule.Cut == CutMid || rule.Stall != nil {
		_, _ = s.read(rec, r, r.ContentLength/2)
		if rule.Stall == nil || !s.wait(r, rule.Stall) {
			cut()
		}
	}
	data, err := s.read(rec, r, -1)
	if err != nil {
		cut()
	}
	if rule.Hold != nil && !s.wait(r, rule.Hold) {
		cut()
	}
	s.reply(w, r, rec, s.decide(rec, rule, r, data), rule)
}

// pause waits for d and reports whether to go on.
func (s *Server) pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.closed:
	case <-r.Context().Done():
	}
	return false
}

// cut closes the connection without another word.
func cut() { panic(http.ErrAbortHandler) }

func (s *Server) record(r *http.Request) (*Request, Rule) {
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+s.o.Bucket), "/")
	rec := &Request{
		Op: opOf(r), Method: r.Method, Host: r.Host, Path: r.URL.EscapedPath(), Key: key,
		Query: r.URL.Query(), Header: r.Header.Clone(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.Seq = len(s.requests) + 1
	s.requests = append(s.requests, rec)
	return rec, s.rule(rec)
}

func opOf(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodHead:
		return "head"
	case r.Method == http.MethodGet && q.Has("list-type"):
		return "list"
	case r.Method == http.MethodGet:
		return "get"
	case r.Method == http.MethodPost && q.Has("uploads"):
		return "multipart_create"
	case r.Method == http.MethodPost:
		return "multipart_complete"
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		return "multipart_abort"
	case r.Method == http.MethodDelete:
		return "delete"
	case q.Has("partNumber"):
		return "multipart_part"
	default:
		return "put"
	}
}

// decide runs the operation, unless the rule puts another answer in its place.
func (s *Server) decide(rec *Request, rule Rule, r *http.Request, data []byte) answer {
	if rule.Status != 0 {
		if rule.Apply {
			s.operate(rec, data)
		}
		a := answer{status: rule.Status, header: rule.Header.Clone(), body: []byte(rule.Body)}
		if rule.Code != "" {
			a.body = errorDocument(rule.Code, rule.Body)
		}
		return a
	}
	if s.o.Proxy != nil {
		s.o.Proxy(r)
	}
	if a, ok := s.admit(r, data); !ok {
		return a
	}
	a := s.operate(rec, data)
	if rule.Then != nil {
		rule.Then(a.header)
	}
	return a
}

func (s *Server) reply(w http.ResponseWriter, r *http.Request, rec *Request, a answer, rule Rule) {
	if rule.Cut == CutAfter {
		cut()
	}
	s.mu.Lock()
	rec.Status = a.status
	s.mu.Unlock()
	for k, v := range a.header {
		w.Header()[k] = v
	}
	if w.Header().Get("Content-Length") == "" {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	if s.o.Now != nil {
		w.Header().Set("Date", s.o.Now().UTC().Format(http.TimeFormat))
	}
	w.WriteHeader(a.status)
	if rule.Trickle > 0 {
		s.trickle(w, r, a.body, rule.Trickle)
		return
	}
	if rule.Cut == CutAnswer {
		_, _ = w.Write(a.body[:len(a.body)/2])
		_ = http.NewResponseController(w).Flush()
		cut()
	}
	_, _ = w.Write(a.body)
}

func (s *Server) trickle(w http.ResponseWriter, r *http.Request, body []byte, distance time.Duration) {
	// A moment, so that the client has done with its request: one whose answer begins before that may lose the connection.
	if !s.pause(r, time.Millisecond) {
		cut()
	}
	_ = http.NewResponseController(w).Flush()
	for i := range body {
		if !s.pause(r, distance) {
			cut()
		}
		if _, err := w.Write(body[i : i+1]); err != nil {
			cut()
		}
		_ = http.NewResponseController(w).Flush()
	}
}

func (s *Server) operate(rec *Request, data []byte) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch rec.Op {
	case "put":
		o := object{data: data, contentType: rec.Header.Get("Content-Type"), etag: s.etag(data)}
		s.objects[rec.Key] = o
		return answer{status: 200, header: http.Header{"Etag": {o.etag}}}
	case "get", "head":
		return s.get(rec)
	case "list":
		return s.list(rec)
	case "multipart_create":
		return s.create(rec)
	case "multipart_part":
		return s.part(rec, data)
	case "multipart_complete":
		return s.complete(rec, data)
	case "multipart_abort":
		if _, ok := s.uploads[rec.Query.Get("uploadId")]; !ok {
			return failure(404, "NoSuchUpload", "The specified upload does not exist.")
		}
		delete(s.uploads, rec.Query.Get("uploadId"))
		return answer{status: 204}
	default:
		return failure(405, "MethodNotAllowed", "not something the sink may ask for")
	}
}

func (s *Server) get(rec *Request) answer {
	o, ok := s.objects[rec.Key]
	if !ok {
		if rec.Op == "head" {
			return answer{status: 404}
		}
		return failure(404, "NoSuchKey", "The specified key does not exist.")
	}
	a := answer{status: 200, body: o.data, header: http.Header{"Etag": {o.etag}, "Content-Type": {o.contentType}}}
	if rec.Op == "head" {
		a.header.Set("Content-Length", strconv.Itoa(len(o.data)))
		a.body = nil
	}
	return a
}

type listResult struct {
	XMLName     xml.Name `xml:"ListBucketResult"`
	Prefix      string
	KeyCount    int
	MaxKeys     int
	IsTruncated bool
	Contents    []listEntry
}

type listEntry struct {
	Key  string
	Size int
	ETag string
}

func (s *Server) list(rec *Request) answer {
	limit, err := strconv.Atoi(rec.Query.Get("max-keys"))
	if err != nil || limit < 1 || limit > 1000 {
		limit = 1000
	}
	out := listResult{Prefix: rec.Query.Get("prefix"), MaxKeys: limit}
	for _, key := range sortedKeys(s.objects) {
		if !strings.HasPrefix(key, out.Prefix) || key <= rec.Query.Get("start-after") {
			continue
		}
		if len(out.Contents) == limit {
			out.IsTruncated = true
			break
		}
		out.Contents = append(out.Contents, listEntry{Key: key, Size: len(s.objects[key].data), ETag: s.objects[key].etag})
	}
	out.KeyCount = len(out.Contents)
	return document(out)
}

func document(v any) answer {
	body, err := xml.Marshal(v)
	if err != nil {
		return failure(500, "InternalError", err.Error())
	}
	return answer{status: 200, body: append([]byte(xml.Header), body...), header: http.Header{"Content-Type": {"application/xml"}}}
}

func failure(status int, code, message string) answer {
	return answer{status: status, body: errorDocument(code, message), header: http.Header{"Content-Type": {"application/xml"}}}
}

func errorDocument(code, message string) []byte {
	var b strings.Builder
	_, _ = io.WriteString(&b, xml.Header+"<Error><Code>"+code+"</Code><Message>")
	_ = xml.EscapeText(&b, []byte(message))
	_, _ = io.WriteString(&b, "</Message></Error>")
	return []byte(b.String())
}

func (s *Server) etag(data []byte) string {
	if s.o.ETag != nil {
		return s.o.ETag(data)
	}
	sum := md5.Sum(data)
	return fmt.Sprintf("%q", hex.EncodeToString(sum[:]))
}
