package upload

import (
	"context"

	"queen/stages"
)

// ManifestMemory is how many bytes of chunks a manifest takes at most while a window with several objects is uploaded: one part, and the chunk that
// is filled.
const ManifestMemory = MinPart + stages.ChunkBytes

// sheet is the manifest of a window, written while its objects are: a window of 100,000 partitions has tens of megabytes of them. A short one goes in one
// request, a long one in parts of MinPart, each of which is waited for. Nothing of it is an object before finish.
type sheet struct {
	out    *object
	chunks *stages.Chunks
	buf    *stages.Buffer // being filled; nil = none yet
	n      int            // bytes in it
	text   []byte         // scratch: what is written next
	first  bool           // no object has been written
}

// newSheet starts the manifest m under its key. It sends nothing.
func newSheet(o StageOptions, key string, m *Manifest) *sheet {
	s := &sheet{chunks: o.Chunks, first: true, text: m.appendHead(nil)}
	o.Part, o.Threshold, o.Hook = MinPart, MinPart, func(string) {}
	s.out = newObject(o, key, "application/json", true, func(context.Context) error { return nil })
	s.out.alone = true
	return s
}

// object writes an entry.
func (s *sheet) object(ctx context.Context, o Object) error {
	s.text = o.append(s.text, s.first)
	s.first = false
	return s.write(ctx)
}

// finish writes what stands behind the objects and sends all that is left. When it returns nil, the store has the manifest.
func (s *sheet) finish(ctx context.Context, m *Manifest) error {
	s.text = m.appendTail(s.text)
	if err := s.write(ctx); err != nil {
		return err
	}
	if err := s.hand(ctx); err != nil {
		return err
	}
	_, err := s.out.finish(ctx)
	return err
}

// write moves text into chunks and hands on those that are full.
func (s *sheet) write(ctx context.Context) error {
	rest := s.text
	for len(rest) > 0 {
		if s.buf == nil {
			s.buf = s.chunks.Take()
		}
		n := copy(s.buf.Bytes()[s.n:], rest)
		s.n += n
		rest = rest[n:]
		if s.n == stages.ChunkBytes {
			if err := s.hand(ctx); err != nil {
				return err
			}
		}
	}
	s.text = s.text[:0]
	return nil
}

// hand hands the chunk on that is being filled.
func (s *sheet) hand(ctx context.Context) error {
	if s.buf == nil {
		return nil
	}
	c := stages.Chunk{Buffer: s.buf, Data: s.buf.Bytes()[:s.n:s.n]}
	s.buf, s.n = nil, 0
	return s.out.write(ctx, c)
}

// abort gives the manifest up if it is not finished.
func (s *sheet) abort(ctx context.Context) {
	stages.Chunk{Buffer: s.buf}.Release()
	s.buf = nil
	s.out.abort(ctx)
}
