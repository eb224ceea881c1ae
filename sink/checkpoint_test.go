package sink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"queen/config"
	"queen/encode/codec"
	"queen/internal/fakes3"
	"queen/stages"
	"queen/upload"
)

// every sets how many windows lie between two checkpoints.
func every(n int) func(*config.Sink) { return func(c *config.Sink) { c.CheckpointEvery = n } }

// checkpoint reads the checkpoint of a window; "" = there is none.
func (w *world) checkpoint(queue string, k uint64) string {
	w.t.Helper()
	data, ok := w.s3.Object(upload.CheckpointKey("queen", stages.DefaultTenant, queue, k))
	if !ok {
		return ""
	}
	z, err := codec.List(nil)[0].Reader(bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	defer z.Close()
	text, err := io.ReadAll(z)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// windows pushes one record a window into p and waits for each, up to k.
func (w *world) windows(l *life, k uint64) {
	w.t.Helper()
	for l.k("orders") < k {
		before := l.k("orders")
		w.mem.push("orders", "p", 1)
		w.until(10*time.Minute, fmt.Sprint("window ", before+1), func() bool { return l.k("orders") > before })
	}
}

func (w *world) age(l *life) string {
	w.t.Helper()
	for line := range strings.Lines(metricsText(w.t, l.s)) {
		if age, ok := strings.CutPrefix(line, `queen_s3_checkpoint_age_windows{queue="orders"} `); ok {
			return strings.TrimSpace(age)
		}
	}
	return ""
}

// Checkpoints land on their windows and never ahead of the commit: with 2 between them, on 2 and 4. Each says where its window ends, in all
// partitions of the queue, and a restart says which one this process wrote last: none.
func TestCheckpoints(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "q", 3)
		l := w.start(every(2))
		w.windows(l, 5)
		pointer, err := stages.ParsePointer(w.mem.kv.Get("s3:default:orders:committed").Value)
		if err != nil {
			t.Fatal(err)
		}
		if w.age(l) != "1" {
			t.Errorf("age %s", w.age(l))
		}
		l.stop()
		for k := uint64(1); k <= pointer.K; k++ {
			text := w.checkpoint("orders", k)
			if k%2 == 1 {
				if text != "" {
					t.Errorf("window %d has a checkpoint", k)
				}
				continue
			}
			manifest, _ := w.s3.Object(upload.ManifestKey("queen", stages.DefaultTenant, "orders", k))
			m, err := upload.ParseManifest(manifest)
			if err != nil {
				t.Fatal(err)
			}
			var doc struct {
				K, TEnd   int64
				Positions [][]any
			}
			if err := json.Unmarshal([]byte(text), &doc); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if doc.K != int64(k) || doc.TEnd != int64(m.End) || len(doc.Positions) != 2 || fmt.Sprint(doc.Positions[1][:2]) != "[q 3]" || len(doc.Positions[0]) != 3 {
				t.Errorf("window %d: %s", k, text)
			}
		}
		if n := w.audit("orders"); n < 8 {
			t.Errorf("%d records", n)
		}
		for _, r := range w.s3.Requests() {
			if strings.Contains(r.Key, "/checkpoint/") && (r.Op != "put" || r.Header.Get("Content-Type") != "application/zstd") {
				t.Errorf("%s %s as %s", r.Op, r.Key, r.Header.Get("Content-Type"))
			}
		}
		l = w.start(every(2))
		w.until(time.Minute, "restored", func() bool {
			return w.logged(`"committed_k":5,"redo":false,"checkpoint_k":"none","positions":0,"message":"queue restored"`) == 1
		})
		if w.age(l) != "1" {
			t.Errorf("age after a restart %s", w.age(l))
		}
		l.stop()
	})
}

// A checkpoint that the store does not take is tried three times, costs its window nothing and is one warning; the age says that it is missing.
func TestCheckpointNotWritten(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 1)
		w.s3.Script(fakes3.Rule{Key: "0000000002.json.zst", Op: "put", Status: 403, Code: "AccessDenied"})
		l := w.start(every(2))
		w.windows(l, 3)
		puts := 0
		for _, r := range w.s3.Requests() {
			if strings.Contains(r.Key, "/checkpoint/") {
				puts++
			}
		}
		if puts != checkpointAttempts || w.logged(`"message":"checkpoint not written; `) != 1 || w.age(l) != "3" {
			t.Errorf("%d requests, %d warnings, age %s\n%s", puts, w.logged("checkpoint not written; "), w.age(l), w.logs.String())
		}
		if row := l.row("orders"); row["state"] == stateFailed || row["lastError"] != nil {
			t.Errorf("the queue failed for it: %v", row)
		}
		w.windows(l, 4)
		if w.checkpoint("orders", 4) == "" || w.age(l) != "0" {
			t.Errorf("the next one: %q, age %s", w.checkpoint("orders", 4), w.age(l))
		}
		l.stop()
		if used := l.s.shared.budget.Used(); used != 0 {
			t.Errorf("%d bytes are still held", used)
		}
		w.audit("orders")
	})
}

// Whatever lies where a checkpoint belongs stops nothing: it is not read, and the sink's own is written over it.
func TestForeignCheckpoint(t *testing.T) {
	inWorld(t, func(w *world) {
		for k := range uint64(3) {
			w.s3.Put(upload.CheckpointKey("queen", stages.DefaultTenant, "orders", k), []byte("\x28\xb5\x2f\xfdjunk"))
		}
		w.mem.push("orders", "p", 1)
		l := w.start(every(2))
		w.windows(l, 3)
		if text := w.checkpoint("orders", 2); !strings.HasPrefix(text, `{"k":2,`) {
			t.Errorf("checkpoint %q", text)
		}
		for _, r := range w.s3.Requests() {
			if strings.Contains(r.Key, "/checkpoint/") && r.Op != "put" {
				t.Errorf("%s of %s", r.Op, r.Key)
			}
		}
		l.stop()
		w.audit("orders")
	})
}

// A redo writes the checkpoint of its window too, with the same bytes, and a drain writes a due one.
func TestCheckpointOfARedo(t *testing.T) {
	content := map[string]bool{}
	for _, crash := range []string{"never", "before_commit", "after_commit"} {
		inWorld(t, func(w *world) {
			w.mem.push("orders", "p", 2)
			w.mem.push("orders", "q", 1)
			l := w.start(func(c *config.Sink) { c.CheckpointEvery, c.CrashAt = 1, crash })
			if crash != "never" {
				<-l.ended
				if w.checkpoint("orders", 1) != "" {
					t.Errorf("%s: a checkpoint was written before it", crash)
				}
				w.mem.push("orders", "p", 5)
				elapse(time.Minute)
				l = w.start(every(1))
			}
			w.until(time.Minute, "window 1", func() bool { return l.k("orders") >= 1 })
			l.stop()
			text := w.checkpoint("orders", 1)
			if (text == "") != (crash == "after_commit") {
				t.Errorf("%s: checkpoint %q", crash, text)
			}
			if text != "" {
				content[text] = true
			}
		})
	}
	if len(content) != 1 {
		t.Errorf("%d contents: %v", len(content), content)
	}
}
