package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Op names a request as the metric queen_s3_s3_requests_total does.
type Op string

// All operations.
const (
	OpPut               Op = "put"
	OpGet               Op = "get"
	OpHead              Op = "head"
	OpList              Op = "list"
	OpDelete            Op = "delete" // never sent: the sink deletes nothing
	OpMultipartCreate   Op = "multipart_create"
	OpMultipartPart     Op = "multipart_part"
	OpMultipartComplete Op = "multipart_complete"
	OpMultipartAbort    Op = "multipart_abort"
)

// opOf reads the operation off a request, so that what is counted is what went over the wire.
func opOf(r *http.Request) Op {
	q := r.URL.Query()
	switch r.Method {
	case http.MethodHead:
		return OpHead
	case http.MethodGet:
		if q.Has("list-type") {
			return OpList
		}
		return OpGet
	case http.MethodPost:
		if q.Has("uploads") {
			return OpMultipartCreate
		}
		return OpMultipartComplete
	case http.MethodDelete:
		if q.Has("uploadId") {
			return OpMultipartAbort
		}
		return OpDelete
	default:
		if q.Has("partNumber") {
			return OpMultipartPart
		}
		return OpPut
	}
}

// observer counts requests by operation and status.
type observer struct {
	next http.RoundTripper
	seen func(op Op, code int)
}

var _ http.RoundTripper = (*observer)(nil)

func (o *observer) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.next.RoundTrip(r)
	if err != nil {
		o.seen(opOf(r), 0)
		return nil, err
	}
	op := opOf(r)
	o.seen(op, resp.StatusCode)
	if op != OpGet || resp.StatusCode >= 300 {
		resp.Body = &document{resp.Body, maxDocument}
	}
	return resp, nil
}

// maxDocument bounds an answer that is not an object, bytes: whatever answers, such an answer is read into memory whole. The largest there is is
// a page of a listing, 1000 keys of 1 KiB.
const maxDocument = 16 << 20

// document is the body of such an answer.
type document struct {
	io.ReadCloser
	left int64
}

func (d *document) Read(p []byte) (int, error) {
	if d.left <= 0 {
		return 0, errLongAnswer
	}
	n, err := d.ReadCloser.Read(p[:min(int64(len(p)), d.left)])
	d.left -= int64(n)
	return n, err
}

var errLongAnswer = fmt.Errorf("its answer is longer than %d MiB", maxDocument>>20)

// apiOptions change the SDK's requests where stores differ from the one it was made for.
func apiOptions() []func(*middleware.Stack) error {
	return []func(*middleware.Stack) error{
		// Front ends of some stores rewrite Accept-Encoding on the way, so it must not be signed; the SDK would. Without it nothing
		// asks for a compressed answer, since the transport does not either.
		func(s *middleware.Stack) error {
			return s.Finalize.Insert(finalize("queenUnsignedHeaders", func(ctx context.Context, r *smithyhttp.Request) context.Context {
				r.Header.Del("Accept-Encoding")
				r.Header.Del("Amz-Sdk-Invocation-Id")
				r.Header.Del("Amz-Sdk-Request")
				return ctx
			}), "Signing", middleware.Before)
		},
	}
}

// signedHash makes a request carry and sign this hash of its body, over TLS too, and saves the SDK from hashing it again for each
// attempt.
func signedHash(sha256Hex string) func(*s3.Options) {
	return func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
			return s.Finalize.Add(finalize("queenPayloadHash", func(ctx context.Context, _ *smithyhttp.Request) context.Context {
				return v4.SetPayloadHash(ctx, sha256Hex)
			}), middleware.Before)
		})
	}
}

func finalize(id string, change func(context.Context, *smithyhttp.Request) context.Context) middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc(id, func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
		middleware.FinalizeOutput, middleware.Metadata, error,
	) {
		r, ok := in.Request.(*smithyhttp.Request)
		if !ok {
			return middleware.FinalizeOutput{}, middleware.Metadata{}, fmt.Errorf("%s: request is a %T", id, in.Request)
		}
		return next.HandleFinalize(change(ctx, r), in)
	})
}

// body reads a list of chunks as one stream that can be rewound, so that an object need not be joined and an attempt can be
// made again from its first byte.
//
// An attempt can be over while the transport still sends its body: the store answered early, or the attempt was cancelled. So whoever made the
// attempt detaches the body when it returns, and from then on no byte of the chunks is read: they may be another window's by now. (This version
// of the SDK closes its hold on a body too; whose memory it is must not depend on that.)
type body struct {
	size int64

	mu     sync.Mutex
	chunks [][]byte
	gone   bool
	at     int64 // position of the stream
	chunk  int   // the chunk that at lies in
	off    int   // and where in it
}

var _ io.ReadSeeker = (*body)(nil)

// errDetached is what a transport finds that reads the body of an attempt which is over.
var errDetached = errors.New("the attempt that this body belongs to is over")

func newBody(chunks [][]byte) *body {
	b := &body{chunks: chunks}
	for _, c := range chunks {
		b.size += int64(len(c))
	}
	return b
}

// detach waits for a read that is under way; later ones fail.
func (b *body) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chunks, b.gone = nil, true
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return 0, errDetached
	}
	for b.chunk < len(b.chunks) && b.off == len(b.chunks[b.chunk]) {
		b.chunk, b.off = b.chunk+1, 0
	}
	if b.chunk == len(b.chunks) {
		return 0, io.EOF
	}
	n := copy(p, b.chunks[b.chunk][b.off:])
	b.off += n
	b.at += int64(n)
	return n, nil
}

func (b *body) Seek(offset int64, whence int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += b.size
	}
	if offset < 0 || offset > b.size {
		return 0, fmt.Errorf("seek to %d of %d bytes", offset, b.size)
	}
	b.at, b.chunk, b.off = offset, 0, 0
	for left := offset; b.chunk < len(b.chunks); b.chunk++ {
		if left <= int64(len(b.chunks[b.chunk])) {
			b.off = int(left)
			break
		}
		left -= int64(len(b.chunks[b.chunk]))
	}
	return b.at, nil
}
