package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"queen/internal/fakes3"
	"queen/stages"
)

// The transcripts in testdata/stage print every request of a window in the order in which it arrived, parts that travel together by
// their numbers. DATA and MANIFEST stand for the two keys, which TestKeys pins. Commands:
//
//	upload bytes=<n> threshold=<n> [redo] [lost] [script=<name>]
func TestTranscripts(t *testing.T) {
	datadriven.RunTest(t, "testdata/stage", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		synctest.Test(t, func(t *testing.T) {
			var size, threshold int
			var script string
			d.ScanArgs(t, "bytes", &size)
			d.ScanArgs(t, "threshold", &threshold)
			if d.HasArg("script") {
				d.ScanArgs(t, "script", &script)
			}
			b := newBucket(t, fakes3.Options{}, nil)
			b.s3.Script(scripts(script)...)
			job := testJob()
			job.Redo = d.HasArg("redo")
			if d.HasArg("lost") {
				job.Listing.Lost = []stages.Range{{Partition: `p"1`, From: 0, To: 59}}
			}
			var mu sync.Mutex
			s := newTestStage(b, int64(threshold), func(point string) {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintf(&out, "point %s behind request %d\n", point, len(b.s3.Requests()))
			})
			start := time.Now()
			up, err := send(t.Context(), s, job, pattern(size))
			s.Close(t.Context())
			out.WriteString(transcript(b.s3.Requests(), "Content-Type", "Content-Md5"))
			fmt.Fprintf(&out, "after %v: ", time.Since(start))
			if err != nil {
				fmt.Fprintf(&out, "error: %v\n", err)
			} else {
				fmt.Fprintf(&out, "records=%d bytes=%d lost=%d manifest=%s\n", up.Records, up.Bytes, len(up.Lost), up.Manifest)
			}
			text, _ := b.s3.Object(testManifest)
			fmt.Fprintf(&out, "manifest %s\nopen uploads %d\n", text, b.s3.OpenUploads())
			if data, ok := b.s3.Object(testData); err == nil && (!ok || !bytes.Equal(data, pattern(size))) {
				t.Errorf("the object has %d bytes of %d", len(data), size)
			}
		})
		return strings.NewReplacer(testData, "DATA", testManifest, "MANIFEST").Replace(out.String())
	})
}

// slowParts delays the answers to parts 1, 2 and so on by these seconds.
func slowParts(seconds ...int) []fakes3.Rule {
	var out []fakes3.Rule
	for i, d := range seconds {
		out = append(out, fakes3.Rule{Op: "multipart_part", Part: i + 1, Delay: time.Duration(d) * time.Second})
	}
	return out
}

// scripts are the store's behaviours in the transcripts. Each part is answered at a time of its own, so that the transcript is
// always the same.
func scripts(name string) []fakes3.Rule {
	switch name {
	case "":
		return nil
	case "one-by-one":
		return slowParts(1, 3, 5)
	case "late-first-part":
		return slowParts(5, 1, 2)
	case "part-refused":
		refused := fakes3.Rule{Op: "multipart_part", Part: 2, Delay: time.Second, Status: 403, Code: "AccessDenied", Body: "Access Denied"}
		return append([]fakes3.Rule{refused}, slowParts(2)...)
	case "put-busy":
		return []fakes3.Rule{{Op: "put", Times: 2, Status: 503, Code: "SlowDown", Body: "slow down"}}
	case "manifest-refused":
		return []fakes3.Rule{{Op: "put", Key: "0000000001.json", Status: 403, Code: "AccessDenied", Body: "Access Denied"}}
	}
	panic("no script " + name)
}

