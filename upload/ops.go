package upload

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Put writes one object in one request. Content-MD5 lets the store refuse a body that was damaged on its way.
func (c *Client) Put(ctx context.Context, key, contentType string, data []byte) error {
	sha, sum := sha256.Sum256(data), md5.Sum(data)
	return c.put(ctx, key, contentType, [][]byte{data}, digests{hex.EncodeToString(sha[:]), base64.StdEncoding.EncodeToString(sum[:])})
}

// digests are what a request says of its body.
type digests struct {
	sha256 string // hex
	md5    string // base64
}

// put sends chunks as one object. Nothing reads them any more when it has returned.
func (c *Client) put(ctx context.Context, key, contentType string, chunks [][]byte, sums digests) error {
	return c.retry(ctx, OpPut, key, func(ctx context.Context) error {
		b := newBody(chunks)
		defer b.detach()
		out, err := c.api.PutObject(ctx, &s3.PutObjectInput{
			Bucket: aws.String(c.o.Bucket), Key: aws.String(key),
			Body: b, ContentLength: aws.Int64(b.size),
			ContentType:          aws.String(contentType),
			ContentMD5:           aws.String(sums.md5),
			ServerSideEncryption: types.ServerSideEncryption(c.o.SSE),
			SSEKMSKeyId:          c.kmsKey(),
		}, signedHash(sums.sha256))
		if err == nil && aws.ToString(out.ETag) == "" {
			return &shortAnswer{http.StatusOK, errNoETag} // no store says so of an object that it has: something between answered
		}
		return err
	})
}

func (c *Client) kmsKey() *string {
	if c.o.KMSKeyID == "" {
		return nil
	}
	return aws.String(c.o.KMSKeyID)
}

// Get reads an object of at most limit bytes into memory. An object that is not there is found=false and no error.
func (c *Client) Get(ctx context.Context, key string, limit int64) (data []byte, found bool, err error) {
	err = c.retry(ctx, OpGet, key, func(ctx context.Context) error {
		out, err := c.api.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(c.o.Bucket), Key: aws.String(key)})
		if err != nil {
			return err
		}
		defer out.Body.Close()
		data, err = io.ReadAll(io.LimitReader(out.Body, limit+1))
		if err != nil {
			return &shortAnswer{http.StatusOK, fmt.Errorf("its body ended early: %w", err)}
		}
		return nil
	})
	if absent(err) {
		return nil, false, nil
	}
	if err == nil && int64(len(data)) > limit {
		err = c.named(OpGet, key, fmt.Errorf("the object is longer than the %d bytes that are read of one: something else than queen wrote it", limit))
	}
	return data, err == nil, err
}

// Open streams an object. Its body can break in the middle, or no byte of it may come for AnswerTimeout, which is an error of the reader's;
// an object that is not there is an error that IsAbsent reports. For tools: the sink reads nothing large.
func (c *Client) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	idle := time.AfterFunc(c.o.AnswerTimeout, func() { cancel(errIdle) })
	out, err := c.api.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(c.o.Bucket), Key: aws.String(key)})
	if err != nil {
		idle.Stop()
		defer cancel(nil)
		if context.Cause(ctx) == errIdle {
			return nil, c.unsent(OpGet, key, fmt.Errorf("%w: over %v", errDeadline, c.o.AnswerTimeout))
		}
		return nil, c.failure(OpGet, key, err)
	}
	return &watched{out.Body, ctx, cancel, idle, c.o.AnswerTimeout, func(err error) error { return c.named(OpGet, key, err) }}, nil
}

// errIdle is a body of which nothing comes any more.
var errIdle = errors.New("the object has stopped in the middle")

// watched is a body that is given up when no byte of it comes for a while.
type watched struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   *time.Timer
	limit  time.Duration
	named  func(error) error
}

func (w *watched) Read(p []byte) (int, error) {
	w.idle.Reset(w.limit)
	n, err := w.ReadCloser.Read(p)
	w.idle.Stop()
	if err != nil && context.Cause(w.ctx) == errIdle {
		err = w.named(fmt.Errorf("%w: no byte of it has come for %v", errIdle, w.limit))
	}
	return n, err
}

func (w *watched) Close() error {
	w.idle.Stop()
	w.cancel(nil)
	return w.ReadCloser.Close()
}

// IsAbsent reports whether err says that an object does not exist.
func IsAbsent(err error) bool { return absent(err) }

// absent: the store must say that the key is not there. Some say 404 of a bucket or of an access key that they do not know. The answer to a
// HEAD has no body, so that its status is all it says.
func absent(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound && (e.Code == "" || e.Code == "NoSuchKey" || e.Code == "NotFound")
}

// Head returns the size of an object. One that is not there is found=false and no error.
func (c *Client) Head(ctx context.Context, key string) (size int64, found bool, err error) {
	err = c.retry(ctx, OpHead, key, func(ctx context.Context) error {
		out, err := c.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String(c.o.Bucket), Key: aws.String(key)})
		if err == nil {
			size = aws.ToInt64(out.ContentLength)
		}
		return err
	})
	if absent(err) {
		return 0, false, nil
	}
	return size, err == nil, err
}

// Listed is one object of a listing.
type Listed struct {
	Key  string
	Size int64
}

// List yields the objects under a prefix in key order, from the first key behind `after`. For tools and the audit: nothing that
// the sink commits depends on a listing (contract S2).
func (c *Client) List(ctx context.Context, prefix, after string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		for {
			var out *s3.ListObjectsV2Output
			err := c.retry(ctx, OpList, prefix, func(ctx context.Context) (err error) {
				in := &s3.ListObjectsV2Input{Bucket: aws.String(c.o.Bucket), Prefix: aws.String(prefix), MaxKeys: aws.Int32(1000)}
				if after != "" {
					in.StartAfter = aws.String(after)
				}
				out, err = c.api.ListObjectsV2(ctx, in)
				return err
			})
			if err != nil {
				yield(Listed{}, err)
				return
			}
			for _, o := range out.Contents {
				after = aws.ToString(o.Key)
				if !yield(Listed{Key: after, Size: aws.ToInt64(o.Size)}, nil) {
					return
				}
			}
			if !aws.ToBool(out.IsTruncated) || len(out.Contents) == 0 {
				return
			}
		}
	}
}
