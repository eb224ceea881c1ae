package upload

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// abortTimeout bounds the clean-up of an upload that failed: it must outlive the cancel that made it fail, and end soon.
const abortTimeout = 10 * time.Second

// errNoETag is an answer without the tag that completing the upload needs.
var errNoETag = errors.New("its answer has no ETag")

// create begins a multipart upload. Encryption is asked for here and nowhere else in it.
func (c *Client) create(ctx context.Context, key, contentType string) (id string, err error) {
	err = c.retry(ctx, OpMultipartCreate, key, func(ctx context.Context) error {
		out, err := c.api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
			Bucket: aws.String(c.o.Bucket), Key: aws.String(key),
			ContentType:          aws.String(contentType),
			ServerSideEncryption: types.ServerSideEncryption(c.o.SSE),
			SSEKMSKeyId:          c.kmsKey(),
		})
		if err != nil {
			return err
		}
		if id = aws.ToString(out.UploadId); id == "" {
			return &shortAnswer{http.StatusOK, errors.New("its answer has no upload id")}
		}
		return nil
	})
	return id, err
}

// part sends part number n (from 1), whose hash is sha256Hex, and returns its tag as the store wrote it: an opaque string, never a checksum.
// Nothing reads the chunks any more when it has returned.
func (c *Client) part(ctx context.Context, key, id string, n int32, chunks [][]byte, sha256Hex string) (etag string, err error) {
	err = c.retry(ctx, OpMultipartPart, key, func(ctx context.Context) error {
		b := newBody(chunks)
		defer b.detach()
		out, err := c.api.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: aws.String(c.o.Bucket), Key: aws.String(key), UploadId: aws.String(id), PartNumber: aws.Int32(n),
			ContentLength: aws.Int64(b.size), Body: b,
		}, signedHash(sha256Hex))
		if err != nil {
			return err
		}
		if etag = aws.ToString(out.ETag); etag == "" {
			return &shortAnswer{http.StatusOK, errNoETag}
		}
		return nil
	})
	return etag, err
}

// complete joins the parts. A good status proves nothing: the answer can be an error document, and one attempt can have landed
// whose answer was lost, so that the next finds no such upload. Then the object decides: it is there with all its bytes, or it
// is not.
func (c *Client) complete(ctx context.Context, key, id string, etags []string, size int64) error {
	parts := make([]types.CompletedPart, len(etags))
	for i, tag := range etags {
		parts[i] = types.CompletedPart{ETag: aws.String(tag), PartNumber: aws.Int32(int32(i + 1))}
	}
	tries := 0
	err := c.retry(ctx, OpMultipartComplete, key, func(ctx context.Context) error {
		tries++
		out, err := c.api.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: aws.String(c.o.Bucket), Key: aws.String(key), UploadId: aws.String(id),
			MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
		})
		if err == nil {
			err = checkCompleted(aws.ToString(out.ETag), len(parts))
		}
		return err
	})
	var e *Error
	if tries < 2 || !errors.As(err, &e) || e.Code != "NoSuchUpload" {
		return err
	}
	got, found, headErr := c.Head(ctx, key)
	switch {
	case headErr != nil:
		return headErr
	case !found || got != size:
		e.Retryable = true // a new upload of the same bytes settles it
		e.Hint = fmt.Sprintf("the upload is gone and the object is not whole: it has %d of %d bytes; it is begun anew", got, size)
		return e
	}
	return nil
}

// checkCompleted looks at the tag of a completed upload. Tags are opaque; but one that is a digest and the number of its parts, as most are,
// must not name another number: then what was completed is not what was sent.
func checkCompleted(etag string, parts int) error {
	if etag == "" {
		return &shortAnswer{http.StatusOK, errNoETag}
	}
	digest, count, _ := strings.Cut(strings.Trim(etag, `"`), "-")
	_, notHex := hex.DecodeString(digest)
	if n, err := strconv.Atoi(count); len(digest) == 32 && notHex == nil && err == nil && n != parts {
		return &shortAnswer{http.StatusOK, fmt.Errorf("its answer says that the object has %d parts, %d were sent", n, parts)}
	}
	return nil
}

// tryAbort frees the parts of an upload that this process began. Nobody waits for its outcome: what is left is what a bucket's
// lifecycle rule for incomplete uploads removes. It works although ctx has ended.
func (c *Client) tryAbort(ctx context.Context, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_ = c.retry(ctx, OpMultipartAbort, key, func(ctx context.Context) error {
		_, err := c.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
			Bucket: aws.String(c.o.Bucket), Key: aws.String(key), UploadId: aws.String(id),
		})
		return err
	})
}
