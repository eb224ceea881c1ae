package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/internal/fakes3"
	"queen/internal/rounds"
	"queen/stages"
)

// spread is a window of one object a partition.
type spread struct {
	job     *stages.Job
	objects []piece
}

type piece struct {
	of   stages.Object
	data []byte
}

func (s *spread) add(partition string, first, last int64, data []byte) {
	s.objects = append(s.objects, piece{stages.Object{Partition: partition, First: first, Last: last}, data})
}

func newSpread() *spread {
	s := &spread{job: testJob()}
	s.job.Intent.Layout = "per-partition"
	return s
}

// many is a spread of n partitions with small objects.
func many(n int) *spread {
	s := newSpread()
	for i := range n {
		s.add(fmt.Sprintf("p%06d", i), int64(i), int64(i+2), fmt.Appendf(nil, "object of %d", i))
	}
	return s
}

// send pushes the window through a stage; most is told how many bytes of chunks the stage holds after each.
func (s *spread) send(ctx context.Context, st *Stage, pool *stages.Chunks, most func()) (up *stages.Uploaded, err error) {
	defer atRest(pool)
	emit := func(u *stages.Uploaded) error { up = u; return nil }
	if len(s.objects) == 0 {
		err = st.Do(ctx, stages.Chunk{Job: s.job, End: true}, emit)
		return up, err
	}
	for i, o := range s.objects {
		chunks := chunked(o.data, stages.ChunkBytes)
		for j, data := range chunks {
			in := taken(pool, s.job, data)
			in.Object = &o.of
			if j == len(chunks)-1 {
				in.Cut, in.End = i < len(s.objects)-1, i == len(s.objects)-1
				in.Stats = stages.Stats{Records: o.of.Last - o.of.First + 1, Partitions: 1, MinTS: stages.Micros(1791009457000000 + i), MaxTS: stages.Micros(1791009457500000 - i)}
			}
			if most != nil {
				most()
			}
			if err := st.Do(ctx, in, emit); err != nil {
				st.Close(ctx)
				return nil, err
			}
		}
	}
	return up, nil
}

// stored fails unless the bucket holds every object of the window, and a manifest that says so.
func (s *spread) stored(t *testing.T, b *bucket, up *stages.Uploaded) {
	t.Helper()
	text, _ := b.s3.Object(testManifest)
	m, err := ParseManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	var records, size int64
	for i, o := range s.objects {
		key, err := DataKey(s.job.Intent, Names{Tenant: testTenant, Queue: "orders", Ext: "jsonl.zst", Object: &o.of})
		if err != nil {
			t.Fatal(err)
		}
		want := Object{Key: key, Bytes: int64(len(o.data)), Records: o.of.Last - o.of.First + 1, SHA256: sha(o.data), Of: &o.of}
		if got, _ := b.s3.Object(key); !bytes.Equal(got, o.data) {
			t.Fatalf("%s has %d bytes of %d", key, len(got), len(o.data))
		}
		if got := m.Objects[i]; *got.Of != *want.Of || got.Key != want.Key || got.Bytes != want.Bytes || got.Records != want.Records || got.SHA256 != want.SHA256 {
			t.Fatalf("the manifest says %+v, want %+v", got, want)
		}
		records, size = records+want.Records, size+want.Bytes
	}
	if len(m.Objects) != len(s.objects) || m.Records != records || m.Bytes != size || m.Partitions != len(s.objects) || up.Records != records || up.Bytes != size || up.Manifest != testManifest {
		t.Errorf("%d objects, manifest %d records, %d bytes, %d partitions; uploaded %+v", len(m.Objects), m.Records, m.Bytes, m.Partitions, up)
	}
	if n := len(b.s3.Keys()); n != len(s.objects)+1 || b.s3.OpenUploads() != 0 {
		t.Errorf("%d keys, %d open uploads", n, b.s3.OpenUploads())
	}
}

