package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// prealloc bounds what a Content-Length alone can make the broker allocate, bytes.
const prealloc = 1 << 20

// body reads the whole request body. One that is larger than the limit is refused before it is looked at, by its length where that
// is known.
func (s *server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > s.o.MaxBody {
		return nil, s.bodyTooLarge()
	}
	size := min(max(r.ContentLength, 512), prealloc)
	b := make([]byte, 0, size+1) // one spare byte, so that the end is seen without growing
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
