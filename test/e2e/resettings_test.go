package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"queen/test/harness"
)

// way is all that shapes an object and its key.
type way struct {
	shape
	prefix string
}

func (w way) env() []string { return append(w.shape.env(), "QUEEN_S3_PREFIX", w.prefix) }

// TestRedoAcrossSettings is contract B1 with processes: a broker aborts in the middle of a window, its settings are changed, and it is started again. The redo
// keeps what the intent says, so that one object holds the records; the window behind it is as the settings say. Ten changes, and every crash point.
func TestRedoAcrossSettings(t *testing.T) {
	origin := filepath.Join(t.TempDir(), "data")
	fill(t, origin, 1, noise)
	j, p := shape{"jsonl", "zstd", "merged", "hour"}, shape{"parquet", "zstd", "merged", "hour"}
	with := func(s shape, change func(s *shape)) shape { change(&s); return s }
	gzip := with(j, func(s *shape) { s.codec = "gzip" })
	spread := with(j, func(s *shape) { s.layout = "per-partition" })
	day := with(j, func(s *shape) { s.align = "day" })
	for _, c := range []struct {
		name, point string
		from, to    way
	}{
		{"format", "after_upload", way{j, "queen"}, way{p, "queen"}},
		{"compression", "mid_upload", way{j, "queen"}, way{gzip, "queen"}},
		{"codec", "after_upload", way{p, "queen"}, way{with(p, func(s *shape) { s.codec = "snappy" }), "queen"}},
		{"layout", "mid_upload", way{spread, "queen"}, way{j, "queen"}},
		{"align", "before_commit", way{day, "queen"}, way{j, "queen"}},
		{"prefix", "after_upload", way{j, "queen"}, way{j, "other/place"}},
		{"format and layout", "mid_upload", way{p, "queen"}, way{spread, "queen"}},
		{"compression and align", "after_intent", way{gzip, "queen"}, way{day, "queen"}},
		{"layout and prefix", "before_commit", way{j, "queen"}, way{spread, "other"}},
		{"codec and prefix", "after_commit", way{with(p, func(s *shape) { s.codec = "snappy" }), "a/b"}, way{p, "queen"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			redone(t, origin, c.point, c.from, c.to)
		})
	}
}

// redone aborts a window of origin at a point, redoes it under other settings, writes one more, and looks at all that the bucket holds then.
func redone(t *testing.T, origin, point string, from, to way) {
	dir := filepath.Join(t.TempDir(), "data")
	harness.CopyDir(t, origin, dir)
	g := harness.StartGateway(t, t.TempDir(), "lake")
	base := harness.SinkEnv(g.URL, "lake").With("QUEEN_S3_MAX_WINDOW_MS", "200", "QUEEN_S3_SAFE_GUARD_MS", "20", "QUEEN_S3_DISCOVERY_INTERVAL_MS", "20", "QUEEN_S3_LEASE_TTL_MS", "2000")
	b := harness.LaunchBroker(t, dir, base.With(from.env()...).With("QUEEN_S3_CRASH_AT", point))
	if code, err := b.Wait(60 * time.Second); err != nil || code != 128+6 {
		t.Fatalf("crash at %s: exit %d (want SIGABRT), %v", point, code, err)
	}
	b = harness.StartBroker(t, dir, base.With(to.env()...))
	b.WaitWindows(t, "orders", 1, 60*time.Second)
	if err := b.Push(harness.Item{Queue: "orders", Partition: "p-0", TxID: "behind", Payload: "42.00"}); err != nil {
		t.Fatal(err)
	}
	b.WaitWindows(t, "orders", 2, 60*time.Second)
	lake := g.Lake("lake")
	objectsAre(t, lake, 1, 3, from)
	objectsAre(t, lake, 2, 1, to)
	if from.prefix == to.prefix {
		harness.MustBeClean(t, lake, b.URL)
	} else { // the log is compared with both prefixes together, below
		harness.MustBeClean(t, lake, "", "--prefix", from.prefix)
	}
	onceEach(t, lake, b, from.prefix, to.prefix)
}

// objectsAre compares the data objects of a window, wherever they lie, with the way in which it was to be written.
func objectsAre(t *testing.T, lake string, k, partitions int, w way) {
	t.Helper()
	want, ext := 1, map[string]string{"zstd": ".jsonl.zst", "gzip": ".jsonl.gz", "none": ".jsonl"}[w.codec]
	if w.layout == "per-partition" {
		want = partitions
	}
	if w.format == "parquet" {
		ext = ".parquet"
	}
	n := 0
	for key := range harness.Keys(t, lake) {
		if strings.Contains(key, "/_queen/") || !strings.Contains(key, fmt.Sprintf("/w-%010d-", k)) {
			continue
		}
		n++
		if !strings.HasPrefix(key, w.prefix+"/tenant=") || !strings.HasSuffix(key, ext) || strings.Contains(key, "-p-") != (w.layout == "per-partition") ||
			strings.Contains(key, "/hour=") != (w.align == "hour") {
			t.Errorf("window %d: %s is not as %v says", k, key, w)
		}
	}
	if n != want {
		t.Errorf("window %d: %d data objects, want %d", k, n, want)
	}
}

// onceEach wants every record of the log in the objects under the prefixes, together, once.
func onceEach(t *testing.T, lake string, b *harness.Broker, prefixes ...string) {
	t.Helper()
	bins, err := harness.Build()
	if err != nil {
		t.Fatal(err)
	}
	seen, last := map[string]int{}, ""
	for _, prefix := range prefixes {
		if prefix == last {
			continue
		}
		last = prefix
		out, err := exec.Command(bins.Queen, "lake", "cat", "--prefix", prefix, lake).Output()
		if err != nil {
			t.Fatalf("lake cat of %s: %v", prefix, err)
		}
		for line := range bytes.Lines(out) {
			var r struct {
				Partition string
				Offset    int64
				Payload   json.RawMessage
			}
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatalf("%v in %.200s", err, line)
			}
			seen[fmt.Sprintf("%s %d %s", r.Partition, r.Offset, r.Payload)]++
		}
	}
	records := 0
	for _, p := range []string{"p-0", "p-1", "p-2"} {
		for _, r := range fetchAll(t, b, "orders", p) {
			if records++; seen[fmt.Sprintf("%s %d %s", p, r.Offset, r.Payload)] != 1 {
				t.Errorf("%s %d is in the objects %d times", p, r.Offset, seen[fmt.Sprintf("%s %d %s", p, r.Offset, r.Payload)])
			}
		}
	}
	if records != 17 || len(seen) != records {
		t.Errorf("%d records in the log, %d in the objects", records, len(seen))
	}
}