// The keys of partitions, also of names that other encoders confuse and of long ones. testdata/partitions.golden has them.
func TestPartitionKeys(t *testing.T) {
	in := testIntent()
	in.Layout = "per-partition"
	var out strings.Builder
	seen := map[string]bool{}
	for _, name := range append([]string{"", "cust-1", "a b", "a%20b", "a/b", "a=b", "a:b", "a+b", "a~b", "50%", ".", "..", "../../etc", "a/../b", "ключ", "é", "e\u0301", "🛒",
		"007", "null", "__HIVE_DEFAULT_PARTITION__", "\x00", "\n", `"`, "{}", "<script>", " ", "a+b@c.d", `{"id":1}`, "https://x/y?z=1#f", "a-000000000000-000000000003"},
		strings.Repeat("x", 120), strings.Repeat("x", 121), strings.Repeat("x", 122), strings.Repeat("ж", 20), strings.Repeat("ж", 21), strings.Repeat("y", 411)) {
		for _, offsets := range [][2]int64{{0, 3}, {999999999999, 1<<63 - 1}} {
			key, err := DataKey(in, Names{Tenant: testTenant, Queue: "orders", Ext: "parquet", Object: &stages.Object{Partition: name, First: offsets[0], Last: offsets[1]}})
			if err != nil {
				t.Fatal(err)
			}
			last := key[strings.LastIndexByte(key, '/')+1:]
			if seen[key] || len(last) > 255 || strings.Count(key, "/") != 5 {
				t.Errorf("%q: %s, seen %v", name, key, seen[key])
			}
			seen[key] = true
			if offsets[0] == 0 {
				fmt.Fprintf(&out, "%q %s\n", name, last)
			}
		}
	}
	want, err := os.ReadFile("testdata/partitions.golden")
	if err != nil || string(want) != out.String() {
		t.Errorf("%v, got\n%s", err, out.String())
	}
}

// Keys follow the alignment, and where an intent starts before every stamp, the first record, or else the end of the window.
func TestPathTime(t *testing.T) {
	const first, end = 1791003600000000, 1791093600000000 // 2026-10-03T05:00, 2026-10-04T06:00
	for _, c := range []struct {
		start, first stages.Micros
		align, want  string
	}{
		{1791007200000000, first, "hour", "dt=2026-10-03/hour=06/w-0000000001-1791007200000000-"}, {1791007200000000, first, "day", "dt=2026-10-03/w-0000000001-1791007200000000-"},
		{1791007200000000, first, "none", "dt=2026-10-03/hour=06/w-0000000001-1791007200000000-"}, {-5, first, "hour", "dt=1970-01-01/hour=00/w-0000000001-0000000000000000-"},
		{stages.Beginning, first, "hour", "dt=2026-10-03/hour=05/w-0000000001-0000000000000000-"}, {stages.Beginning, first, "day", "dt=2026-10-03/w-0000000001-0000000000000000-"},
		{stages.Beginning, first, "none", "dt=2026-10-03/hour=05/w-0000000001-0000000000000000-"}, {stages.Beginning, stages.Beginning, "hour", "dt=2026-10-04/hour=06/w-0000000001-0000000000000000-"},
	} {
		for _, layout := range []string{"merged", "per-partition"} {
			in, names := testIntent(), Names{Tenant: testTenant, Queue: "orders", Ext: "jsonl", First: c.first}
			in.Start, in.End, in.Align, in.Layout = c.start, end, c.align, layout
			want := "queen/tenant=" + testTenant + "/queue=orders/" + c.want + "1791093600000000"
			if layout == "per-partition" {
				names.Object = &stages.Object{Partition: "p"}
				want += "-p-p-000000000000-000000000000"
			}
			if got, err := DataKey(in, names); err != nil || got != want+".jsonl" {
				t.Errorf("%v %s: %s %v", c, layout, got, err)
			}
			if pattern, err := DataPattern(in, testTenant, "orders"); err != nil || !strings.HasSuffix(pattern, "*") || c.start != stages.Beginning && !strings.HasPrefix(want, strings.TrimRight(pattern, ".*")) {
				t.Errorf("%v: %s %v", c, pattern, err)
			}
		}
	}
	in := testIntent()
	if key, err := DataKey(in, Names{Object: &stages.Object{}}); err == nil {
		t.Errorf("an object of a partition in a merged window: %s", key)
	}
	in.Layout = "per-partition"
	if key, err := DataKey(in, Names{}); err == nil {
		t.Errorf("an object of no partition: %s", key)
	}
}

// The longest key of a queue counts at its adoption, in the layout that is set.
func TestLongestPartitionKey(t *testing.T) {
	prefix := strings.Repeat("pppppppppppp/", 40) + "p"
	for layout, fits := range map[string]bool{"merged": true, "per-partition": false} {
		if err := CheckNames(prefix, testTenant, strings.Repeat("q", 240), layout); (err == nil) != fits {
			t.Errorf("%s: %v", layout, err)
		}
	}
}

