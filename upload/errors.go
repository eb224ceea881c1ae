package upload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Error is what a store, or the way to it, said to a request.
type Error struct {
	Op         Op
	Key        string
	Status     int           // HTTP status of the answer; 0 = no answer
	Code       string        // the store's own code; "" when it gave none
	Message    string        // the store's own words
	Hint       string        // what to do about it; "" when there is nothing to add
	Retryable  bool          // the same request may succeed later
	RetryAfter time.Duration // what the answer asked for, at most 60 s
	Err        error         // cause; its text is not shown when the store answered
}

// Error says in one sentence what was asked, what the store said, and what to do.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", e.Op, e.Key)
	switch {
	case e.Status == 0:
		fmt.Fprintf(&b, "no answer: %v", e.Err)
	case e.Code == "" && e.Message == "" && e.Err != nil && e.Status < 300:
		fmt.Fprintf(&b, "%d, but %v", e.Status, e.Err)
	default:
		fmt.Fprintf(&b, "%d %s", e.Status, firstOf(e.Code, http.StatusText(e.Status)))
		if e.Message != "" && e.Message != e.Code {
			fmt.Fprintf(&b, ": %s", strings.TrimRight(e.Message, "."))
		}
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

const maxRetryAfter = 60 * time.Second

// failure makes an *Error of what the SDK returned for one attempt.
func (c *Client) failure(op Op, key string, err error) *Error {
	e := &Error{Op: op, Key: key, Err: err}
	var resp *smithyhttp.ResponseError
	if errors.As(err, &resp) && resp.Response != nil {
		e.Status = resp.HTTPStatusCode()
		if s, err := strconv.Atoi(resp.Response.Header.Get("Retry-After")); err == nil && s > 0 {
			e.RetryAfter = min(time.Duration(s)*time.Second, maxRetryAfter)
		}
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		e.Code, e.Message = api.ErrorCode(), api.ErrorMessage()
	}
	if text := http.StatusText(e.Status); e.Code == "UnknownError" || e.Message == text && e.Code == strings.ReplaceAll(text, " ", "") {
		e.Code, e.Message = "", "" // the SDK's words for an answer without an error document
	}
	var send *url.Error
	if e.Status == 0 && errors.As(err, &send) {
		e.Err = send.Err // without the SDK's and the transport's words for the request, which Op and Key say already
	}
	var short *shortAnswer
	if errors.As(err, &short) {
		e.Status, e.Err = short.status, short.err
	}
	e.Retryable = retryable(e, err)
	e.Hint = c.hint(e, resp)
	return e
}

// shortAnswer is an answer with a good status that ended early or is not what it should be.
type shortAnswer struct {
	status int
	err    error
}

func (s *shortAnswer) Error() string { return s.err.Error() }

// retryable decides by what happened, not by who said it: no answer, 408, 429, 5xx and broken answers pass; every other 4xx stays.
func retryable(e *Error, err error) bool {
	switch e.Code {
	// Stores give these a status of 400, but they mean a body that was damaged or stalled on its way, or that it is too much now.
	case "RequestTimeout", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch", "SlowDown", "InternalError", "ServiceUnavailable":
		return true
	}
	switch {
	case e.Status == http.StatusRequestTimeout, e.Status == http.StatusTooManyRequests, e.Status >= 500:
		return true
	case e.Status >= 300:
		return false
	case e.Status >= 200:
		return true // a good status with an answer that cannot be read
	}
	var send *smithyhttp.RequestSendError
	var cancelled *smithy.CanceledError
	return errors.As(err, &send) || errors.As(err, &cancelled) || errors.Is(err, context.DeadlineExceeded)
}

// hint says what to do, in words (contract B8). What the store said stands beside it.
func (c *Client) hint(e *Error, resp *smithyhttp.ResponseError) string {
	if e.Status == 0 {
		return c.silenceHint(e)
	}
	switch e.Code {
	case "RequestTimeTooSkewed":
		return "this machine's clock and the store's are too far apart: set the clock, with NTP for example"
	case "InvalidAccessKeyId":
		return "the store does not know this access key"
	case "ExpiredToken", "TokenRefreshRequired":
		return "the credentials have expired: give new ones"
	case "SignatureDoesNotMatch":
		return "the secret key is wrong, the region is not the bucket's, or a proxy changes requests on the way"
	case "NoSuchBucket":
		return fmt.Sprintf("there is no bucket %q at %s: create it or correct its name", c.o.Bucket, c.o.Endpoint)
	case "KeyTooLongError", "XMinioInvalidObjectName":
		return "the key is too long or not allowed in this store: use a shorter prefix or queue name"
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "TemporaryRedirect":
		return c.regionHint(resp)
	}
	switch {
	case e.Status == http.StatusMovedPermanently, e.Status == http.StatusTemporaryRedirect:
		return c.regionHint(resp)
	case e.Status == http.StatusForbidden && strings.Contains(strings.ToLower(e.Message), "kms"):
		return "the key must allow kms:GenerateDataKey and, for multipart uploads, kms:Decrypt"
	case e.Status == http.StatusForbidden:
		return "the access key needs " + permission(e.Op) + " on this bucket and prefix; a wrong secret or clock can look the same"
	case e.Status == http.StatusNotFound && e.Op != OpMultipartPart && e.Op != OpMultipartComplete:
		return fmt.Sprintf("is there a bucket %q at %s, and is path style set as the store wants it?", c.o.Bucket, c.o.Endpoint)
	}
	return ""
}

func (c *Client) silenceHint(e *Error) string {
	var dns *net.DNSError
	switch {
	case errors.As(e.Err, &dns):
		return fmt.Sprintf("the name of the endpoint %s cannot be resolved: check the endpoint, path style and DNS", c.o.Endpoint)
	case strings.Contains(e.Err.Error(), "x509:"), strings.Contains(e.Err.Error(), "tls:"):
		return "the store's certificate is not accepted here: check the endpoint and the certificates of this machine"
	case !e.Retryable:
		return "check the endpoint, region and bucket name"
	}
	return "check that " + c.o.Endpoint + " can be reached from here"
}

func (c *Client) regionHint(resp *smithyhttp.ResponseError) string {
	if resp != nil && resp.Response != nil {
		if r := resp.Response.Header.Get("x-amz-bucket-region"); r != "" {
			return fmt.Sprintf("the bucket is in region %s, requests are signed for %s: set the region and its endpoint", r, c.o.Region)
		}
	}
	return fmt.Sprintf("the bucket is not in region %s, or its endpoint is another one: set the region and endpoint", c.o.Region)
}

// permission is the right that an operation needs.
func permission(op Op) string {
	switch op {
	case OpGet, OpHead:
		return "s3:GetObject"
	case OpList:
		return "s3:ListBucket"
	case OpMultipartAbort:
		return "s3:AbortMultipartUpload"
	default:
		return "s3:PutObject"
	}
}
