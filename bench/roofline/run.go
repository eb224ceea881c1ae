package roofline

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"syscall"
	"time"

	"queen/encode"
	"queen/encode/codec"
	"queen/stages"
	"queen/upload"
)

// Settings are those of the sink that concern encoding and sending.
type Settings struct {
	Format, Compression string
	Readers             int   // QUEEN_S3_FETCH_CONCURRENCY
	Threshold           int64 // bytes up to which an object goes up in one PUT
	Client              upload.ClientOptions
	Prefix              string // of keys
}

// Cost is what something took.
type Cost struct {
	Wall time.Duration `json:"wall"`
	CPU  time.Duration `json:"cpu"` // of this process, all threads
}

func (c Cost) plus(d Cost) Cost { return Cost{c.Wall + d.Wall, c.CPU + d.CPU} }

// clock measures from its making on.
type clock struct {
	wall time.Time
	cpu  time.Duration
}

func begin() clock { return clock{time.Now(), used()} }

func (c clock) stop() Cost { return Cost{time.Since(c.wall), used() - c.cpu} }

// used is the processor time of this process so far.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// job is a window as the sink would begin it.
func (w *Window) job(f encode.Format, s Settings) *stages.Job {
	m := w.Manifest
	in := stages.Intent{K: m.K, Start: m.Start, End: m.End, At: m.CommittedAt, Format: f.Name(), Compression: f.Compression(), Level: f.Level(),
		Layout: m.Layout, Align: "hour", Prefix: s.Prefix, Bucket: s.Client.Bucket, Endpoint: s.Client.Endpoint, Writer: f.Writer(), Encoder: f.Encoder()}
	return &stages.Job{Queue: stages.QueueInfo{ID: 1, Name: m.Queue}, Intent: in,
		Listing: w.list, Sorted: w.appends}
}

// Send runs all windows through the pipeline's encode and upload stages. Windows follow each other without a pause: while the end of one
// is on its way, the next is already being encoded.
func Send(ctx context.Context, windows []*Window, s Settings) (Cost, error) {
	f, err := encode.Lookup(s.Format, s.Compression)
	if err != nil {
		return Cost{}, err
	}
	client, err := upload.New(s.Client)
	if err != nil {
		return Cost{}, err
	}
	defer client.Close()
	jobs := map[uint64]*Window{}
	read := func(ctx context.Context, list *stages.Listing, appends []stages.Append, into func(int, stages.Body) error) error {
		return jobs[list.K].read(ctx, appends, into)
	}
	up := upload.NewStage(upload.StageOptions{Client: client, Sink: "roofline", Tenant: stages.DefaultTenant, Threshold: s.Threshold,
		Describe: func(string, string) (string, string, error) { return f.Ext(), f.ContentType(), nil }})
	defer up.Close(ctx)
	for _, w := range windows {
		jobs[w.Manifest.K] = w
	}

	var done []*stages.Uploaded
	watch := begin()
	r := stages.NewRun(ctx)
	stages.Source(r, "memory", func(_ context.Context, emit func(*stages.Job) error) error {
		for _, w := range windows {
			if err := emit(w.job(f, s)); err != nil {
				return err
			}
		}
		return nil
	}).
		Via(stages.Via(r, "encode", encode.New(encode.NewRegistry(nil).Lookup, read, s.Readers, &stages.Chunks{}, stages.DefaultTenant), 0)).
		Via(stages.Via(r, "upload", up, 1)).
		To(stages.Sink(r, "done", func(_ context.Context, u *stages.Uploaded) error {
			done = append(done, u)
			return nil
		}))
	if err := r.Wait(); err != nil {
		return Cost{}, fmt.Errorf("roofline: %w", err)
	}
	cost := watch.stop()
	return cost, compare(windows, done)
}

// compare makes sure that the roofline made the objects that the backfill made. Their hashes are in the manifests that the server keeps;
// here it is the sizes and counts.
func compare(windows []*Window, done []*stages.Uploaded) error {
	if len(done) != len(windows) {
		return fmt.Errorf("roofline: %d of %d windows uploaded", len(done), len(windows))
	}
	for i, u := range done {
		if m := windows[i].Manifest; u.Records != m.Records || u.Bytes != m.Bytes {
			return fmt.Errorf("roofline: window %d: %d records in %d bytes, the backfill made %d in %d", m.K, u.Records, u.Bytes, m.Records, m.Bytes)
		}
	}
	return nil
}

// Bare is what encoding costs beside what the compression alone costs.
type Bare struct {
	Lines  int64 `json:"lines"`  // bytes of all lines
	Encode Cost  `json:"encode"` // records in memory to compressed bytes, through the format
	Bare   Cost  `json:"bare"`   // the finished lines through the compressor alone
}

// writeBytes is the size of the writes to the bare compressor.
const writeBytes = 1 << 20

// Compress encodes each window to nowhere, and compresses the same lines with the library alone: the codec's own constructor, which
// is the library's encoder with the options that objects are written with (codec_test.go of this package holds it to that).
func Compress(ctx context.Context, windows []*Window, s Settings) (Bare, error) {
	var b Bare
	if s.Format != "jsonl" {
		return b, nil
	}
	f, err := encode.Lookup(s.Format, s.Compression)
	if err != nil {
		return b, err
	}
	plain, err := encode.Lookup(s.Format, "none")
	if err != nil {
		return b, err
	}
	library, err := codec.Find(s.Compression)
	if err != nil {
		return b, err
	}
	for _, w := range windows {
		rows := w.rows(s.Readers)
		var lines bytes.Buffer
		lines.Grow(len(w.data) + len(w.data)/4)
		if _, err := plain.Encode(ctx, &lines, rows); err != nil {
			return b, err
		}
		b.Lines += int64(lines.Len())

		watch := begin()
		if _, err := f.Encode(ctx, io.Discard, rows); err != nil {
			return b, err
		}
		b.Encode = b.Encode.plus(watch.stop())

		watch = begin()
		if err := bare(library, lines.Bytes()); err != nil {
			return b, err
		}
		b.Bare = b.Bare.plus(watch.stop())
	}
	return b, nil
}

func bare(library codec.Codec, lines []byte) error {
	z, err := library.Writer(io.Discard)
	if err != nil {
		return err
	}
	for len(lines) > 0 {
		n := min(len(lines), writeBytes)
		if _, err := z.Write(lines[:n]); err != nil {
			z.Abort()
			return err
		}
		lines = lines[n:]
	}
	return z.Close()
}
