package upload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// probeReach is how long connecting and sending may take a probe.
const probeReach = 5 * time.Second

// Probe asks whether the bucket answers: a HEAD of "<prefix>/", for which "not found" is as good as "found" (contract B8). Since a HEAD
// cannot say what was not found, or why it is refused, a GET of the same key does: a missing bucket and an unknown access key are faults, named
// with the store's own code. Each is one attempt; whoever probes decides when to ask again.
//
// A clock that is wrong is learned from the answer (the SDK signs with the store's time from then on), so a refused HEAD is then made once more.
func (c *Client) Probe(ctx context.Context, prefix string) error {
	key := prefix + "/"
	limit := c.o.AnswerTimeout + probeReach // so that an answer that does not begin is told from a request that is not taken
	try, cancel := context.WithTimeoutCause(ctx, limit, errDeadline)
	defer cancel()
	gen := c.keys.generation()
	err := c.probeHead(try, key)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return c.named(OpHead, key, context.Cause(ctx))
	}
	head := c.failure(OpHead, key, err)
	if head.Status < 300 && context.Cause(try) == errDeadline {
		head.Retryable, head.Err = true, fmt.Errorf("none came within %v", limit)
		head.Hint = c.hint(head, nil)
	}
	if head.Status < 300 || head.Retryable {
		return head
	}
	get := c.probeGet(try, key)
	if absent(get) || head.Status == http.StatusNotFound && hidden(get) == nil {
		get = nil
	}
	if get, ok := errors.AsType[*Error](get); ok && refused(get) && c.keys.renew(try, gen) {
		return c.Probe(ctx, prefix)
	}
	e, _ := errors.AsType[*Error](get)
	switch {
	case ctx.Err() != nil:
		return c.named(OpGet, key, context.Cause(ctx))
	case e != nil && (head.Status == http.StatusNotFound || e.Code != ""):
		return e
	case head.Status != http.StatusNotFound:
		return head
	}
	return get
}

// skewed is how far a clock must be off to be taken for the reason of a refusal.
const skewed = 4 * time.Minute

func (c *Client) probeHead(ctx context.Context, key string) error {
	in := &s3.HeadObjectInput{Bucket: aws.String(c.o.Bucket), Key: aws.String(key)}
	_, err := c.api.HeadObject(ctx, in)
	var resp *smithyhttp.ResponseError
	if errors.As(err, &resp) && resp.HTTPStatusCode() == http.StatusForbidden && skew(resp.Response).Abs() > skewed {
		_, err = c.api.HeadObject(ctx, in)
	}
	return err
}

// probeGet returns an *Error, or what closing the answer said.
func (c *Client) probeGet(ctx context.Context, key string) error {
	out, err := c.api.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(c.o.Bucket), Key: aws.String(key)})
	if err != nil {
		return c.failure(OpGet, key, err)
	}
	return out.Body.Close()
}
