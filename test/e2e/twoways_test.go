package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTwoProcessesOneObject is contract B1 and S2 for what a node is, not what it is told to write: the same log is mirrored by a process with one core,
// little memory, one reader and small parts, and by one with eight cores, much memory, many readers and single PUTs. In every format, codec and layout each
// window has the same bytes under the same keys; the audit in Python refuses an object of more than one zstd frame or gzip member.
func TestTwoProcessesOneObject(t *testing.T) {
	origin := filepath.Join(t.TempDir(), "data")
	fill(t, origin, 24, mixed)
	small := []string{"GOMAXPROCS", "1", "QUEEN_S3_MEMORY_MB", "64", "QUEEN_S3_MULTIPART_THRESHOLD_MB", "5", "QUEEN_S3_FETCH_CONCURRENCY", "1", "QUEEN_S3_THREADS", "1"}
	large := []string{"GOMAXPROCS", "8", "QUEEN_S3_MEMORY_MB", "512", "QUEEN_S3_MULTIPART_THRESHOLD_MB", "64", "QUEEN_S3_FETCH_CONCURRENCY", "16", "QUEEN_S3_THREADS", "4"}
	seen := map[string]bool{}
	for _, s := range shapes(t) {
		if s.align != "hour" { // where a window ends, not what is in it
			continue
		}
		seen[s.format+s.codec+s.layout] = true
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			env := append(s.env(), "QUEEN_S3_TARGET_MB", "10")
			one := mirror(t, origin, t.TempDir(), "", slices.Concat(env, small))
			two := mirror(t, origin, t.TempDir(), "", slices.Concat(env, large))
			if len(one.data) < map[string]int{"merged": 2, "per-partition": 6}[s.layout] || !maps.Equal(one.data, two.data) {
				t.Errorf("the two made different objects:\n%v\n%v", one.data, two.data)
			}
			if !maps.Equal(one.manifests, two.manifests) {
				t.Errorf("the two made different manifests (committedAt aside):\n%v\n%v", one.manifests, two.manifests)
			}
			if s.layout == "merged" && (one.puts < 2 || two.puts != 1) {
				t.Errorf("window 1 went up in %d and %d requests; the test wants parts here and one PUT there", one.puts, two.puts)
			}
		})
	}
	if len(seen) < 10 {
		t.Errorf("only %v", slices.Sorted(maps.Keys(seen)))
	}
}

// mixed is a payload of which a part does not compress, so that an object is long enough for parts, and the rest repeats itself near and far, so that a
// codec has matches to choose from: without them a change of its concurrency goes unseen.
func mixed(t *testing.T, kib int) string {
	t.Helper()
	random := noise(t, kib*3/4)
	var b strings.Builder
	fmt.Fprintf(&b, `{"blob":%s,"rows":[0`, random)
	for i := 1; b.Len() < kib<<10; i++ {
		fmt.Fprintf(&b, `,{"id":%q,"customer":"cust-%d","total":%d.00}`, random[i*7:i*7+8], i%90, i*i)
	}
	return b.String() + "]}"
}
