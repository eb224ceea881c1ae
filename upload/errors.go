package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Error is what a store, or the way to it, said to a request.
type Error struct {
	Op         Op
	Bucket     string
	Key        string
	Status     int           // HTTP status of the answer; 0 = no answer
	Code       string        // the store's own code; "" when it gave none
	Message    string        // the store's own words, one line, at most 300 characters
	RequestID  string        // under which the store's own log has it; "" when it gave none
	Hint       string        // what to do about it; "" when there is nothing to add
	Retryable  bool          // the same request may succeed later
	RetryAfter time.Duration // what the answer asked for, at most 60 s
	Err        error         // cause; its text is not shown when the store answered

	skew time.Duration // how far the clock that signed the request is ahead of the one that dated the answer; 0 = not known
}

// Error says in one sentence what was asked, what the store said, and what to do.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s s3://%s/%s: ", e.Op, e.Bucket, e.Key)
	switch {
	case e.Status == 0 && (!e.Retryable || errors.Is(e.Err, errBusy) || errors.As(e.Err, new(*noCredentials))):
		fmt.Fprintf(&b, "not sent: %v", e.Err)
	case e.Status == 0:
		fmt.Fprintf(&b, "no answer: %v", e.Err)
	case e.Code == "" && e.Message == "" && e.Err != nil && e.Status < 300:
		fmt.Fprintf(&b, "%d, but %v", e.Status, e.Err)
	default:
		b.WriteString(strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, firstOf(e.Code, http.StatusText(e.Status)))))
		if e.Message != "" && e.Message != e.Code {
			fmt.Fprintf(&b, ": %s", strings.TrimRight(e.Message, "."))
		}
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, ", request %s", e.RequestID)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// named says of which request an error is that no store gave.
func (c *Client) named(op Op, key string, err error) error {
	return fmt.Errorf("%s s3://%s/%s: %w", op, c.o.Bucket, key, err)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// What is kept of a store's own words, characters: it may send anything, and they go into logs and status.
const (
	maxMessage = 300
	maxWord    = 80
)

// shown makes one line of what a store wrote, at most so many characters of it.
func shown(text string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.Join(strings.Fields(text), " ") {
		if n++; n > most {
			return b.String() + "…"
		}
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
	}
	return b.String()
}

const maxRetryAfter = 60 * time.Second

// failure makes an *Error of what the SDK returned for one attempt.
func (c *Client) failure(op Op, key string, err error) *Error {
	e := &Error{Op: op, Bucket: c.o.Bucket, Key: key, Err: err}
	var resp *smithyhttp.ResponseError
	if errors.As(err, &resp) && resp.Response != nil {
		h := resp.Response.Header
		e.Status = resp.HTTPStatusCode()
		if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s > 0 {
			e.RetryAfter = min(time.Duration(s)*time.Second, maxRetryAfter)
		}
		e.skew = skew(resp.Response)
		e.RequestID = shown(firstOf(h.Get("X-Amz-Request-Id"), h.Get("X-Guploader-Uploadid")), maxWord)
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		e.Code, e.Message = shown(api.ErrorCode(), maxWord), shown(api.ErrorMessage(), maxMessage)
	}
	if text := http.StatusText(e.Status); e.Code == "UnknownError" || e.Message == text && e.Code == strings.ReplaceAll(text, " ", "") {
		e.Code, e.Message = "", "" // the SDK's words for an answer without an error document
	}
	if e.Message == "UnknownError" {
		e.Message = "" // and for a document without words
	}
	if e.Status == 0 {
		e.Err = c.silence(err)
	}
	if e.Status >= 200 && e.Status < 300 {
		e.Err = fmt.Errorf("its answer ended early: %w", resp.Err)
		if broken, ok := errors.AsType[*smithy.DeserializationError](err); ok {
			e.Err = fmt.Errorf("its answer cannot be read: %w", broken.Unwrap())
		}
	}
	var short *shortAnswer
	if errors.As(err, &short) {
		e.Status, e.Err = short.status, short.err
	}
	e.Retryable = retryable(e, err)
	e.Hint = c.hint(e, resp)
	return e
}

// silence says why there is no answer, without the SDK's and the transport's words for the request, which Op and Key say already.
func (c *Client) silence(err error) error {
	if none, ok := errors.AsType[*noCredentials](err); ok {
		return none
	}
	send, ok := errors.AsType[*url.Error](err)
	if op, isOp := errors.AsType[*smithy.OperationError](err); !ok && isOp {
		return op.Err
	}
	if !ok {
		return err
	}
	switch {
	case send.Err == io.EOF, send.Err == io.ErrUnexpectedEOF:
		return fmt.Errorf("the connection was closed: %w", send.Err)
	case strings.HasSuffix(send.Err.Error(), "timeout awaiting response headers"):
		return fmt.Errorf("the request was taken, and no answer began within %v", c.o.AnswerTimeout)
	}
	return send.Err
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
	// And these one of 409: something else was done to the key at the same moment, a late request of our own for example.
	case "OperationAborted", "ConditionalRequestConflict":
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
	if _, ok := errors.AsType[*noCredentials](err); ok {
		return true // who gives them may be away for a moment
	}
	var send *smithyhttp.RequestSendError
	var cancelled *smithy.CanceledError
	return errors.As(err, &send) || errors.As(err, &cancelled) || errors.Is(err, context.DeadlineExceeded)
}
