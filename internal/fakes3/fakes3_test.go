package fakes3

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is a plain HTTP client of the server, without any SDK.
func client(s *Server) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableCompression: true}}
}

func do(t *testing.T, c *http.Client, method, url string, body []byte) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, "broken: " + err.Error()
	}
	return resp.StatusCode, string(text)
}

func TestObjectsOverTCPAndPipe(t *testing.T) {
	s := New(Options{Bucket: "b"})
	defer s.Close()
	endpoint, err := s.ListenTCP()
	if err != nil {
		t.Fatal(err)
	}
	tcp := &http.Client{Transport: &http.Transport{}}
	defer tcp.CloseIdleConnections()
	pipe := client(s)
	defer pipe.CloseIdleConnections()

	if code, _ := do(t, tcp, "PUT", endpoint+"/b/a%2520b/x%3Dy", []byte("hello")); code != 200 {
		t.Fatalf("PUT over TCP: %d", code)
	}
	if code, text := do(t, pipe, "GET", s.Endpoint()+"/b/a%2520b/x%3Dy", nil); code != 200 || text != "hello" {
		t.Fatalf("GET over a pipe: %d %q", code, text)
	}
	if keys := s.Keys(); len(keys) != 1 || keys[0] != "a%20b/x=y" {
		t.Fatalf("keys %q: the path must be unescaped once", keys)
	}
	if code, text := do(t, pipe, "GET", s.Endpoint()+"/b/none", nil); code != 404 || !strings.Contains(text, "<Code>NoSuchKey</Code>") {
		t.Fatalf("GET of nothing: %d %q", code, text)
	}
	if code, _ := do(t, pipe, "DELETE", s.Endpoint()+"/b/a", nil); code != 405 {
		t.Fatalf("DELETE: %d", code)
	}
	reqs := s.Requests()
	if len(reqs) != 4 || reqs[0].Op != "put" || reqs[0].Bytes != 5 || reqs[3].Op != "delete" || reqs[1].Status != 200 {
		t.Fatalf("record: %+v", reqs)
	}
}

func TestListPages(t *testing.T) {
	s := New(Options{Bucket: "b"})
	defer s.Close()
	c := client(s)
	defer c.CloseIdleConnections()
	for i := range 5 {
		s.Put(fmt.Sprintf("p/%d", i), []byte("x"))
	}
	s.Put("q/1", nil)
	_, one := do(t, c, "GET", s.Endpoint()+"/b?list-type=2&prefix=p/&max-keys=3", nil)
	_, two := do(t, c, "GET", s.Endpoint()+"/b?list-type=2&prefix=p/&max-keys=3&start-after=p/2", nil)
	if !strings.Contains(one, "<IsTruncated>true</IsTruncated>") || strings.Count(one, "<Key>") != 3 {
		t.Errorf("page 1: %s", one)
	}
	if !strings.Contains(two, "<IsTruncated>false</IsTruncated>") || strings.Count(two, "<Key>") != 2 || strings.Contains(two, "q/1") {
		t.Errorf("page 2: %s", two)
	}
}