// Small objects travel side by side, large ones in parts by themselves; the manifest is last, in the order of the partitions.
func TestSpreadWindow(t *testing.T) {
	for name, sizes := range map[string][]int{"none": {}, "one": {10}, "small": {10, 20, 30}, "large between": {10, 7 << 20, 20}, "large first": {12 << 20, 1}, "all large": {6 << 20, 6 << 20},
		"many": make([]int, 100)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t, fakes3.Options{}, nil)
				s := newSpread()
				for i, n := range sizes {
					s.add(fmt.Sprintf("p%03d", i), int64(i), int64(2*i), pattern(n+1+i))
				}
				hooks := map[string]int{}
				var pool stages.Chunks
				gate := make(chan struct{}, 1)
				up, err := s.send(t.Context(), newTestStage(b, 5<<20, func(point string) {
					gate <- struct{}{}
					hooks[point]++
					<-gate
				}), &pool, nil)
				if err != nil {
					t.Fatal(err)
				}
				s.stored(t, b, up)
				reqs := b.s3.Requests()
				if last := reqs[len(reqs)-1]; last.Op != "put" || last.Key != testManifest {
					t.Errorf("the last request is %s %s", last.Op, last.Key)
				}
				if hooks[PointAfterUpload] != 1 || hooks[PointMidUpload] < len(sizes) {
					t.Errorf("crash points %v", hooks)
				}
			})
		})
	}
}

// While a store is slow, no more objects travel at once than may, and what is held is what Memory and ManifestMemory say, whatever the sizes
// of the objects and however many there are.
func TestSpreadMemory(t *testing.T) {
	for _, c := range []struct{ part, threshold, objects int64 }{{5, 64, 12}, {5, 5, 12}, {16, 64, putsInFlight}}[:rounds.Of(3, 1)] { // MiB, MiB, objects at once at least
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, nil)
			b.s3.Script(fakes3.Rule{Op: "multipart_part", Delay: time.Second}, fakes3.Rule{Op: "put", Delay: time.Second})
			s := newSpread()
			blocks := pattern(51 * mib)
			for i := range 450 { // 24 KB each in the manifest
				size := 100 + i
				if i == 37 {
					size = 51 * mib
				} else if i%150 == 59 {
					size = 4 * mib
				}
				s.add(fmt.Sprintf("%05d", i)+strings.Repeat("\x01", 4000), 0, int64(i), blocks[:size])
			}
			var pool, own stages.Chunks
			st := NewStage(StageOptions{Client: b.Client, Tenant: testTenant, Part: c.part * mib, Threshold: c.threshold * mib, Describe: describe, Chunks: &own})
			var held, manifest, flying int64
			up, err := s.send(t.Context(), st, &pool, func() {
				held, manifest = max(held, pool.Out()), max(manifest, own.Out())
				if st.cur != nil {
					flying = max(flying, int64(len(st.cur.puts.slots)))
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			s.stored(t, b, up)
			if known := Memory(c.part*mib, c.threshold*mib); held > known || held < known-mib {
				t.Errorf("%v: %d MiB of objects were held, Memory says %d", c, held/mib, known/mib)
			}
			if text, _ := b.s3.Object(testManifest); manifest > ManifestMemory || len(text) < 2*MinPart || own.Out() != 0 {
				t.Errorf("%v: a manifest of %d bytes held %d bytes, ManifestMemory is %d; %d are out", c, len(text), manifest, ManifestMemory, own.Out())
			}
			if flying < c.objects || flying > 16 {
				t.Errorf("%v: %d objects at once", c, flying)
			}
		})
	}
}

// Object n of m cannot be stored: the window fails with that object's name and has no manifest, nothing stays behind, and the next attempt
// sends the same bytes to the same keys.
func TestSpreadFaults(t *testing.T) {
	for _, n := range []int{0, 1, 20, 38, 39} {
		for name, rule := range map[string]fakes3.Rule{
			"refused":   {Status: 403, Code: "AccessDenied"},
			"no answer": {Cut: fakes3.CutAfter},
			"torn":      {Cut: fakes3.CutMid},
			"mute":      {Delay: time.Hour},
		} {
			t.Run(fmt.Sprintf("%s at %d", name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBucket(t, fakes3.Options{}, nil)
					s := many(40)
					rule.Op, rule.Key = "put", fmt.Sprintf("*-p-p%06d-*", n)
					b.s3.Script(rule)
					var pool, own stages.Chunks
					st := NewStage(StageOptions{Client: b.Client, Tenant: testTenant, Part: 5 * mib, Threshold: 5 * mib, Describe: describe, Chunks: &own})
					if _, err := s.send(t.Context(), st, &pool, nil); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("-p-p%06d-", n)) {
						t.Errorf("got %v", err)
					}
					if _, there := b.s3.Object(testManifest); there || own.Out() != 0 {
						t.Errorf("a manifest: %v, %d bytes are out", there, own.Out())
					}
					before := map[string]string{}
					for _, key := range b.s3.Keys() {
						data, _ := b.s3.Object(key)
						before[key] = string(data)
					}
					b.s3.Unscript()
					s.job.Redo = true
					up, err := s.send(t.Context(), st, &pool, nil)
					if err != nil {
						t.Fatal(err)
					}
					s.stored(t, b, up)
					for key, data := range before {
						if now, _ := b.s3.Object(key); string(now) != data {
							t.Errorf("%s was %q and is %q", key, data, now)
						}
					}
				})
			})
		}
	}
}

