package encode

import (
	"context"
	"fmt"

	"queen/stages"
)

// ReadFunc reads bodies of appends of a listing, as stages.Log.Bodies does.
type ReadFunc func(ctx context.Context, list *stages.Listing, appends []stages.Append, into func(i int, body stages.Body) error) error

// EncoderError says that a window's intent pins an encoder which this binary does not have: it would write other bytes under
// the same key. The intent must be rewritten behind the fence first (contract B1).
type EncoderError struct {
	K          uint64
	Want, Have string // encoder ids of the intent and of this binary
}

func (e *EncoderError) Error() string {
	return fmt.Sprintf("window %d: its intent asks for the encoder %q, this version has %q", e.K, e.Want, e.Have)
}

// Stage encodes one job at a time and hands its objects on, one after the other (layout.go), in chunks of stages.ChunkBytes. It uses the intent's
// format and layout, never a setting. Beside the encoder and what is read ahead it holds one chunk: the one that is being filled or handed on.
//
// The chunks of a job come in order; the last one of an object has Cut or End and Stats set and may be shorter or empty. A job whose upload an
// earlier life finished passes as one such chunk, without data. Do returns after the encoder has ended, so a job that failed
// sends nothing any more. Emit is called by the encoder's goroutine, one call at a time.
type Stage struct {
	lookup  func(format, compression string) (Format, error)
	read    ReadFunc
	readers int
	chunks  *stages.Chunks
	tenant  string
}

var _ stages.Stage[*stages.Job, stages.Chunk] = (*Stage)(nil)

// New returns the stage for the queues of a tenant. readers is how many body reads are in flight while a job is encoded, at least 1; chunks is where
// the memory of what it emits comes from, and emit takes a chunk over whether it fails or not.
func New(lookup func(format, compression string) (Format, error), read ReadFunc, readers int, chunks *stages.Chunks, tenant string) *Stage {
	return &Stage{lookup: lookup, read: read, readers: readers, chunks: chunks, tenant: tenant}
}

// Check reports whether this binary can write the window of an intent as the intent wants it: nil, an *UnknownError or an
// *EncoderError.
func Check(lookup func(format, compression string) (Format, error), in stages.Intent) (Format, error) {
	f, err := lookup(in.Format, in.Compression)
	if err != nil {
		return nil, err
	}
	if _, err := layoutOf(in.Layout); err != nil {
		return nil, err
	}
	if f.Encoder() != in.Encoder || f.Level() != in.Level {
		return nil, &EncoderError{K: in.K, Want: in.Encoder, Have: f.Encoder()}
	}
	return f, nil
}

// Do encodes one job.
func (s *Stage) Do(ctx context.Context, job *stages.Job, emit func(stages.Chunk) error) error {
	if job.Finished != nil {
		return emit(stages.Chunk{Job: job, End: true})
	}
	f, err := Check(s.lookup, job.Intent)
	if err != nil {
		return fmt.Errorf("encode queue %q: %w", job.Queue.Name, err)
	}
	w := &chunker{job: job, emit: emit, chunks: s.chunks}
	defer w.release()
	if err := s.objects(ctx, f, w); err != nil {
		return fmt.Errorf("encode window %d of queue %q: %w", job.Intent.K, job.Queue.Name, err)
	}
	return nil
}

// Drain has nothing to hand on: Do ends each object.
func (s *Stage) Drain(context.Context, func(stages.Chunk) error) error { return nil }

// chunker cuts what an encoder writes into chunks of exactly stages.ChunkBytes. Each has memory of its own until its receiver releases it.
type chunker struct {
	job    *stages.Job
	emit   func(stages.Chunk) error
	chunks *stages.Chunks
	object *stages.Object // that is written
	buf    *stages.Buffer // being filled; nil = none yet
	n      int            // bytes in it
}

func (c *chunker) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if c.buf == nil {
			c.buf = c.chunks.Take()
		}
		m := copy(c.buf.Bytes()[c.n:], p)
		c.n += m
		p = p[m:]
		if c.n == stages.ChunkBytes {
			if err := c.emit(c.take()); err != nil {
				return n - len(p), err
			}
		}
	}
	return n, nil
}

// take returns what is filled and forgets it.
func (c *chunker) take() stages.Chunk {
	out := stages.Chunk{Job: c.job, Object: c.object, Buffer: c.buf}
	if c.buf != nil {
		out.Data = c.buf.Bytes()[:c.n:c.n]
	}
	c.buf, c.n = nil, 0
	return out
}

// release gives up what is not handed on.
func (c *chunker) release() { c.take().Release() }
