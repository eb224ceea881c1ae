package upload

import (
	"context"

	"queen/stages"
)

// SidecarMemory is how many bytes of chunks a sidecar takes at most: one part, and the chunk that is filled.
const SidecarMemory = MinPart + stages.ChunkBytes

// ManifestMemory is what the manifest takes while a window with several objects is uploaded.
const ManifestMemory = SidecarMemory

// Sidecar is an object that stands beside the data: a manifest or a checkpoint, written from front to back in little memory. A short one goes in one
// request, a long one in parts of MinPart, each of which is waited for. Nothing of it is an object before Finish.
type Sidecar struct {
	out    *object
	chunks *stages.Chunks
	buf    *stages.Buffer // being filled; nil = none yet
	n      int            // bytes in it
}

// NewSidecar starts an object. It sends nothing.
func NewSidecar(o StageOptions, key, contentType string) *Sidecar {
	o.defaults()
	s := &Sidecar{chunks: o.Chunks}
	o.Part, o.Threshold, o.Hook = MinPart, MinPart, func(string) {}
	s.out = newObject(o, key, contentType, true, func(context.Context) error { return nil })
	s.out.alone = true
	return s
}

// Write moves text into chunks and hands on those that are full.
func (s *Sidecar) Write(ctx context.Context, text []byte) error {
	for len(text) > 0 {
		if s.buf == nil {
			s.buf = s.chunks.Take()
		}
		n := copy(s.buf.Bytes()[s.n:], text)
		s.n += n
		text = text[n:]
		if s.n == stages.ChunkBytes {
			if err := s.hand(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// hand hands the chunk on that is being filled.
func (s *Sidecar) hand(ctx context.Context) error {
	if s.buf == nil {
		return nil
	}
	c := stages.Chunk{Buffer: s.buf, Data: s.buf.Bytes()[:s.n:s.n]}
	s.buf, s.n = nil, 0
	return s.out.write(ctx, c)
}

// Finish sends all that is left. When it returns nil, the store has the object.
func (s *Sidecar) Finish(ctx context.Context) error {
	if err := s.hand(ctx); err != nil {
		return err
	}
	_, err := s.out.finish(ctx)
	return err
}

// Abort gives the object up if it is not finished, and everything back that is held for it.
func (s *Sidecar) Abort(ctx context.Context) {
	stages.Chunk{Buffer: s.buf}.Release()
	s.buf = nil
	s.out.abort(ctx)
}
