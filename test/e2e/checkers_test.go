package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"queen/test/harness"
)

// TestCheckersAgree damages a good lake of each layout in every way that test/lakecheck/damage.py knows: both checkers must accept the good one and refuse
// each damaged one.
func TestCheckersAgree(t *testing.T) {
	t.Run("merged", func(t *testing.T) { checkersAgree(t, "merged", 12) })
	t.Run("per-partition", func(t *testing.T) { checkersAgree(t, "per-partition", 8, "per-partition") })
}

func checkersAgree(t *testing.T, layout string, least int, of ...string) {
	g := harness.StartGateway(t, t.TempDir(), "lake")
	b := harness.StartBroker(t, t.TempDir(), harness.SinkEnv(g.URL, "lake").With("QUEEN_S3_MAX_WINDOW_MS", "200", "QUEEN_S3_SAFE_GUARD_MS", "20",
		"QUEEN_S3_DISCOVERY_INTERVAL_MS", "50", "QUEEN_S3_LAYOUT", layout))
	for k := range 3 {
		for i := range 4 {
			if err := b.Push(harness.Item{Queue: "orders", Partition: fmt.Sprintf("p%d", i%2), Payload: fmt.Sprintf(`{"k":%d,"i":%d}`, k, i)}); err != nil {
				t.Fatal(err)
			}
		}
		b.WaitWindows(t, "orders", int64(k+1), 20*time.Second)
	}
	drained(t, b)
	harness.MustBeClean(t, g.Lake("lake"), b.URL)
	bins, err := harness.Build()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(bins.Root, "test", "lakecheck", "damage.py")
	out, err := exec.Command(bins.Python, append([]string{script, "--kinds"}, of...)...).Output()
	if err != nil {
		t.Fatalf("damage.py --kinds: %v", err)
	}
	kinds := strings.Fields(string(out))
	if len(kinds) < least {
		t.Errorf("only %d kinds of damage", len(kinds))
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			lake := filepath.Join(t.TempDir(), "lake")
			harness.CopyDir(t, g.Lake("lake"), lake)
			if out, err := exec.Command(bins.Python, script, lake, kind).CombinedOutput(); err != nil {
				t.Fatalf("damage.py %s: %v\n%s", kind, err, out)
			}
			for _, v := range harness.Check(t, lake, "") {
				if v.Clean {
					t.Errorf("%s finds nothing wrong after %s", v.Name, kind)
				}
			}
		})
	}
}
