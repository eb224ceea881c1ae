package stages

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestChunks(t *testing.T) {
	var c Chunks
	a, b := c.Take(), c.Take()
	if a == b || &a.Bytes()[0] == &b.Bytes()[0] || len(a.Bytes()) != ChunkBytes || c.Out() != 2*ChunkBytes {
		t.Errorf("two buffers of %d and %d bytes, %d out", len(a.Bytes()), len(b.Bytes()), c.Out())
	}
	Chunk{Buffer: a, Data: a.Bytes()[:3]}.Release()
	Chunk{}.Release() // has nothing to give back
	if c.Out() != ChunkBytes {
		t.Errorf("%d bytes out", c.Out())
	}
	again := c.Take()
	if again == b {
		t.Error("a buffer was given to two")
	}
	Chunk{Buffer: again}.Release()
	Chunk{Buffer: b}.Release()
	defer func() {
		if recover() == nil || c.Out() != 0 {
			t.Errorf("released twice, %d bytes out", c.Out())
		}
	}()
	Chunk{Buffer: b}.Release()
}

// passing hands its input on, and fails with err behind the first when it has one.
type passing struct{ err error }

func (p passing) Do(_ context.Context, in Chunk, emit func(Chunk) error) error {
	if err := emit(in); err != nil {
		return err
	}
	return p.err
}

func (passing) Drain(context.Context, func(Chunk) error) error { return nil }

// Whatever stops a pipeline, what lies on its edges and what cannot be handed on is released, once.
func TestWhatIsThrownAwayIsReleased(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		stage  error // of the stage in the middle
		end    error // of the sink
		cancel bool  // while the sink stands still
	}{"cancelled": {cancel: true}, "a stage fails": {stage: boom}, "the end fails": {end: boom}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				var pool Chunks
				r := NewRun(ctx)
				made := 0
				go func() {
					synctest.Wait()
					if c.cancel {
						cancel(boom)
					}
				}()
				Source(r, "source", func(_ context.Context, emit func(Chunk) error) error {
					for {
						made++
						if err := emit(Chunk{Buffer: pool.Take()}); err != nil {
							return err
						}
					}
				}).
					Via(Via(r, "first", passing{}, 3)).
					Via(Via(r, "second", passing{c.stage}, 2)).
					To(Sink(r, "end", func(ctx context.Context, in Chunk) error {
						defer in.Release()
						if c.end == nil {
							<-ctx.Done()
						}
						return c.end
					}))
				if err := r.Wait(); !errors.Is(err, boom) {
					t.Errorf("got %v", err)
				}
				if made == 0 || pool.Out() != 0 {
					t.Errorf("%d bytes of %d chunks never came back", pool.Out(), made)
				}
				cancel(nil)
			})
		})
	}
}
