package sink

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"queen/config"
	"queen/internal/fakes3"
	"queen/stages"
	"queen/upload"
)

// spreading writes one object a partition.
func spreading(c *config.Sink) { c.Layout, c.Compression = "per-partition", "none" }

// pushed puts n partitions with records into the queue.
func (w *world) pushed(partitions, records int) {
	for i := range partitions {
		w.mem.push("orders", fmt.Sprintf("p%05d", i), records)
	}
}

// A window of 16 partitions is 16 objects, each with its offsets in its key, and one manifest that names them.
func TestPerPartition(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pushed(16, 4)
		l := w.start(spreading)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.exactly("orders")
		text, _ := w.s3.Object(upload.ManifestKey("queen", stages.DefaultTenant, "orders", 1))
		m, err := upload.ParseManifest(text)
		if err != nil || len(m.Objects) != 16 || len(w.s3.Keys()) != 17 || m.Layout != "per-partition" || m.Partitions != 16 {
			t.Fatalf("%v, %d objects", err, len(w.s3.Keys()))
		}
		for i, o := range m.Objects {
			if !strings.HasSuffix(o.Key, fmt.Sprintf("-p-p%05d-000000000000-000000000003.jsonl", i)) || o.Of.Partition != fmt.Sprintf("p%05d", i) || o.Of.Last != 3 || o.Records != 4 {
				t.Errorf("object %d is %+v of %+v", i, o, o.Of)
			}
		}
		if row := l.report(); row["layout"] != "per-partition" {
			t.Errorf("status says %v", row["layout"])
		}
		w.pushed(3, 2)
		w.until(time.Minute, "window 2", func() bool { return l.k("orders") == 2 })
		w.exactly("orders")
		l.stop()
	})
}

// Settings change between the intent and its redo, in twelve ways: the redo keeps the intent's, so that the bucket holds each record once, under one key
// with one content; the windows after it have the new settings.
func TestRedoAcrossSettings(t *testing.T) {
	set := func(format, compression, layout, align, prefix string) func(*config.Sink) {
		return func(c *config.Sink) {
			c.Format, c.Layout, c.Align, c.Prefix = format, layout, align, prefix
			if c.ParquetCodec = "zstd"; format == "jsonl" {
				c.Compression = compression
			}
		}
	}
	for i, c := range []struct {
		point    string
		from, to func(*config.Sink)
	}{
		{"mid_upload", set("jsonl", "zstd", "merged", "hour", "queen"), set("jsonl", "zstd", "per-partition", "hour", "queen")},
		{"mid_upload", set("jsonl", "zstd", "per-partition", "hour", "queen"), set("jsonl", "zstd", "merged", "hour", "queen")},
		{"mid_upload", set("jsonl", "none", "per-partition", "day", "queen"), set("jsonl", "gzip", "per-partition", "day", "queen")},
		{"mid_upload", set("jsonl", "gzip", "per-partition", "none", "queen"), set("jsonl", "gzip", "per-partition", "day", "queen")},
		{"mid_upload", set("jsonl", "none", "per-partition", "hour", "queen"), set("jsonl", "none", "per-partition", "hour", "new/place")},
		{"mid_upload", set("jsonl", "none", "merged", "day", "queen"), set("jsonl", "zstd", "per-partition", "none", "new")},
		{"mid_upload", set("jsonl", "zstd", "per-partition", "hour", "old/place"), set("jsonl", "gzip", "merged", "day", "queen")},
		{"mid_upload", set("jsonl", "zstd", "per-partition", "hour", "queen"), set("parquet", "zstd", "per-partition", "hour", "queen")},
		{"mid_upload", set("parquet", "zstd", "per-partition", "day", "queen"), set("jsonl", "none", "merged", "hour", "queen")},
		{"after_intent", set("jsonl", "gzip", "per-partition", "day", "queen"), set("jsonl", "none", "merged", "hour", "new")},
		{"after_upload", set("jsonl", "zstd", "per-partition", "hour", "queen"), set("jsonl", "none", "merged", "day", "new")},
		{"before_commit", set("jsonl", "none", "merged", "none", "queen"), set("jsonl", "gzip", "per-partition", "hour", "new")},
	} {
		t.Run(fmt.Sprint(i, " ", c.point), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.pushed(8, 3)
				l := w.start(func(s *config.Sink) { c.from(s); s.CrashAt = c.point })
				<-l.ended
				first, err := stages.ParseIntent(w.mem.kv.Get(intentKey).Value)
				if err != nil {
					t.Fatal(err)
				}
				w.pushed(8, 3)
				elapse(time.Minute)
				l = w.start(c.to)
				w.settled(l)
				now := *settings("")
				c.to(&now)
				var old, fresh int
				for _, key := range w.s3.Keys() {
					if !isData(key, "orders") {
						continue
					}
					if strings.Contains(key, "/w-0000000001-") {
						old++
						if pattern, err := upload.DataPattern(first, stages.DefaultTenant, "orders"); err != nil || !strings.HasPrefix(key, strings.TrimRight(pattern, "*.")) {
							t.Errorf("%v: %s is not as the intent says: %s", err, key, pattern)
						}
					} else if fresh++; !strings.HasPrefix(key, now.Prefix+"/") || strings.Contains(key, "-p-") != (now.Layout == "per-partition") || strings.Contains(key, "/hour=") == (now.Align == "day") {
						t.Errorf("%s is not as the settings say", key)
					}
				}
				count := map[string]int{"merged": 1, "per-partition": 8}
				if old != count[first.Layout] || fresh != count[now.Layout] {
					t.Errorf("%d objects of the redone window, %d of the next", old, fresh)
				}
			})
		})
	}
}

