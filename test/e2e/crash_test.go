package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"queen/test/harness"
)

// crashEnv closes windows by size and hour only, so that two runs over one log cut the same windows.
func crashEnv(s3 string) harness.Env {
	return harness.SinkEnv(s3, "lake").With("QUEEN_S3_MAX_WINDOW_MS", "86400000", "QUEEN_S3_TARGET_MB", "22", "QUEEN_S3_SAFE_GUARD_MS", "100",
		"QUEEN_S3_DISCOVERY_INTERVAL_MS", "50", "QUEEN_S3_LEASE_TTL_MS", "2000")
}

// TestCrashPoints pushes with the sink off, stops, and lets copies of that data folder be mirrored: for each layout one run clean, one for each crash
// point that aborts the broker there and is started again. Every run must leave the same objects under the same keys.
func TestCrashPoints(t *testing.T) {
	origin := filepath.Join(t.TempDir(), "data")
	fill(t, origin, 60, noise)
	spread := []string{"QUEEN_S3_LAYOUT", "per-partition"}
	wants := map[string]result{"merged": mirror(t, origin, t.TempDir(), "", nil), "per-partition": mirror(t, origin, t.TempDir(), "", spread)}
	for layout, want := range wants {
		if want.puts == 0 {
			t.Fatalf("the proxy saw no upload of window 1 in the clean run of %s: the test would see nothing", layout)
		}
		if n := len(want.data); n < map[string]int{"merged": 2, "per-partition": 6}[layout] {
			t.Fatalf("clean run of %s made %d objects; the test needs two windows or more", layout, n)
		}
	}
	for _, c := range []struct {
		point, layout string
		multi         bool
	}{
		{"after_intent", "merged", false}, {"mid_upload", "merged", false}, {"mid_upload", "merged", true}, {"after_upload", "merged", false},
		{"before_commit", "merged", false}, {"after_commit", "merged", false},
		{"mid_upload", "per-partition", false}, {"mid_upload", "per-partition", true}, {"after_upload", "per-partition", false},
	} {
		name := c.point + "-" + c.layout
		more := []string{"QUEEN_S3_LAYOUT", c.layout}
		if c.multi {
			name += "-multipart"
			more = append(more, "QUEEN_S3_MULTIPART_THRESHOLD_MB", "5")
		}
		t.Run(name, func(t *testing.T) {
			got, want := mirror(t, origin, t.TempDir(), c.point, more), wants[c.layout]
			if !maps.Equal(got.data, want.data) {
				t.Errorf("objects differ from the clean run:\n got %v\nwant %v", got.data, want.data)
			}
			if finished := c.point != "after_intent" && c.point != "mid_upload"; finished && got.puts > 0 {
				t.Errorf("window 1 was uploaded whole before the crash, and yet %d more requests uploaded it", got.puts)
			}
			if !maps.Equal(got.manifests, want.manifests) {
				t.Errorf("manifests differ from the clean run (committedAt aside):\n got %v\nwant %v", got.manifests, want.manifests)
			}
		})
	}
}

// noise is a payload that does not compress, about so many KiB.
func noise(t *testing.T, kib int) string {
	t.Helper()
	raw := make([]byte, kib<<10*3/4)
	if _, err := rand.Read(raw); err != nil {
		t.Fatal(err)
	}
	return `"` + base64.StdEncoding.EncodeToString(raw) + `"`
}

// fill pushes about n MiB of payloads to three partitions, with the sink off.
func fill(t *testing.T, dir string, n int, payload func(t *testing.T, kib int) string) {
	t.Helper()
	b := harness.StartBroker(t, dir, nil)
	for i := range n {
		var items []harness.Item
		for j := range 16 {
			items = append(items, harness.Item{Queue: "orders", Partition: fmt.Sprintf("p-%d", (i+j)%3), TxID: fmt.Sprintf("tx-%d-%d", i, j),
				Payload: payload(t, 64)})
		}
		if err := b.Push(items...); err != nil {
			t.Fatal(err)
		}
	}
	b.Signal(15)
	if code, err := b.Wait(20 * time.Second); err != nil || code != 0 {
		t.Fatalf("stop: exit %d, %v", code, err)
	}
}

// result is what one run left: sha256 by key, manifests without their only wall-clock value, and how many requests uploaded window 1 after
// the crash.
type result struct {
	data, manifests map[string]string
	puts            int
}

func mirror(t *testing.T, origin, work, point string, more []string) result {
	t.Helper()
	dir := filepath.Join(work, "data")
	harness.CopyDir(t, origin, dir)
	g := harness.StartGateway(t, filepath.Join(work, "s3"), "lake")
	proxy := harness.StartProxy(t, g.URL)
	env := crashEnv(proxy.URL).With(more...)
	if point != "" {
		b := harness.LaunchBroker(t, dir, env.With("QUEEN_S3_CRASH_AT", point))
		if code, err := b.Wait(60 * time.Second); err != nil || code != 128+6 {
			t.Fatalf("crash at %s: exit %d (want SIGABRT), %v", point, code, err)
		}
	}
	before := proxy.Uploads("/w-0000000001-")
	b := harness.StartBroker(t, dir, env)
	b.WaitWindows(t, "orders", 2, 60*time.Second)
	harness.MustBeClean(t, g.Lake("lake"), b.URL)
	r := read(t, g.Lake("lake")) // before the stop, which closes the open window where the clock stands
	r.puts = proxy.Uploads("/w-0000000001-") - before
	b.Signal(15)
	if code, err := b.Wait(20 * time.Second); err != nil || code != 0 {
		t.Errorf("stop: exit %d, %v", code, err)
	}
	harness.MustBeClean(t, g.Lake("lake"), "")
	return r
}

var committedAt = regexp.MustCompile(`,"committedAt":"[^"]*"`)

// openWindow is in the keys of window 3, which is open unless an hour has turned meanwhile.
var openWindow = regexp.MustCompile(`/w-0000000003-|/windows/0*3\.json$`)

func read(t *testing.T, lake string) result {
	t.Helper()
	r := result{data: map[string]string{}, manifests: map[string]string{}}
	for key, sum := range harness.Keys(t, lake) {
		if openWindow.MatchString(key) {
			continue
		}
		if filepath.Ext(key) != ".json" {
			r.data[key] = sum
			continue
		}
		text, err := os.ReadFile(filepath.Join(lake, key))
		if err != nil {
			t.Fatal(err)
		}
		r.manifests[key] = committedAt.ReplaceAllString(string(text), "")
	}
	return r
}
