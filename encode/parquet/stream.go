package parquet

import (
	"context"
	"io"

	"queen/encode/rows"
	"queen/stages"
)

// stream is one reading of the bodies of a window, from front to back. rows.Pump pushes what it read; who writes columns asks for it when their
// turn comes, and reads no further ahead than the pump's buffers go.
type stream struct {
	pieces chan []byte   // handed on by the pump, in order; closed when it has ended
	free   chan struct{} // the piece that was handed on last is read
	err    error         // of the pump, once pieces is closed
	held   bool          // the pump waits for free
	piece  []byte        // the rest of the one that is held
	cancel context.CancelFunc
}

// open starts to read the rows as f formats them. The stream must be closed.
func open(ctx context.Context, r rows.Rows, f func(rows.Room) rows.Formatter) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{pieces: make(chan []byte), free: make(chan struct{}, 1), cancel: cancel}
	hand := writerFunc(func(p []byte) (int, error) {
		select {
		case s.pieces <- p:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		select {
		case <-s.free: // the pump needs the piece for what comes next
			return len(p), nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
	go func() {
		defer close(s.pieces)
		s.err = stages.Guard(func() error { return rows.Pump(ctx, hand, r, f) })
	}()
	return s
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// more makes sure that piece holds something, and returns io.EOF when all is read. What piece held before must not be touched any more.
func (s *stream) more() error {
	for len(s.piece) == 0 {
		if s.held {
			s.held = false
			s.free <- struct{}{}
		}
		p, ok := <-s.pieces
		if !ok {
			if s.err != nil {
				return s.err
			}
			return io.EOF
		}
		s.held, s.piece = true, p
	}
	return nil
}

// close ends the reading; its goroutines have ended when it returns.
func (s *stream) close() {
	s.cancel()
	for range s.pieces {
	}
}