// P8: a complete that answers 200 with an error document is tried again, and the object decides when the upload is gone.
func TestP8CompleteAnswersErrorWith200(t *testing.T) {
	const broken = `<?xml version="1.0" encoding="UTF-8"?>` + "\n<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"
	for _, c := range []struct {
		name    string
		rules   []fakes3.Rule
		fails   string // "" = the window is uploaded
		request string
	}{
		{"twice, then it works", []fakes3.Rule{{Op: "multipart_complete", Times: 2, Status: 200, Body: broken}}, "",
			"multipart_complete multipart_complete multipart_complete put"},
		{"it had landed", []fakes3.Rule{{Op: "multipart_complete", Times: 1, Status: 200, Body: broken, Apply: true}}, "",
			"multipart_complete multipart_complete head put"},
		{"the answer was lost", []fakes3.Rule{{Op: "multipart_complete", Times: 1, Cut: fakes3.CutAfter}}, "",
			"multipart_complete multipart_complete head put"},
		{"an answer without a tag", []fakes3.Rule{{Op: "multipart_complete", Times: 1, Status: 200, Body: "<CompleteMultipartUploadResult/>"}}, "",
			"multipart_complete multipart_complete put"},
		{"half an answer", []fakes3.Rule{{Op: "multipart_complete", Times: 1, Cut: fakes3.CutAnswer}}, "",
			"multipart_complete multipart_complete head put"},
		{"gone at once", []fakes3.Rule{{Op: "multipart_complete", Status: 404, Code: "NoSuchUpload"}}, "404 NoSuchUpload",
			"multipart_complete multipart_abort"},
		{"gone, and no object", []fakes3.Rule{{Op: "multipart_complete", Times: 1, Status: 500}, {Op: "multipart_complete", Status: 404, Code: "NoSuchUpload"}}, "the object is not whole",
			"multipart_complete multipart_complete head multipart_abort"},
		{"never", []fakes3.Rule{{Op: "multipart_complete", Status: 200, Body: broken}}, "InternalError",
			strings.Repeat("multipart_complete ", 6) + "multipart_abort"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t, fakes3.Options{}, nil)
				b.s3.Script(c.rules...)
				data := pattern(17 << 20)
				_, err := send(t.Context(), newTestStage(b, 5<<20, nil), testJob(), data)
				_, manifest := b.s3.Object(testManifest)
				if c.fails != "" {
					if err == nil || !strings.Contains(err.Error(), c.fails) || manifest {
						t.Errorf("got %v, manifest %v", err, manifest)
					}
				} else if got, _ := b.s3.Object(testData); err != nil || !bytes.Equal(got, data) || !manifest {
					t.Errorf("got %v, %d bytes, manifest %v", err, len(got), manifest)
				}
				const before = "multipart_create multipart_part multipart_part "
				if got := strings.TrimPrefix(ops(b.s3.Requests()), before); got != c.request {
					t.Errorf("requests: %s", got)
				}
			})
		})
	}
}

// P34: a cancelled upload is aborted although its context has ended; uploads of others are not touched.
func TestP34AbortOutlivesTheCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		foreign, err := b.create(t.Context(), testData, "application/zstd")
		if err != nil {
			t.Fatal(err)
		}
		b.s3.Script(fakes3.Rule{Op: "multipart_part", Hold: make(chan struct{})})
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("fenced")
		time.AfterFunc(time.Second, func() { cancel(cause) })
		_, err = send(ctx, newTestStage(b, 5<<20, nil), testJob(), pattern(100<<20))
		if !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
		reqs := b.s3.Requests()
		last := reqs[len(reqs)-1]
		if last.Op != "multipart_abort" || last.Status != 204 || last.Query.Get("uploadId") == foreign {
			t.Errorf("requests: %s", transcript(reqs))
		}
		if b.s3.OpenUploads() != 1 {
			t.Errorf("%d open uploads, want the foreign one", b.s3.OpenUploads())
		}
	})
}

// P34: a pipeline that is cancelled between two chunks calls its stages no more; Close gives the upload up.
func TestP34CloseAborts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		s := newTestStage(b, 5<<20, nil)
		ctx, cancel := context.WithCancel(t.Context())
		job := testJob()
		for _, c := range chunked(pattern(20<<20), 1<<20) {
			if err := s.Do(ctx, stages.Chunk{Job: job, Data: c}, nil); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		s.Close(ctx)
		s.Close(ctx)
		if b.s3.OpenUploads() != 0 {
			t.Errorf("%d open uploads: %s", b.s3.OpenUploads(), transcript(b.s3.Requests()))
		}
		if err := s.Drain(ctx, nil); err != nil {
			t.Errorf("drain of nothing: %v", err)
		}
	})
}

func TestDrainRefusesHalfAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		s := newTestStage(b, 5<<20, nil)
		if err := s.Do(t.Context(), stages.Chunk{Job: testJob(), Data: []byte("x")}, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Drain(t.Context(), nil); err == nil {
			t.Error("half a window drained")
		}
		if n := len(b.s3.Requests()); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// A window that an earlier life uploaded passes without a request.
func TestFinishedJobPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		job := testJob()
		job.Finished = &stages.Uploaded{Manifest: testManifest, Records: 3, Bytes: 207}
		var got *stages.Uploaded
		err := newTestStage(b, 5<<20, nil).Do(t.Context(), stages.Chunk{Job: job, End: true}, func(u *stages.Uploaded) error { got = u; return nil })
		if err != nil || got == nil || got.Job != job || got.Records != 3 || got.Bytes != 207 || len(b.s3.Requests()) != 0 {
			t.Errorf("%+v, %v, %d requests", got, err, len(b.s3.Requests()))
		}
	})
}

// The same job sends the same bytes under the same keys, whatever the threshold and however often it is done.
func TestRedoIsIdentical(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		data := pattern(18 << 20)
		var first []byte
		for i, threshold := range []int64{64 << 20, 5 << 20, 18 << 20} {
			if _, err := send(t.Context(), newTestStage(b, threshold, nil), testJob(), data); err != nil {
				t.Fatal(err)
			}
			manifest, _ := b.s3.Object(testManifest)
			if i == 0 {
				first = manifest
			}
			object, _ := b.s3.Object(testData)
			if !bytes.Equal(object, data) || !bytes.Equal(manifest, first) || len(b.s3.Keys()) != 2 {
				t.Errorf("threshold %d: %q\n%s", threshold, b.s3.Keys(), manifest)
			}
		}
	})
}

// A redo whose window was finished by the old owner meanwhile sends nothing and commits from that manifest (both paths).
func TestRedoFindsAFinishedUpload(t *testing.T) {
	for _, threshold := range []int64{64 << 20, 5 << 20} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, nil)
			data := pattern(20 << 20)
			if _, err := send(t.Context(), newTestStage(b, threshold, nil), testJob(), data); err != nil {
				t.Fatal(err)
			}
			n := len(b.s3.Requests())
			job := testJob()
			job.Redo = true
			points := 0
			up, err := send(t.Context(), newTestStage(b, threshold, func(string) { points++ }), job, data)
			if err != nil || up.Records != 3 || up.Bytes != 20<<20 || up.Job != job || points != 0 {
				t.Errorf("%+v, %v, %d points", up, err, points)
			}
			if got := ops(b.s3.Requests()[n:]); got != "get" {
				t.Errorf("requests: %s", got)
			}
		})
	}
}

// What counts as a finished upload of an intent.
func TestFinished(t *testing.T) {
	id := Identity{Sink: "default", Tenant: testTenant, Queue: "orders"}
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		look := func(id Identity, in stages.Intent) (bool, error) {
			_, found, err := b.Finished(t.Context(), id, in)
			return found, err
		}
		if found, err := look(id, testIntent()); found || err != nil {
			t.Errorf("nothing there: %v %v", found, err)
		}
		job := testJob()
		job.Listing.Lost = []stages.Range{{Partition: "p", From: 1, To: 2}}
		if _, err := send(t.Context(), newTestStage(b, 5<<20, nil), job, pattern(1000)); err != nil {
			t.Fatal(err)
		}
		up, found, err := b.Finished(t.Context(), id, testIntent())
		if err != nil || !found || up.Manifest != testManifest || up.Records != 3 || up.Bytes != 1000 || len(up.Lost) != 1 || up.Lost[0] != job.Listing.Lost[0] {
			t.Fatalf("%+v %v %v", up, found, err)
		}
		for name, change := range map[string]func(id *Identity, in *stages.Intent){
			"sink": func(id *Identity, _ *stages.Intent) { id.Sink = "other" }, "start": func(_ *Identity, in *stages.Intent) { in.Start-- },
			"end": func(_ *Identity, in *stages.Intent) { in.End++ }, "format": func(_ *Identity, in *stages.Intent) { in.Format = "parquet" },
			"codec": func(_ *Identity, in *stages.Intent) { in.Compression = "gzip" }, "layout": func(_ *Identity, in *stages.Intent) { in.Layout = "x" },
			"writer": func(_ *Identity, in *stages.Intent) { in.Writer = "x" }, "at": func(_ *Identity, in *stages.Intent) { in.At = "2026-10-03T06:37:44.741001Z" },
			"k": func(_ *Identity, in *stages.Intent) { in.K = 2 }, "queue": func(id *Identity, _ *stages.Intent) { id.Queue = "q" },
			"tenant": func(id *Identity, _ *stages.Intent) { id.Tenant = "t" },
		} {
			other, in := id, testIntent()
			change(&other, &in)
			// Whatever the difference, the manifest that is found under that key is this one.
			text, _ := b.s3.Object(testManifest)
			b.s3.Put(ManifestKey(in.Prefix, other.Tenant, other.Queue, in.K), text)
			if found, err := look(other, in); found || err != nil {
				t.Errorf("another %s: %v %v", name, found, err)
			}
		}
		text, _ := b.s3.Object(testManifest)
		b.s3.Put(testManifest, append(text[:len(text):len(text)], '\n'))
		if found, err := look(id, testIntent()); found || err != nil {
			t.Errorf("not our bytes: %v %v", found, err)
		}
	})
}

