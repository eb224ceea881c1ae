package upload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"sync"
)

// Limits of multipart uploads.
const (
	// PartBytes is the size of every part but the last. It does not shape the object's bytes, only how they travel.
	PartBytes = 16 << 20
	// partsInFlight is how many parts of one object travel at once.
	partsInFlight = 2
	// maxParts is the protocol's limit on parts of one upload.
	maxParts = 10_000
)

// object streams one data object into a bucket: one PUT while it is not above the threshold, else parts that travel while the
// next ones are still being made.
//
// Invariants:
//   - The bytes are hashed in the order in which they came, so the hash is that of the object however it travelled.
//   - No request leaves before begin has returned nil.
//   - At most one threshold, or partsInFlight+1 parts once it is passed, is held in memory. Chunks are kept, not copied.
//   - The first failing part fails the object. Every goroutine ends before finish or abort returns.
//   - A failed object aborts the upload it created, and no other.
//
// Outline:
//
//	write   -> keep the chunk; above the threshold cut parts and send them
//	finish  -> PUT everything, or send the last part, wait, complete
//	abort   -> cancel, wait, abort the upload
type object struct {
	c           *Client
	key         string
	contentType string
	threshold   int64
	begin       func(ctx context.Context) error // once, right before the first request
	hook        func(point string)              // the crash point between two parts

	hash   hash.Hash
	size   int64
	held   [][]byte // chunks not sent yet
	heldN  int64
	upload *parts // nil until the threshold is passed
}

func newObject(c *Client, key, contentType string, threshold int64, begin func(context.Context) error, hook func(string)) *object {
	return &object{c: c, key: key, contentType: contentType, threshold: threshold, begin: begin, hook: hook, hash: sha256.New()}
}

// write takes a chunk over. It blocks while as many parts travel as may.
func (o *object) write(ctx context.Context, chunk []byte) error {
	if len(chunk) == 0 {
		return nil
	}
	o.hash.Write(chunk)
	o.size += int64(len(chunk))
	o.held = append(o.held, chunk)
	o.heldN += int64(len(chunk))
	if o.upload == nil {
		if o.size <= o.threshold {
			return nil
		}
		if err := o.open(ctx); err != nil {
			return err
		}
	}
	for o.heldN >= PartBytes {
		if err := o.upload.send(o.take(PartBytes)); err != nil {
			return err
		}
	}
	return nil
}

// take removes n bytes from what is held.
func (o *object) take(n int64) [][]byte {
	var out [][]byte
	o.heldN -= n
	for n > 0 {
		c := o.held[0]
		if int64(len(c)) > n {
			out = append(out, c[:n:n])
			o.held[0] = c[n:]
			break
		}
		out = append(out, c)
		o.held = o.held[1:]
		n -= int64(len(c))
	}
	return out
}

func (o *object) open(ctx context.Context) error {
	if err := o.begin(ctx); err != nil {
		return err
	}
	id, err := o.c.create(ctx, o.key, o.contentType)
	if err != nil {
		return err
	}
	o.upload = newParts(ctx, o.c, o.key, id, o.hook)
	return nil
}

// sum is what a manifest says of an object.
type sum struct {
	bytes  int64
	sha256 string
	parts  int // how many requests carried it
}

// finish sends what is left. When it returns nil, the store has the object.
func (o *object) finish(ctx context.Context) (sum, error) {
	s := sum{bytes: o.size, sha256: hex.EncodeToString(o.hash.Sum(nil)), parts: 1}
	if o.upload == nil {
		if o.size == 0 {
			return s, fmt.Errorf("put %s: an object without a byte is never written", o.key)
		}
		if err := o.begin(ctx); err != nil {
			return s, err
		}
		return s, o.c.put(ctx, o.key, o.contentType, newBody(o.held...), s.sha256)
	}
	if o.heldN > 0 {
		if err := o.upload.send(o.take(o.heldN)); err != nil {
			return s, err
		}
	}
	etags, err := o.upload.wait()
	if err != nil {
		return s, err
	}
	if err := o.c.complete(ctx, o.key, o.upload.id, etags, o.size); err != nil {
		return s, err
	}
	s.parts = len(etags)
	o.upload = nil // there is nothing to abort any more
	return s, nil
}

// abort ends an object that is not finished. It is safe on any object and works although ctx has ended.
func (o *object) abort(ctx context.Context) {
	o.held, o.heldN = nil, 0
	if u := o.upload; u != nil {
		o.upload = nil
		u.cancel(errAborted)
		u.group.Wait()
		o.c.tryAbort(ctx, o.key, u.id)
	}
}

var errAborted = errors.New("the upload was given up")

// parts sends the parts of one upload side by side.
type parts struct {
	c      *Client
	key    string
	id     string
	hook   func(point string)
	ctx    context.Context // of this upload: it spans several calls and ends with the first failing part
	cancel context.CancelCauseFunc
	slots  chan struct{}
	group  sync.WaitGroup

	mu       sync.Mutex
	etags    []string
	answered int
}

func newParts(ctx context.Context, c *Client, key, id string, hook func(string)) *parts {
	p := &parts{c: c, key: key, id: id, hook: hook, slots: make(chan struct{}, partsInFlight)}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

// send starts the next part and waits only for room.
func (p *parts) send(chunks [][]byte) error {
	select {
	case p.slots <- struct{}{}:
	case <-p.ctx.Done():
	}
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	p.mu.Lock()
	n := len(p.etags)
	p.etags = append(p.etags, "")
	between := p.answered > 0
	p.mu.Unlock()
	if n >= maxParts {
		return fmt.Errorf("put %s: more than %d parts of %d bytes", p.key, maxParts, PartBytes)
	}
	if between {
		p.hook(PointMidUpload)
	}
	p.group.Go(func() {
		etag, err := p.c.part(p.ctx, p.key, p.id, int32(n+1), chunks)
		if err != nil {
			p.cancel(err)
			return
		}
		p.mu.Lock()
		p.etags[n] = etag
		p.answered++
		between := p.answered < len(p.etags)
		p.mu.Unlock()
		if between {
			p.hook(PointMidUpload)
		}
		<-p.slots
	})
	return nil
}

// wait returns the tags of all parts once they are there.
func (p *parts) wait() ([]string, error) {
	p.group.Wait()
	if p.ctx.Err() != nil {
		return nil, context.Cause(p.ctx)
	}
	p.cancel(nil)
	return p.etags, nil
}
