package upload

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/internal/fakes3"
	"queen/stages"
)

// encoder stands for the stage in front: it makes a window of n chunks, and fails behind the last when it shall.
type encoder struct {
	pool *stages.Chunks
	n    int
	err  error
}

var _ stages.Stage[*stages.Job, stages.Chunk] = encoder{}

func (e encoder) Do(_ context.Context, job *stages.Job, emit func(stages.Chunk) error) error {
	for i := range e.n {
		b := e.pool.Take()
		if err := emit(stages.Chunk{Job: job, Data: b.Bytes(), Buffer: b, End: i == e.n-1 && e.err == nil}); err != nil {
			return err
		}
	}
	return e.err
}

func (encoder) Drain(context.Context, func(stages.Chunk) error) error { return nil }

// However a window dies, and wherever its chunks are then (the encoder's hand, the edge, a part that hangs, a part that waits), all of them come
// back, once the pipeline has ended and the stage is closed.
func TestDeadWindowsGiveEverythingBack(t *testing.T) {
	gone := errors.New("the lease is lost")
	for _, c := range []struct {
		name   string
		rule   func() fakes3.Rule
		deaf   bool
		chunks int
		enc    error
		redo   bool
		says   string
	}{
		{name: "a part has no answer", rule: func() fakes3.Rule { return fakes3.Rule{Op: "multipart_part", Hold: make(chan struct{})} }, chunks: 40, says: gone.Error()},
		{name: "a part is not read", rule: func() fakes3.Rule { return fakes3.Rule{Op: "multipart_part", Stall: make(chan struct{})} }, chunks: 40, says: gone.Error()},
		{name: "the upload is never begun", rule: func() fakes3.Rule { return fakes3.Rule{Op: "multipart_create", Hold: make(chan struct{})} }, chunks: 40, says: gone.Error()},
		{name: "a PUT has no answer", rule: func() fakes3.Rule { return fakes3.Rule{Op: "put", Hold: make(chan struct{})} }, chunks: 4, says: gone.Error()},
		{name: "a PUT is not read", rule: func() fakes3.Rule { return fakes3.Rule{Op: "put", Stall: make(chan struct{})} }, chunks: 4, says: gone.Error()},
		{name: "deaf", rule: func() fakes3.Rule { return fakes3.Rule{} }, deaf: true, chunks: 40, says: gone.Error()},
		{name: "a part is refused", rule: func() fakes3.Rule { return fakes3.Rule{Op: "multipart_part", Part: 2, Status: 403} }, chunks: 40, says: "403"},
		{name: "a PUT is refused", rule: func() fakes3.Rule { return fakes3.Rule{Op: "put", Status: 403} }, chunks: 4, says: "403"},
		{name: "complete is refused", rule: func() fakes3.Rule { return fakes3.Rule{Op: "multipart_complete", Status: 403} }, chunks: 40, says: "403"},
		{name: "the look before it is refused", rule: func() fakes3.Rule { return fakes3.Rule{Op: "get", Status: 400} }, chunks: 40, redo: true, says: "400"},
		{name: "the encoder fails", rule: func() fakes3.Rule { return fakes3.Rule{} }, chunks: 33, enc: errors.New("a body is damaged"), says: "a body is damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t, fakes3.Options{}, nil)
				b.s3.Script(c.rule())
				b.s3.Deaf(c.deaf)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(30*time.Second, func() { cancel(gone) })
				var pool stages.Chunks
				job := testJob()
				job.Redo = c.redo
				up := NewStage(StageOptions{Client: b.Client, Tenant: testTenant, Part: 5 << 20, Threshold: 64 << 20, Describe: describe})
				r := stages.NewRun(ctx)
				stages.Source(r, "job", func(_ context.Context, emit func(*stages.Job) error) error { return emit(job) }).
					Via(stages.Via(r, "encode", encoder{&pool, c.chunks, c.enc}, 0)).
					Via(stages.Via(r, "upload", up, 1)).
					To(stages.Sink(r, "done", func(context.Context, *stages.Uploaded) error { return nil }))
				err := r.Wait()
				up.Close(ctx)
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v", err)
				}
				if n := pool.Out(); n != 0 {
					t.Errorf("%d bytes never came back", n)
				}
				if n := b.s3.OpenUploads(); n != 0 && !c.deaf && c.name != "the upload is never begun" {
					t.Errorf("%d uploads are open", n)
				}
			})
		})
	}
}

// A window that turns out to be uploaded needs no memory: not for what came before, and not for what still comes.
func TestFinishedWindowHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		s := NewStage(StageOptions{Client: b.Client, Sink: "default", Tenant: testTenant, Part: 5 << 20, Threshold: 5 << 20, Describe: describe})
		if _, err := send(t.Context(), s, testJob(), pattern(7<<20)); err != nil {
			t.Fatal(err)
		}
		job := testJob()
		job.Redo = true
		var pool stages.Chunks
		for i, d := range chunked(pattern(9<<20), stages.ChunkBytes) {
			if err := s.Do(t.Context(), taken(&pool, job, d), nil); err != nil {
				t.Fatal(err)
			}
			if want := int64(i+1) << 20; i >= 5 && pool.Out() != 0 || i < 5 && pool.Out() != want {
				t.Errorf("%d bytes are held after chunk %d", pool.Out(), i)
			}
		}
		s.Close(t.Context())
	})
	var pool stages.Chunks // and one that was known to be uploaded
	job := testJob()
	job.Finished = &stages.Uploaded{}
	if err := NewStage(StageOptions{}).Do(t.Context(), taken(&pool, job, []byte("x")), func(*stages.Uploaded) error { return nil }); err != nil {
		t.Error(err)
	}
	atRest(&pool)
}

// Memory goes round: windows one after the other take no more of it than one, or not much: under the race detector a pool throws a quarter of
// what it is given away.
func TestChunksGoRound(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection may empty the pool
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		s := NewStage(StageOptions{Client: b.Client, Sink: "default", Tenant: testTenant, Part: 5 << 20, Threshold: 5 << 20, Describe: describe})
		var pool stages.Chunks
		seen := map[string]bool{}
		for range 3 {
			job := testJob()
			for i, d := range chunked(pattern(20<<20), stages.ChunkBytes) {
				in := taken(&pool, job, d)
				seen[fmt.Sprintf("%p", in.Data)] = true
				in.End = i == 19
				if err := s.Do(t.Context(), in, func(*stages.Uploaded) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(seen) > 45 {
			t.Errorf("%d chunks for 3 windows of 20", len(seen))
		}
	})
}