// A part of a long manifest, or its end, fails: no manifest, no open upload, and the next attempt stores it.
func TestLongManifestFaults(t *testing.T) {
	for _, op := range []string{"multipart_create", "multipart_part", "multipart_complete"}[:rounds.Of(3, 1)] {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, nil)
			s := newSpread()
			for i := range 700 {
				s.add(fmt.Sprintf("%05d", i)+strings.Repeat("\x01", 2000), 0, 0, []byte("x"))
			}
			b.s3.Script(fakes3.Rule{Op: op, Key: testManifest, Status: 403, Code: "AccessDenied"})
			var pool, own stages.Chunks
			st := NewStage(StageOptions{Client: b.Client, Tenant: testTenant, Part: 5 * mib, Threshold: 5 * mib, Describe: describe, Chunks: &own})
			if _, err := s.send(t.Context(), st, &pool, nil); err == nil || !strings.Contains(err.Error(), testManifest) {
				t.Errorf("%s: %v", op, err)
			}
			if _, there := b.s3.Object(testManifest); there || b.s3.OpenUploads() != 0 || own.Out() != 0 {
				t.Errorf("%s: a manifest: %v, %d open uploads, %d bytes out", op, there, b.s3.OpenUploads(), own.Out())
			}
			b.s3.Unscript()
			up, err := s.send(t.Context(), st, &pool, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.stored(t, b, up)
		})
	}
}

// A redo that finds its window uploaded sends nothing, though it has hundreds of objects; one that finds another window's manifest sends all.
func TestSpreadRedo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		var pool stages.Chunks
		first := many(300)
		if _, err := first.send(t.Context(), newTestStage(b, 5<<20, nil), &pool, nil); err != nil {
			t.Fatal(err)
		}
		sent := len(b.s3.Requests())
		first.job.Redo = true
		up, err := first.send(t.Context(), newTestStage(b, 5<<20, nil), &pool, nil)
		if err != nil || up.Records != 900 || up.Job != first.job {
			t.Fatal(up, err)
		}
		if got := ops(b.s3.Requests()[sent:]); got != "get" {
			t.Errorf("requests of the redo: %s", got)
		}
		first.job.Intent.At = "2026-10-03T06:37:45.000000Z"
		if up, err = first.send(t.Context(), newTestStage(b, 5<<20, nil), &pool, nil); err != nil {
			t.Fatal(err)
		}
		first.stored(t, b, up)
		if got := b.s3.Requests()[sent+1:]; got[0].Op != "get" || len(got) != 302 {
			t.Errorf("%d requests, the first %s", len(got), got[0].Op)
		}
	})
}

// The end of a pass ends what is on its way.
func TestSpreadIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		b.s3.Script(fakes3.Rule{Op: "put", Hold: make(chan struct{})})
		gone := errors.New("the lease is lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Second, func() { cancel(gone) })
		var pool stages.Chunks
		if _, err := many(100).send(ctx, newTestStage(b, 5<<20, nil), &pool, nil); !errors.Is(err, gone) {
			t.Error(err)
		}
		if n := len(b.s3.Requests()); n > putsInFlight {
			t.Errorf("%d requests", n)
		}
	})
}

// A manifest of very many objects is read without keeping them, and as strictly as any.
func TestLongManifestIsRead(t *testing.T) {
	m := goldenManifest()
	m.Layout, m.Objects = "per-partition", nil
	for i := range 20_000 {
		m.Objects = append(m.Objects, Object{Key: fmt.Sprint("k", i), Bytes: int64(i), SHA256: "x", Of: &stages.Object{Partition: fmt.Sprint("p\"", i), Last: int64(i)}})
	}
	text := m.Append(nil)
	n := 0
	got, err := readManifest(bytes.NewReader(text), func(o Object) {
		if want := m.Objects[n]; o.Key != want.Key || *o.Of != *want.Of || o.Bytes != want.Bytes {
			t.Fatalf("object %d is %+v", n, o)
		}
		n++
	})
	if err != nil || n != len(m.Objects) || got.Objects != nil || got.Writer != m.Writer {
		t.Error(n, got, err)
	}
	for _, c := range [][2]string{{`"lastOffset":7}`, `"lastOffset":07}`}, {`"lastOffset":7}`, `"lastOffset":7},`}, {`,"firstOffset":0`, ``}, {`"partition":"p\"7"`, `"partition":"p\u00227"`}, {`},{`, `}{`}} {
		if !bytes.Contains(text, []byte(c[0])) {
			t.Fatal(c)
		}
		if _, err := ParseManifest(bytes.Replace(text, []byte(c[0]), []byte(c[1]), 1)); err == nil {
			t.Errorf("taken: %s", c[1])
		}
	}
}
