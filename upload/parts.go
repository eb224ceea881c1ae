package upload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"

	"queen/stages"
)

// Limits of multipart uploads.
const (
	// MinPart and MaxPart bound the size of every part but the last, bytes: the protocol takes none below, and more makes no upload
	// faster. It does not shape the object's bytes, only how they travel.
	MinPart = 5 << 20
	MaxPart = 16 << 20
	// partsInFlight is how many parts of one object travel at once.
	partsInFlight = 2
	// maxParts is the protocol's limit on parts of one upload.
	maxParts = 10_000
)

// span is one part: the chunks of it, and their hash as far as it is known.
type span struct {
	chunks []stages.Chunk
	size   int64
	first  bool      // it begins where the object does, so the object's hash is its own and no byte is hashed twice
	sha    hash.Hash // of the first `hashed` chunks; nil = of none
	hashed int
	sum    string // of all of it, hex; "" = not known yet
}

func (s *span) add(c stages.Chunk) {
	s.chunks = append(s.chunks, c)
	s.size += int64(len(c.Data))
}

// digest hashes what has come since it was called last.
func (s *span) digest() {
	if s.sha == nil {
		s.sha = sha256.New()
	}
	for ; s.hashed < len(s.chunks); s.hashed++ {
		s.sha.Write(s.chunks[s.hashed].Data)
	}
}

// sha256 returns the hash of the whole span.
func (s *span) sha256() string {
	if s.sum == "" {
		s.digest()
		s.sum = hex.EncodeToString(s.sha.Sum(nil))
	}
	return s.sum
}

func (s *span) data() [][]byte {
	out := make([][]byte, len(s.chunks))
	for i, c := range s.chunks {
		out[i] = c.Data
	}
	return out
}

// release gives the chunks back: nothing reads them any more.
func (s *span) release() {
	for _, c := range s.chunks {
		c.Release()
	}
	s.chunks = nil
}

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

// send starts the next part and waits only for room. It takes the span over, whether it fails or not.
func (p *parts) send(s *span) error {
	n, err := p.enter()
	if err != nil {
		s.release()
		return err
	}
	p.group.Go(func() {
		etag, err := p.c.part(p.ctx, p.key, p.id, int32(n+1), s.data(), s.sha256())
		s.release()
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

// enter waits for room for one more part and returns its number, from 0.
func (p *parts) enter() (n int, err error) {
	select {
	case p.slots <- struct{}{}:
	case <-p.ctx.Done():
	}
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	p.mu.Lock()
	n = len(p.etags)
	p.etags = append(p.etags, "")
	between := p.answered > 0
	p.mu.Unlock()
	if n >= maxParts {
		return 0, p.c.named(OpMultipartPart, p.key, fmt.Errorf("the object has more than %d parts, and no store takes more: set a smaller QUEEN_S3_TARGET_MB", maxParts))
	}
	if between {
		p.hook(PointMidUpload)
	}
	return n, nil
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
