package upload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Waits between the attempts of one request: full jitter in [step/10, step], step doubling from the first to the last.
const (
	firstStep = time.Second
	lastStep  = 60 * time.Second
)

// errDeadline is the cause of an attempt that took too long.
var errDeadline = errors.New("the attempt took too long")

// retry makes attempts until one succeeds, one fails for good, ctx ends, or they are used up. Each has a deadline of its own.
//
// An attempt that ran into a time limit is the last one while somebody waits for what the caller holds (Wanted): a store that accepts and never
// answers would hold it for all attempts, minutes each. Attempts that fail soon are made again here: their waits are 31 s together unless the
// store asks for more, and to give up a multipart upload for one busy answer would send all of its parts again.
//
// A refusal for good gets one more attempt at once when something has changed by it: there are other credentials, or the store's time is known.
//
// It returns nil, ctx's cause or the permit's refusal with the request named, or the *Error of the last attempt.
func (c *Client) retry(ctx context.Context, op Op, key string, attempt func(ctx context.Context) error) error {
	step, changed := firstStep, (*Error)(nil) // changed: the refusal by which something has changed
	for n := 1; ; n++ {
		if err := c.permitted(op); err != nil {
			return c.named(op, key, err)
		}
		gen := c.keys.generation()
		e, slow := c.try(ctx, op, key, attempt)
		if e == nil {
			return nil
		}
		if ctx.Err() != nil {
			return c.named(op, key, context.Cause(ctx))
		}
		if !e.Retryable && changed == nil && c.changed(ctx, e, gen) {
			changed = e
			continue
		}
		if changed != nil && e.Code == "RequestTimeTooSkewed" && changed.Code == e.Code {
			return changed // a store that refuses its own time; the first answer says how far the clocks are apart
		}
		if !e.Retryable || n >= c.o.Attempts || slow && c.o.Wanted() {
			return e
		}
		if err := sleep(ctx, max(c.jitter(step), e.RetryAfter)); err != nil {
			return c.named(op, key, err)
		}
		step = min(2*step, lastStep)
	}
}

// try makes one attempt when it is its turn. slow says that a time limit ended it.
func (c *Client) try(ctx context.Context, op Op, key string, attempt func(ctx context.Context) error) (e *Error, slow bool) {
	if op != OpMultipartAbort { // it makes the store's work less
		if err := c.brake.enter(ctx, c.o.AnswerTimeout); err != nil {
			return c.unsent(op, key, err), true
		}
		defer func() { c.brake.leave(e) }()
	}
	try, cancel := context.WithTimeoutCause(ctx, c.o.RequestTimeout, errDeadline)
	defer cancel()
	err := attempt(try)
	if err == nil {
		return nil, false
	}
	e = c.failure(op, key, err)
	late := context.Cause(try) == errDeadline
	if late && e.Status < 300 {
		e.Retryable, e.Err = true, fmt.Errorf("%w: over %v", errDeadline, c.o.RequestTimeout)
		e.Hint = c.hint(e, nil)
	}
	var limit net.Error
	return e, late || errors.As(err, &limit) && limit.Timeout()
}

// unsent is a request that did not leave.
func (c *Client) unsent(op Op, key string, why error) *Error {
	e := &Error{Op: op, Bucket: c.o.Bucket, Key: key, Retryable: true, Err: why}
	e.Hint = c.hint(e, nil)
	return e
}

// changed says that a refused request may be taken now: the SDK has seen the store's clock in its answer, or the process has other credentials.
func (c *Client) changed(ctx context.Context, e *Error, gen int) bool {
	if e.Code == "RequestTimeTooSkewed" || !refused(e) {
		return e.skew.Abs() > skewed
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.AnswerTimeout)
	defer cancel()
	return c.keys.renew(ctx, gen)
}

// permitted asks for the permit of one attempt. An upload is aborted without one: that names what this client began and nothing else, and the
// loss of the permit is what makes it due.
func (c *Client) permitted(op Op) error {
	if c.permit == nil || op == OpMultipartAbort {
		return nil
	}
	return c.permit()
}

func (c *Client) jitter(step time.Duration) time.Duration {
	low := step / 10
	return low + time.Duration(c.o.Random()*float64(step-low))
}

// sleep waits for d or returns the cause of ctx's end.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
