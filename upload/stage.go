package upload

import (
	"context"
	"fmt"

	"queen/stages"
)

// The crash points of this package (contract S15).
const (
	PointMidUpload   = "mid_upload"   // between two parts; for an object of one request: behind it, before the manifest
	PointAfterUpload = "after_upload" // behind the manifest
)

// StageOptions are what a sink knows about its uploads.
type StageOptions struct {
	Client       *Client
	Sink, Tenant string
	// Threshold is the size in bytes up to which an object is held in memory and sent in one PUT; three parts are the most whatever it says.
	Threshold int64
	// Part is the size in bytes of every part but the last, a whole number of chunks from MinPart to MaxPart; 0 = MaxPart. With Threshold
	// it decides what the stage holds (Memory).
	Part int64
	// Chunks is where the memory for manifests comes from; nil = a pool of its own.
	Chunks *stages.Chunks
	// Describe returns the extension and the media type of a format: the registry's, which this package does not know.
	Describe func(format, compression string) (ext, contentType string, err error)
	// Hook is called at each crash point; nil does nothing.
	Hook func(point string)
}

// Stage uploads one window at a time: its objects while they are still being encoded (window.go), then its manifest. Chunks come in order and
// the one marked End makes it emit what was uploaded.
//
// Invariants:
//   - A redo looks for a finished upload once more right before its first request, because the old owner's may have landed since;
//     if it is there, nothing is sent and its manifest is what is committed.
//   - The manifest is there only after the store has answered for all of every object, and holds the hashes of the bytes that were sent. (Parts of a
//     long one travel before: they are no object until the upload is completed, which is done last.)
//   - Nothing is deleted. A failed upload is aborted, the one that this stage began and no other.
//   - While a window has one object the stage holds at most Memory, else ManifestMemory more, however many objects it has.
//   - Between windows, after a window that failed, and after Close it holds no chunk.
//
// Close must be called when the pipeline has ended: a pipeline that is cancelled calls neither Do nor Drain again.
type Stage struct {
	o     StageOptions
	cur   *current
	parts bool // the last object went up in parts: the next one probably does
}

var _ stages.Stage[stages.Chunk, *stages.Uploaded] = (*Stage)(nil)

func (o *StageOptions) defaults() {
	if o.Hook == nil {
		o.Hook = func(string) {}
	}
	if o.Part == 0 {
		o.Part = MaxPart
	}
	if o.Chunks == nil {
		o.Chunks = &stages.Chunks{}
	}
}

// Validate reports a part size that no upload can have.
func (o *StageOptions) Validate() error {
	if o.Part != 0 && (o.Part < MinPart || o.Part > MaxPart || o.Part%stages.ChunkBytes != 0) {
		return fmt.Errorf("upload: parts of %d bytes: want a multiple of %d from %d to %d", o.Part, stages.ChunkBytes, MinPart, MaxPart)
	}
	return nil
}

// NewStage returns the stage; it does nothing yet. Options that are not valid fail its first window.
func NewStage(o StageOptions) *Stage {
	o.defaults()
	return &Stage{o: o}
}

// Do takes one chunk. The ctx of all chunks of a window must be that of the pipeline.
func (s *Stage) Do(ctx context.Context, in stages.Chunk, emit func(*stages.Uploaded) error) error {
	if done := in.Job.Finished; done != nil {
		in.Release()
		up := *done
		up.Job = in.Job
		return emit(&up)
	}
	if s.cur == nil {
		cur, err := s.start(ctx, in.Job)
		if err != nil {
			in.Release()
			return fmt.Errorf("upload queue %q: %w", in.Job.Queue.Name, err)
		}
		s.cur = cur
	}
	if s.cur.job != in.Job {
		in.Release()
		return fmt.Errorf("upload: a chunk of window %d in the middle of window %d", in.Job.Intent.K, s.cur.job.Intent.K)
	}
	if err := s.cur.take(ctx, in); err != nil {
		s.cur.abort(ctx)
		s.cur = nil
		return fmt.Errorf("upload window %d of queue %q: %w", in.Job.Intent.K, in.Job.Queue.Name, err)
	}
	if !in.End {
		return nil
	}
	up := s.cur.done
	s.cur = nil
	return emit(up)
}

// Drain has nothing to hand on; a window that did not come to its end is given up.
func (s *Stage) Drain(ctx context.Context, _ func(*stages.Uploaded) error) error {
	if s.cur == nil {
		return nil
	}
	k := s.cur.job.Intent.K
	s.Close(ctx)
	return fmt.Errorf("upload: window %d ended in the middle", k)
}

// Close gives up the window on its way, if there is one: it waits for the stage's goroutines and aborts the upload it began, which
// takes at most some seconds, although ctx has ended. It is safe to call twice.
func (s *Stage) Close(ctx context.Context) {
	if s.cur != nil {
		s.cur.abort(ctx)
		s.cur = nil
	}
}
