package codec

import (
	"io"
	"sync"
	"sync/atomic"
)

// compressor is a library's encoder of one stream after the other.
type compressor interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// spare keeps compressors for the next object: to make one takes up to 24 MB of fresh memory, to reset one nothing.
//
// Invariants:
//   - A compressor serves one object at a time, and only one whose last object it ended well is kept: what a failed one still holds nobody knows.
//   - One that is kept writes the bytes that a new one would (TestReusedEncoders); it has forgotten where it wrote to.
//   - As many are kept as worked side by side, until the collector of garbage has come twice without one being asked for.
type spare struct{ free sync.Pool }

// writer starts an object with a compressor that is kept, or else with a new one.
func (s *spare) writer(w io.Writer, fresh func(io.Writer) (compressor, error)) (Writer, error) {
	g := &gate{w: w}
	if z, ok := s.free.Get().(compressor); ok {
		z.Reset(g)
		return &stream{z: z, gate: g, spare: s}, nil
	}
	z, err := fresh(g)
	if err != nil {
		return nil, err
	}
	return &stream{z: z, gate: g, spare: s}, nil
}

// stream is one object on its way through a compressor. It hides what else the compressor can do: a ReadFrom, which cuts its blocks where the
// reader pauses, would write other bytes.
type stream struct {
	z     compressor // nil once the object has ended
	gate  *gate
	spare *spare
}

var _ Writer = (*stream)(nil)

func (s *stream) Write(p []byte) (int, error) {
	if s.z == nil {
		return 0, io.ErrClosedPipe
	}
	return s.z.Write(p)
}

// Close ends the object. After an error of it the compressor is not used again.
func (s *stream) Close() error {
	if s.z == nil {
		return nil
	}
	z := s.z
	s.z = nil
	if err := z.Close(); err != nil {
		return err
	}
	z.Reset(nil)
	s.spare.free.Put(z)
	return nil
}

func (s *stream) Abort() {
	if s.z == nil {
		return
	}
	s.gate.shut.Store(true)
	_ = s.z.Close() // its only news is that the gate is shut
	s.z = nil
}

// gate stands between a compressor and the object, so that Abort can end a compressor that still has something to say.
type gate struct {
	w    io.Writer
	shut atomic.Bool
}

func (g *gate) Write(p []byte) (int, error) {
	if g.shut.Load() {
		return 0, io.ErrClosedPipe
	}
	return g.w.Write(p)
}
