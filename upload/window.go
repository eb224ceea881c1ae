package upload

import (
	"context"
	"errors"
	"fmt"

	"queen/stages"
)

// current is the window on its way: the object whose chunks come, those that are on their way in one request each, and the manifest.
//
// Outline:
//
//	open   -> the first chunk of an object
//	close  -> its last one: send what is left of it, note it in the manifest
//	finish -> the last chunk of the window: wait for all objects, complete the manifest
//	abort  -> give up whatever is on its way
type current struct {
	s                *Stage
	job              *stages.Job
	ext, contentType string
	m                *Manifest // without its objects
	many             bool      // the layout may make several objects
	obj              *object   // whose chunks come; nil = none
	puts             *puts     // whole objects on their way
	sheet            *sheet    // where the manifest goes
	begun            bool      // a request may be sent
	done             *stages.Uploaded
}

// errFinished ends a window that turned out to be uploaded.
var errFinished = errors.New("the window is uploaded already")

// start prepares a window; it sends nothing.
func (s *Stage) start(ctx context.Context, job *stages.Job) (*current, error) {
	if err := s.o.Validate(); err != nil {
		return nil, err
	}
	in := job.Intent
	ext, contentType, err := s.o.Describe(in.Format, in.Compression)
	if err != nil {
		return nil, err
	}
	w := &current{s: s, job: job, ext: ext, contentType: contentType, many: in.Layout != "merged",
		m: &Manifest{Sink: s.o.Sink, Tenant: s.o.Tenant, Queue: job.Queue.Name, K: in.K, Start: in.Start, End: in.End,
			Format: in.Format, Compression: in.Compression, Layout: in.Layout, Writer: in.Writer, CommittedAt: in.At}}
	for _, l := range job.Listing.Lost {
		w.m.Lost = append(w.m.Lost, Lost{Partition: l.Partition, From: l.From, To: l.To})
	}
	w.puts = newPuts(ctx, Memory(s.o.Part, s.o.Threshold)/stages.ChunkBytes-1, s.o.Hook) // the chunk that waits for room is held too
	w.sheet = newSheet(s.o, ManifestKey(in.Prefix, s.o.Tenant, job.Queue.Name, in.K), w.m)
	return w, nil
}

// take handles one chunk, which is the window's or released from then on. Behind the last one done is set.
func (w *current) take(ctx context.Context, in stages.Chunk) error {
	if w.done != nil {
		in.Release()
		return nil
	}
	err := w.send(ctx, in)
	if errors.Is(err, errFinished) {
		w.abort(ctx)
		return nil
	}
	return err
}

func (w *current) send(ctx context.Context, in stages.Chunk) error {
	if w.many && in.Object == nil { // the end of a window that holds nothing
		in.Release()
		return w.finish(ctx)
	}
	if err := w.open(in.Object); err != nil {
		in.Release()
		return err
	}
	if err := w.room(in); err != nil {
		in.Release()
		return err
	}
	if err := w.obj.write(ctx, in); err != nil || !in.Cut && !in.End {
		return err
	}
	if err := w.close(ctx, in.Object, in.Stats); err != nil || !in.End {
		return err
	}
	return w.finish(ctx)
}

// open starts an object unless one is open.
func (w *current) open(of *stages.Object) error {
	if w.obj != nil {
		return nil
	}
	n := Names{Tenant: w.s.o.Tenant, Queue: w.job.Queue.Name, Ext: w.ext, Object: of, First: stages.Beginning}
	if w.job.Listing.Records > 0 {
		n.First = w.job.Listing.MinTS
	}
	key, err := DataKey(w.job.Intent, n)
	if err != nil {
		return err
	}
	w.obj = newObject(w.s.o, key, w.contentType, !w.s.parts, w.begin)
	return nil
}

// room waits until the chunk can be held beside what is on its way. An object that goes up in parts takes all the memory that there is.
func (w *current) room(in stages.Chunk) error {
	if !w.many {
		return nil
	}
	if w.obj.upload != nil || w.obj.size+int64(len(in.Data)) > w.obj.limit {
		return w.puts.idle()
	}
	return w.puts.room(w.obj.chunks() + 1)
}

// begin runs right before the first request of a window.
func (w *current) begin(ctx context.Context) error {
	if w.begun {
		return nil
	}
	if w.job.Redo {
		up, found, err := w.s.o.Client.Finished(ctx, Identity{Sink: w.m.Sink, Tenant: w.m.Tenant, Queue: w.m.Queue}, w.job.Intent)
		if err != nil {
			return err
		}
		if found {
			up.Job = w.job
			w.done = up
			return errFinished
		}
	}
	w.begun = true
	return nil
}

// close sends what is left of an object whose chunks have all come. One of several that needs one request only gets it beside what comes next.
func (w *current) close(ctx context.Context, of *stages.Object, st stages.Stats) error {
	obj := w.obj
	s := obj.whole()
	if s.bytes == 0 && w.job.Listing.Records > 0 { // plain text of a window that holds nothing has none
		return obj.c.named(OpPut, obj.key, fmt.Errorf("the encoder made an object without a byte of a window with %d records: nothing is written", w.job.Listing.Records))
	}
	if w.many && obj.upload == nil {
		if err := w.begin(ctx); err != nil {
			return err
		}
		w.obj = nil
		if err := w.puts.start(obj); err != nil {
			return err
		}
	} else {
		parts, err := obj.finish(ctx)
		if err != nil {
			return err
		}
		w.obj = nil
		if parts < 2 {
			w.s.o.Hook(PointMidUpload)
		}
	}
	w.s.parts = s.bytes > obj.limit
	w.count(s, st)
	return w.sheet.object(ctx, Object{Key: obj.key, Bytes: s.bytes, Records: st.Records, SHA256: s.sha256, Of: of})
}

// count adds an object to the sums of the manifest.
func (w *current) count(s sent, st stages.Stats) {
	w.m.Bytes += s.bytes
	w.m.Records += st.Records
	w.m.Partitions += st.Partitions
	if st.Records == 0 {
		return
	}
	if w.m.MinTS == nil {
		w.m.MinTS, w.m.MaxTS = new(st.MinTS), new(st.MaxTS)
	}
	*w.m.MinTS, *w.m.MaxTS = min(*w.m.MinTS, st.MinTS), max(*w.m.MaxTS, st.MaxTS)
}

// finish sends the manifest once the store has answered for every object.
func (w *current) finish(ctx context.Context) error {
	if err := w.puts.idle(); err != nil {
		return err
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := w.sheet.finish(ctx, w.m); err != nil {
		return err
	}
	w.puts.stop()
	w.s.o.Hook(PointAfterUpload)
	w.done = &stages.Uploaded{Job: w.job, Manifest: w.sheet.side.out.key, Records: w.m.Records, Bytes: w.m.Bytes, Lost: w.job.Listing.Lost}
	return nil
}

// abort gives up what is on its way. It is safe at any time and works although ctx has ended.
func (w *current) abort(ctx context.Context) {
	w.puts.stop()
	if w.obj != nil {
		w.obj.abort(ctx)
		w.obj = nil
	}
	w.sheet.abort(ctx)
}
