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
		err = fmt.Errorf("%s %s: longer than %d bytes", OpGet, key, limit)
	}
	return data, err == nil, err
}

// Open streams an object. Its body can break in the middle, which is an error of the reader's; an object that is not there is
// an error that IsAbsent reports. For tools: the sink reads nothing large.
func (c *Client) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	out, err := c.api.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(c.o.Bucket), Key: aws.String(key)})
	if err != nil {
		return nil, c.failure(OpGet, key, err)
	}
	return out.Body, nil
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

// Probe asks whether the bucket answers: a HEAD of "<prefix>/", for which "not found" is as good as "found" (contract B8). Since a HEAD
// cannot say what was not found, or why it is refused, a GET of the same key does: a missing bucket and an unknown access key are faults, named
// with the store's own code. Each is one attempt; whoever probes decides when to ask again.
func (c *Client) Probe(ctx context.Context, prefix string) error {
	key := prefix + "/"
	try, cancel := context.WithTimeoutCause(ctx, c.o.AnswerTimeout, errDeadline)
	defer cancel()
	_, err := c.api.HeadObject(try, &s3.HeadObjectInput{Bucket: aws.String(c.o.Bucket), Key: aws.String(key)})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", OpHead, key, context.Cause(ctx))
	}
	head := c.failure(OpHead, key, err)
	if !absent(head) && head.Status != http.StatusForbidden {
		return head
	}
	out, err := c.api.GetObject(try, &s3.GetObjectInput{Bucket: aws.String(c.o.Bucket), Key: aws.String(key)})
	var get *Error
	if err == nil {
		err = out.Body.Close()
	} else if get = c.failure(OpGet, key, err); absent(get) || head.Status == http.StatusNotFound && hidden(get) == nil {
		err, get = nil, nil
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s %s: %w", OpGet, key, context.Cause(ctx))
	case get != nil && (head.Status == http.StatusNotFound || get.Code != ""):
		return get
	case head.Status == http.StatusForbidden:
		return head
	}
	return err
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
