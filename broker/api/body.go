package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// prealloc bounds what a Content-Length alone can make the broker allocate, bytes.
const prealloc = 1 << 20

// buffers is a pool of buffers of one request each. What is not put back is collected like any other.
type buffers struct{ pool sync.Pool }

// Sizes of buffers, bytes. Most requests fit the least, so that one buffer is as good as another; what is larger than keepBuffer is not kept.
const (
	leastBuffer = 64 << 10
	keepBuffer  = 1 << 20
)

// get returns an empty buffer with room for n bytes.
func (p *buffers) get(n int) []byte {
	if b, ok := p.pool.Get().(*[]byte); ok && cap(*b) >= n {
		return (*b)[:0]
	}
	return make([]byte, 0, max(n, leastBuffer))
}

// put gives a buffer back that nobody looks at any more.
func (p *buffers) put(b []byte) {
	if cap(b) > 0 && cap(b) <= keepBuffer {
		p.pool.Put(&b)
	}
}

// body reads the whole request body. One that is larger than the limit is refused before it is looked at, by its length where that
// is known.
func (s *server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return s.bodyInto(w, r, func(n int) []byte { return make([]byte, 0, n) })
}

// bodyInto is body with a buffer from get, which takes a number of bytes.
func (s *server) bodyInto(w http.ResponseWriter, r *http.Request, get func(int) []byte) ([]byte, error) {
	if r.ContentLength > s.o.MaxBody {
		return nil, s.bodyTooLarge()
	}
	size := min(max(r.ContentLength, 512), prealloc)
	b := get(int(size) + 1) // one spare byte, so that the end is seen without growing
	in := http.MaxBytesReader(w, r.Body, s.o.MaxBody)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := in.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				return nil, s.bodyTooLarge()
			}
			return nil, refuse(codeBadBody, "bad body: it ended early")
		}
	}
}

func (s *server) bodyTooLarge() error {
	return refuse(codeBodyTooLarge, fmt.Sprintf("request body is larger than %d bytes (QUEEN_MAX_BODY_BYTES)", s.o.MaxBody))
}