// A process dies while object n of m is on its way. The next one, with other cores, readers and memory, puts the same bytes to the same keys.
func TestCrashBetweenObjects(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, n := range []int{0, 1, 17, 38, 39, 40} {
		inWorld(t, func(w *world) {
			w.pushed(40, 2)
			w.s3.Script(fakes3.Rule{Op: "put", Skip: n, Hold: make(chan struct{})})
			runtime.GOMAXPROCS(8)
			l := w.start(spreading)
			w.until(time.Minute, "the object", func() bool { return w.requests("put") > n })
			l.gone()
			w.s3.Unscript()
			elapse(time.Minute)
			runtime.GOMAXPROCS(1)
			l = w.start(func(c *config.Sink) { spreading(c); c.FetchConcurrency, c.Threads, c.MemoryBytes = 1, 1, 512<<20 })
			w.settled(l)
		})
	}
}

// What is written depends on the log and the settings that an intent holds, not on the node: neither its cores nor its memory.
func TestObjectsDoNotDependOnTheNode(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, layout := range []string{"merged", "per-partition"} {
		run := func(cores int, memory int64, readers int) map[string]string {
			data := map[string]string{}
			inWorld(t, func(w *world) {
				runtime.GOMAXPROCS(cores)
				w.mem.pad = 20_000
				for range 5 {
					w.pushed(30, 4)
				}
				l := w.start(func(c *config.Sink) {
					c.Layout, c.TargetBytes, c.MemoryBytes, c.FetchConcurrency = layout, 64<<20, memory, readers
				})
				w.until(5*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
				w.exactly("orders")
				l.stop()
				for key, sum := range w.objects() {
					if isData(key, "orders") {
						data[key] = sum
					}
				}
			})
			return data
		}
		want := run(1, 32<<20, 1)
		if got := run(8, 512<<20, 8); len(got) == 0 || !maps.Equal(got, want) {
			t.Errorf("%s: %d objects here, %d there, not the same", layout, len(want), len(got))
		}
	}
}

// A window of very many partitions is written in the memory that there is, whatever their number: it takes what it charges, and the
// charge is within the limit.
func TestManyPartitionsInAWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		const partitions = 3000
		w.pushed(partitions, 1)
		w.shared = NewShared(SharedOptions{Memory: 64 << 20, Threads: 1})
		l := w.start(func(c *config.Sink) { spreading(c); c.TargetBytes = 64 << 20 })
		var used, out int64
		w.until(10*time.Minute, "window 1", func() bool {
			used, out = max(used, w.shared.budget.Used()), max(out, w.shared.chunks.Out())
			return l.k("orders") == 1
		})
		w.exactly("orders")
		l.stop()
		if used > 64<<20 || out > l.s.need.beside("per-partition") || w.shared.budget.Used() != 0 || w.shared.chunks.Out() != 0 {
			t.Errorf("%d bytes charged, %d bytes of chunks; at the end %d and %d", used, out, w.shared.budget.Used(), w.shared.chunks.Out())
		}
		if n := len(w.s3.Keys()); n != partitions+1 {
			t.Errorf("%d objects", n)
		}
	})
}

// A partition whose name no store would take in a key does not stop its queue, nor another one.
func TestLongPartitionNames(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{strings.Repeat("ж", 200), strings.Repeat("ж", 199) + "я", strings.Repeat("x", 411), "a/b", ".."} {
			w.mem.push("orders", name, 2)
		}
		l := w.start(spreading)
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		w.exactly("orders")
		for _, key := range w.s3.Keys() {
			if last := key[strings.LastIndexByte(key, '/')+1:]; len(key) > 1024 || len(last) > 255 {
				t.Errorf("%d bytes, %d of them in the last segment: %s", len(key), len(last), key)
			}
		}
		l.stop()
	})
}

// Retention took all of a window between its intent and its redo: merged it is one object of nothing, per partition it is none. Both are windows, and name
// what is lost.
func TestWindowOfNothing(t *testing.T) {
	for _, layout := range []string{"merged", "per-partition"} {
		for _, codec := range []string{"zstd", "gzip", "none"} {
			inWorld(t, func(w *world) {
				w.pushed(3, 4)
				l := w.start(func(c *config.Sink) { c.Layout, c.Compression, c.CrashAt = layout, codec, "after_intent" })
				<-l.ended
				w.mem.trim("orders")
				l = w.start(nil)
				w.until(2*time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
				text, _ := w.s3.Object(upload.ManifestKey("queen", stages.DefaultTenant, "orders", 1))
				m, err := upload.ParseManifest(text)
				if err != nil || len(m.Lost) != 3 || m.Records != 0 || m.Partitions != 0 || m.MinTS != nil || len(m.Objects) != map[string]int{"merged": 1}[layout] {
					t.Errorf("%s, %s: %v\n%s", layout, codec, err, text)
				}
				if n := w.audit("orders"); n != 0 || len(w.s3.Keys()) != 1+len(m.Objects) {
					t.Errorf("%s, %s: %d records, keys %s", layout, codec, n, w.s3.Keys())
				}
				l.stop()
			})
		}
	}
}
