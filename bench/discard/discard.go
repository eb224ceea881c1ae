// Package discard is an S3 server that reads what it is sent and throws it away: the far end of a benchmark, in a process of its own so
// that its work is in nobody's figures. It answers PUT, multipart uploads and HEAD as a store does, and keeps the manifests of windows,
// since they say what was uploaded and when.
//
// It is not a store and checks no signature. Tests of correctness use internal/fakes3 and a real gateway.
package discard

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Control is the path of the server's own two requests: GET of it returns Seen, DELETE forgets it. No bucket can have this name.
const Control = "/-/seen"

// Seen is what the server was sent.
type Seen struct {
	Requests  int64             `json:"requests"`
	Bytes     int64             `json:"bytes"`     // of bodies
	Manifests []json.RawMessage `json:"manifests"` // in the order of their arrival
	// Spans are how long the upload of each manifest's window took: from the start of the first request that sends something, since the
	// manifest before, to the end of this one. They say something only while one queue is mirrored, whose windows follow each other.
	Spans []time.Duration `json:"spans"`
}

// manifestMark is part of the key of every manifest and of no data object.
const manifestMark = "/_queen/"

// mostManifest bounds a manifest, in bytes.
const mostManifest = 64 << 20

// Server is the handler. The zero value is ready.
type Server struct {
	uploads atomic.Int64
	mu      sync.Mutex
	seen    Seen
	first   time.Time // of the window that is being sent; zero between windows
}

var _ http.Handler = (*Server)(nil)

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == Control {
		s.control(w, r)
		return
	}
	if r.Method == http.MethodPut || r.Method == http.MethodPost {
		s.begins(time.Now())
	}
	keep := r.Method == http.MethodPut && strings.Contains(r.URL.Path, manifestMark)
	body, n, err := take(r.Body, keep)
	if err != nil {
		refuse(w, http.StatusBadRequest, "IncompleteBody", err)
		return
	}
	s.note(n, body)
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPut:
		w.Header().Set("ETag", fmt.Sprintf(`"%032x"`, n))
	case r.Method == http.MethodPost && query.Has("uploads"):
		answer(w, struct {
			XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
			UploadID string   `xml:"UploadId"`
		}{UploadID: strconv.FormatInt(s.uploads.Add(1), 10)})
	case r.Method == http.MethodPost && query.Has("uploadId"):
		answer(w, struct {
			XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
			ETag    string   `xml:"ETag"`
		}{ETag: `"` + query.Get("uploadId") + `-1"`})
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default: // whatever was put is gone
		refuse(w, http.StatusNotFound, "NoSuchKey", errors.New("nothing is kept here"))
	}
}

// take reads a body to its end and returns its length; what it holds only when it is to be kept.
func take(r io.Reader, keep bool) ([]byte, int64, error) {
	if !keep {
		n, err := io.Copy(io.Discard, r)
		return nil, n, err
	}
	body, err := io.ReadAll(io.LimitReader(r, mostManifest))
	return body, int64(len(body)), err
}

// begins notes when the first request of a window came.
func (s *Server) begins(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() {
		s.first = now
	}
}

func (s *Server) note(n int64, manifest []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.Requests++
	s.seen.Bytes += n
	if json.Valid(manifest) {
		s.seen.Manifests = append(s.seen.Manifests, manifest)
		s.seen.Spans = append(s.seen.Spans, time.Since(s.first))
		s.first = time.Time{}
	}
}

func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	seen := s.seen
	if r.Method == http.MethodDelete {
		s.seen = Seen{}
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(seen) // the asker is gone
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(v) // the asker is gone
}

func refuse(w http.ResponseWriter, status int, code string, why error) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: code, Message: why.Error()})
}
