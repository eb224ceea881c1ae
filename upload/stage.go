package upload

import (
	"context"
	"errors"
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
	// Describe returns the extension and the media type of a format: the registry's, which this package does not know.
	Describe func(format, compression string) (ext, contentType string, err error)
	// Hook is called at each crash point; nil does nothing.
	Hook func(point string)
}

// Stage uploads one window at a time: its object while it is still being encoded, then its manifest. Chunks come in order and
// the one marked End makes it emit what was uploaded.
//
// Invariants:
//   - A redo looks for a finished upload once more right before its first request, because the old owner's may have landed since;
//     if it is there, nothing is sent and its manifest is what is committed.
//   - The manifest is sent only after the store has answered for all of the object, and holds the hash of the bytes that were sent.
//   - Nothing is deleted. A failed upload is aborted, the one that this stage began and no other.
//   - Between windows, after a window that failed, and after Close it holds no chunk.
//
// Close must be called when the pipeline has ended: a pipeline that is cancelled calls neither Do nor Drain again.
type Stage struct {
	o     StageOptions
	cur   *current
	parts bool // the last object went up in parts: the next one probably does
}

// current is the window on its way.
type current struct {
	job  *stages.Job
	obj  *object
	done *stages.Uploaded // set when an earlier upload turned out to be finished
}

var _ stages.Stage[stages.Chunk, *stages.Uploaded] = (*Stage)(nil)

func (o *StageOptions) defaults() {
	if o.Hook == nil {
		o.Hook = func(string) {}
	}
	if o.Part == 0 {
		o.Part = MaxPart
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

// errFinished ends an object whose window turned out to be uploaded.
var errFinished = errors.New("the window is uploaded already")

// Do takes one chunk. The ctx of all chunks of a window must be that of the pipeline.
func (s *Stage) Do(ctx context.Context, in stages.Chunk, emit func(*stages.Uploaded) error) error {
	if done := in.Job.Finished; done != nil {
		in.Release()
		up := *done
		up.Job = in.Job
		return emit(&up)
	}
	if s.cur == nil {
		cur, err := s.start(in.Job)
		if err != nil {
			in.Release()
			return err
		}
		s.cur = cur
	}
	if s.cur.job != in.Job {
		in.Release()
		return fmt.Errorf("upload: a chunk of window %d in the middle of window %d", in.Job.Intent.K, s.cur.job.Intent.K)
	}
	up, err := s.take(ctx, in)
	if err != nil {
		s.cur.obj.abort(ctx)
		s.cur = nil
		return fmt.Errorf("upload window %d of queue %q: %w", in.Job.Intent.K, in.Job.Queue.Name, err)
	}
	if up == nil {
		return nil
	}
	s.cur = nil
	return emit(up)
}

// start prepares the window's object; it sends nothing.
func (s *Stage) start(job *stages.Job) (*current, error) {
	if err := s.o.Validate(); err != nil {
		return nil, err
	}
	ext, contentType, err := s.o.Describe(job.Intent.Format, job.Intent.Compression)
	if err != nil {
		return nil, fmt.Errorf("upload queue %q: %w", job.Queue.Name, err)
	}
	key, err := DataKey(job.Intent, s.o.Tenant, job.Queue.Name, ext)
	if err != nil {
		return nil, fmt.Errorf("upload queue %q: %w", job.Queue.Name, err)
	}
	cur := &current{job: job}
	cur.obj = newObject(s.o, key, contentType, !s.parts, func(ctx context.Context) error { return s.begin(ctx, cur) })
	return cur, nil
}

// begin runs right before the first request of a window.
func (s *Stage) begin(ctx context.Context, cur *current) error {
	if !cur.job.Redo {
		return nil
	}
	up, found, err := s.o.Client.Finished(ctx, s.identity(cur.job), cur.job.Intent)
	if err != nil || !found {
		return err
	}
	up.Job = cur.job
	cur.done = up
	return errFinished
}

func (s *Stage) identity(job *stages.Job) Identity {
	return Identity{Sink: s.o.Sink, Tenant: s.o.Tenant, Queue: job.Queue.Name}
}

// take handles one chunk, which is the object's or released from then on, and returns the finished window after its last.
func (s *Stage) take(ctx context.Context, in stages.Chunk) (*stages.Uploaded, error) {
	cur := s.cur
	if cur.done != nil {
		in.Release()
	} else {
		up, err := s.send(ctx, in)
		if !errors.Is(err, errFinished) {
			return up, err
		}
		cur.obj.abort(ctx)
	}
	if !in.End {
		return nil, nil
	}
	return cur.done, nil
}

func (s *Stage) send(ctx context.Context, in stages.Chunk) (*stages.Uploaded, error) {
	cur := s.cur
	if err := cur.obj.write(ctx, in); err != nil || !in.End {
		return nil, err
	}
	object, err := cur.obj.finish(ctx)
	if err != nil {
		return nil, err
	}
	s.parts = object.bytes > cur.obj.limit
	if object.parts < 2 {
		s.o.Hook(PointMidUpload)
	}
	m := s.manifest(cur, object, in.Stats)
	key := ManifestKey(cur.job.Intent.Prefix, s.o.Tenant, cur.job.Queue.Name, cur.job.Intent.K)
	if err := s.o.Client.Put(ctx, key, "application/json", m.Append(nil)); err != nil {
		return nil, err
	}
	s.o.Hook(PointAfterUpload)
	return &stages.Uploaded{Job: cur.job, Manifest: key, Records: m.Records, Bytes: m.Bytes, Lost: cur.job.Listing.Lost}, nil
}

func (s *Stage) manifest(cur *current, o sent, st stages.Stats) *Manifest {
	in := cur.job.Intent
	m := &Manifest{
		Sink: s.o.Sink, Tenant: s.o.Tenant, Queue: cur.job.Queue.Name,
		K: in.K, Start: in.Start, End: in.End,
		Format: in.Format, Compression: in.Compression, Layout: in.Layout,
		Objects: []Object{{Key: cur.obj.key, Bytes: o.bytes, Records: st.Records, SHA256: o.sha256}},
		Records: st.Records, Bytes: o.bytes, Partitions: st.Partitions,
		Writer: in.Writer, CommittedAt: in.At,
	}
	if st.Records > 0 {
		m.MinTS, m.MaxTS = &st.MinTS, &st.MaxTS
	}
	for _, l := range cur.job.Listing.Lost {
		m.Lost = append(m.Lost, Lost{Partition: l.Partition, From: l.From, To: l.To})
	}
	return m
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
		s.cur.obj.abort(ctx)
		s.cur = nil
	}
}