func TestMultipart(t *testing.T) {
	s := New(Options{Bucket: "b", ETag: func(data []byte) string { return fmt.Sprintf("tag-%d", len(data)) }})
	defer s.Close()
	c := client(s)
	defer c.CloseIdleConnections()
	url := s.Endpoint() + "/b/k"
	_, text := do(t, c, "POST", url+"?uploads=", nil)
	if !strings.Contains(text, "<UploadId>upload-1</UploadId>") {
		t.Fatalf("create: %s", text)
	}
	big := bytes.Repeat([]byte("x"), minPart)
	do(t, c, "PUT", url+"?uploadId=upload-1&partNumber=1", big)
	do(t, c, "PUT", url+"?uploadId=upload-1&partNumber=2", []byte("end"))
	list := func(tags ...string) []byte {
		var b strings.Builder
		b.WriteString("<CompleteMultipartUpload>")
		for i, tag := range tags {
			fmt.Fprintf(&b, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, tag)
		}
		return []byte(b.String() + "</CompleteMultipartUpload>")
	}
	if code, text := do(t, c, "POST", url+"?uploadId=upload-1", list("tag-1", "tag-3")); code != 400 || !strings.Contains(text, "InvalidPart") {
		t.Fatalf("complete with a wrong tag: %d %s", code, text)
	}
	if s.OpenUploads() != 1 {
		t.Fatalf("open uploads: %d", s.OpenUploads())
	}
	if code, text := do(t, c, "POST", url+"?uploadId=upload-1", list(fmt.Sprintf("tag-%d", minPart), "tag-3")); code != 200 {
		t.Fatalf("complete: %d %s", code, text)
	}
	if code, _ := do(t, c, "POST", url+"?uploadId=upload-1", list("tag-3")); code != 404 {
		t.Fatalf("complete again: %d", code)
	}
	data, _ := s.Object("k")
	if len(data) != minPart+3 || s.OpenUploads() != 0 {
		t.Fatalf("object of %d bytes, %d open uploads", len(data), s.OpenUploads())
	}
}

func TestRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Bucket: "b"})
		defer s.Close()
		c := client(s)
		defer c.CloseIdleConnections()
		url := s.Endpoint() + "/b/dir/k"
		never := make(chan struct{})
		s.Script(
			Rule{Op: "put", Key: "k", Skip: 1, Times: 1, Status: 503, Code: "SlowDown", Body: "busy", Header: http.Header{"Retry-After": {"7"}}},
			Rule{Op: "put", Key: "dir/*", Skip: 1, Times: 1, Delay: time.Hour},
			Rule{Op: "put", Skip: 1, Times: 1, Cut: CutAfter},
			Rule{Op: "head", Times: 1, Hold: never},
			Rule{Op: "get", Times: 1, Cut: CutAnswer},
		)
		if code, _ := do(t, c, "PUT", url, []byte("1")); code != 200 {
			t.Errorf("first put: %d", code)
		}
		if code, text := do(t, c, "PUT", url, []byte("2")); code != 503 || !strings.Contains(text, "<Message>busy</Message>") {
			t.Errorf("second put: %d %s", code, text)
		}
		start := time.Now()
		if code, _ := do(t, c, "PUT", url, []byte("3")); code != 200 || time.Since(start) != time.Hour {
			t.Errorf("third put: %d after %v", code, time.Since(start))
		}
		if code, _ := do(t, c, "PUT", url, []byte("4444")); code != 0 {
			t.Errorf("fourth put was answered: %d", code)
		}
		if data, _ := s.Object("dir/k"); string(data) != "4444" {
			t.Errorf("the cut put left %q", data)
		}
		if code, text := do(t, c, "GET", url, nil); code != 200 || !strings.HasPrefix(text, "broken: ") {
			t.Errorf("half an answer: %d %q", code, text)
		}
		c.Timeout = time.Minute
		if code, text := do(t, c, "HEAD", url, nil); code != 0 {
			t.Errorf("held head: %d %s", code, text)
		}
		if code, _ := do(t, c, "HEAD", url, nil); code != 200 {
			t.Errorf("head: %d", code)
		}
	})
}

// A server that is closed while requests are held ends them and leaves no goroutine.
func TestCloseEndsHeldRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Bucket: "b"})
		c := client(s)
		s.Script(Rule{Hold: make(chan struct{})})
		done := make(chan int)
		go func() {
			code, _ := do(t, c, "PUT", s.Endpoint()+"/b/k", []byte("x"))
			done <- code
		}()
		synctest.Wait()
		s.Close()
		if code := <-done; code != 0 {
			t.Errorf("answered %d", code)
		}
		s.Close()
		if _, err := s.Dial(t.Context(), "", ""); err == nil {
			t.Error("a closed server accepts")
		}
		c.CloseIdleConnections()
	})
}
