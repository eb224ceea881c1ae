package encode

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"queen/stages"
)

func job(l *log, f Format) *stages.Job {
	list := l.listing()
	list.Queue = 9
	return &stages.Job{
		Queue:   stages.QueueInfo{ID: 9, Name: "orders"},
		Intent:  stages.Intent{K: 4, Format: f.Name(), Compression: f.Compression(), Level: f.Level(), Encoder: f.Encoder(), Layout: "merged"},
		Listing: list,
		Sorted:  list.Appends,
	}
}

func newStage(t *testing.T, l *log, chunks *stages.Chunks) *Stage {
	return New(Lookup, func(ctx context.Context, list *stages.Listing, appends []stages.Append, into func(int, stages.Body) error) error {
		if list.Queue != 9 {
			t.Errorf("reads queue %d", list.Queue)
		}
		return l.read(ctx, appends, into)
	}, 2, chunks, "t")
}

// The chunks of a job are its object, cut at each MiB, with the counts on the last.
func TestStageChunks(t *testing.T) {
	for _, f := range formats(t) {
		l := large(11, 12_000)
		want, stats := encode(t, f, l, 1)
		j := job(l, f)
		var got []byte
		ended := false
		chunks := &stages.Chunks{}
		err := newStage(t, l, chunks).Do(t.Context(), j, func(c stages.Chunk) error {
			if c.Job != j || ended || !c.End && len(c.Data) != 1<<20 || len(c.Data) > 1<<20 {
				t.Errorf("%s: a chunk of %d bytes, end %v", f.Ext(), len(c.Data), c.End)
			}
			if ended = c.End; ended && c.Stats != stats {
				t.Errorf("%s: stats %+v", f.Ext(), c.Stats)
			}
			got = append(got, c.Data...)
			if chunks.Out() > stages.ChunkBytes {
				t.Errorf("%s: %d bytes are out", f.Ext(), chunks.Out())
			}
			c.Release()
			return nil
		})
		if chunks.Out() != 0 {
			t.Errorf("%s: %d bytes are out at the end", f.Ext(), chunks.Out())
		}
		if err != nil || !ended || !bytes.Equal(got, want) || len(got) < 1<<20 {
			t.Errorf("%s: %v, ended %v, %d bytes of %d", f.Ext(), err, ended, len(got), len(want))
		}
	}
}

// A chunk belongs to its receiver until he releases it: nothing writes to it meanwhile.
func TestChunksAreNotShared(t *testing.T) {
	l := large(11, 12_000)
	f, _ := Lookup("jsonl", "none")
	var kept, copies [][]byte
	err := newStage(t, l, &stages.Chunks{}).Do(t.Context(), job(l, f), func(c stages.Chunk) error {
		kept = append(kept, c.Data)
		copies = append(copies, bytes.Clone(c.Data))
		return nil
	})
	if err != nil || len(kept) < 5 {
		t.Fatal(err, len(kept))
	}
	for i := range kept {
		if !bytes.Equal(kept[i], copies[i]) {
			t.Errorf("chunk %d changed", i)
		}
	}
}

// A window that is in the bucket already passes as one empty end.
func TestStageFinishedJob(t *testing.T) {
	j := &stages.Job{Finished: &stages.Uploaded{}}
	n := 0
	err := New(Lookup, nil, 1, &stages.Chunks{}, "t").Do(t.Context(), j, func(c stages.Chunk) error {
		n++
		if c.Job != j || !c.End || c.Data != nil {
			t.Errorf("%+v", c)
		}
		return nil
	})
	if err != nil || n != 1 {
		t.Error(err, n)
	}
}

// An intent decides the encoder; one that this binary does not have is refused by name, before a body is read.
func TestStageRefusesOtherEncoders(t *testing.T) {
	l := odd()
	f, _ := Lookup("jsonl", "gzip")
	read := func(context.Context, *stages.Listing, []stages.Append, func(int, stages.Body) error) error {
		t.Error("a body was read")
		return nil
	}
	emit := func(stages.Chunk) error {
		t.Error("a chunk was emitted")
		return nil
	}
	var enc *EncoderError
	var unknown *UnknownError
	j := job(l, f)
	j.Intent.Encoder = "klauspost/compress v9"
	if err := New(Lookup, read, 1, &stages.Chunks{}, "t").Do(t.Context(), j, emit); !errors.As(err, &enc) || enc.K != 4 || enc.Want != "klauspost/compress v9" || enc.Have != f.Encoder() {
		t.Errorf("other encoder: %v", err)
	}
	j = job(l, f)
	j.Intent.Level = 9
	if err := New(Lookup, read, 1, &stages.Chunks{}, "t").Do(t.Context(), j, emit); !errors.As(err, &enc) {
		t.Errorf("other level: %v", err)
	}
	j = job(l, f)
	j.Intent.Format = "avro"
	if err := New(Lookup, read, 1, &stages.Chunks{}, "t").Do(t.Context(), j, emit); !errors.As(err, &unknown) || unknown.Format != "avro" {
		t.Errorf("other format: %v", err)
	}
}

// When the pipeline stops, Do returns its reason and nothing is emitted any more.
func TestStageStops(t *testing.T) {
	boom := errors.New("boom")
	for _, f := range formats(t) {
		synctest.Test(t, func(t *testing.T) {
			l := large(11, 6_000)
			returned := false
			chunks := &stages.Chunks{}
			err := newStage(t, l, chunks).Do(t.Context(), job(l, f), func(c stages.Chunk) error {
				if returned {
					t.Error("emitted after the end")
				}
				c.Release()
				return boom
			})
			returned = true
			if !errors.Is(err, boom) || chunks.Out() != 0 {
				t.Errorf("%s: %v, %d bytes are out", f.Ext(), err, chunks.Out())
			}
			synctest.Wait()
		})
	}
	if err := newStage(t, nil, nil).Drain(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