// P36: a refused look is "not there"; a failed look is not.
func TestP36RefusedLookIsAbsent(t *testing.T) {
	id := Identity{Sink: "default", Tenant: testTenant, Queue: "orders"}
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Script(fakes3.Rule{Op: "get", Times: 1, Status: 403, Code: "AccessDenied"},
			fakes3.Rule{Op: "get", Skip: 0, Times: 1, Status: 403, Code: "InvalidAccessKeyId"}, fakes3.Rule{Op: "get", Status: 503})
		if _, found, err := b.Finished(t.Context(), id, testIntent()); found || err != nil {
			t.Errorf("AccessDenied: %v %v", found, err)
		}
		if _, found, err := b.Finished(t.Context(), id, testIntent()); found || err == nil {
			t.Errorf("InvalidAccessKeyId: %v %v", found, err)
		}
		var e *Error
		if _, found, err := b.Finished(t.Context(), id, testIntent()); found || !errors.As(err, &e) || !e.Retryable {
			t.Errorf("503: %v %v", found, err)
		}
	})
}

// What the place of a manifest says of an earlier life: with an intent of our own, the same bounds are our own attempt.
func TestOtherLife(t *testing.T) {
	id := Identity{Sink: "default", Tenant: testTenant, Queue: "orders"}
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		in := testIntent()
		look := func(id Identity, own *stages.Intent) (bool, error) {
			_, other, err := b.OtherLife(t.Context(), id, in.Prefix, in.K, own)
			return other, err
		}
		if other, err := look(id, nil); other || err != nil {
			t.Errorf("nothing there: %v %v", other, err)
		}
		if _, err := send(t.Context(), newTestStage(b, 5<<20, nil), testJob(), pattern(1000)); err != nil {
			t.Fatal(err)
		}
		written, ended, started := in, in, in
		written.At, written.Writer, written.Compression = "later", "another", "gzip"
		ended.End++
		started.Start--
		for _, c := range []struct {
			name string
			id   Identity
			own  *stages.Intent
			want bool
		}{
			{"no intent", id, nil, true}, {"own", id, &in, false}, {"own, written otherwise", id, &written, false}, {"end", id, &ended, true},
			{"start", id, &started, true}, {"sink", Identity{"other", id.Tenant, id.Queue}, &in, true},
		} {
			if other, err := look(c.id, c.own); other != c.want || err != nil {
				t.Errorf("%s: %v %v", c.name, other, err)
			}
		}
		b.s3.Script(fakes3.Rule{Op: "get", Times: 1, Status: 403, Code: "AccessDenied"}, fakes3.Rule{Op: "get", Times: 1, Status: 403},
			fakes3.Rule{Op: "get", Times: 1, Status: 404, Code: "NoSuchBucket"}, fakes3.Rule{Op: "get", Times: 6, Status: 500})
		if other, err := look(id, nil); other || err != nil {
			t.Errorf("AccessDenied: %v %v", other, err)
		}
		for _, what := range []string{"403 without a code", "NoSuchBucket", "500"} {
			if other, err := look(id, nil); other || err == nil {
				t.Errorf("%s: %v %v", what, other, err)
			}
		}
		b.s3.Put(testManifest, []byte("{}"))
		if other, err := look(id, &in); !other || err != nil {
			t.Errorf("unreadable: %v %v", other, err)
		}
	})
}
