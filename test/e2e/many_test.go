package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen/test/harness"
)

// TestManyPartitions writes a window of very many partitions, all of one stamp, so that no rule can split it, in the smallest memory that is recommended.
func TestManyPartitions(t *testing.T) {
	const partitions = 20_000 // the manifest goes up in parts; 100,000 take the same memory, and five times as long
	g := harness.StartGateway(t, t.TempDir(), "lake")
	dir := t.TempDir()
	b := harness.StartBroker(t, dir, nil)
	items := make([]harness.Item, partitions)
	for i := range items {
		items[i] = harness.Item{Queue: "orders", Partition: fmt.Sprintf("customer-%06d", i), TxID: fmt.Sprint(i), Payload: `{"n":1}`}
	}
	if err := b.Push(items...); err != nil {
		t.Fatal(err)
	}
	b.Signal(15)
	if _, err := b.Wait(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	off := harness.StartBroker(t, dir, nil)
	idle := rssAnon(t, off)
	off.Signal(15)
	if _, err := off.Wait(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	b = harness.StartBroker(t, dir, harness.SinkEnv(g.URL, "lake").With("QUEEN_S3_LAYOUT", "per-partition", "QUEEN_S3_MEMORY_MB", "64", "QUEEN_S3_MAX_WINDOW_MS", "1000"))
	var most int64
	harness.Eventually(t, 8*time.Minute, func() (bool, string) {
		most = max(most, rssAnon(t, b))
		row, err := b.Row("orders")
		return err == nil && row.K >= 1, fmt.Sprintf("%+v %v", row, err)
	})
	t.Logf("%d objects in %v, RssAnon %d MiB, with the sink off %d MiB", partitions, time.Since(start), most>>20, idle>>20)
	row, err := b.Row("orders")
	if err != nil || row.K != 1 || row.Records != partitions {
		t.Errorf("%+v %v", row, err)
	}
	if most > idle+128<<20 {
		t.Errorf("the sink took %d MiB beside the broker's %d", (most-idle)>>20, idle>>20)
	}
	harness.MustBeClean(t, g.Lake("lake"), "") // against the log it would be a request a partition
}

var anon = regexp.MustCompile(`RssAnon:\s+(\d+) kB`)

// rssAnon is the memory of a process that no file backs, bytes.
func rssAnon(t *testing.T, b *harness.Broker) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	m := anon.FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("no RssAnon in %s", strings.ReplaceAll(string(text), "\n", "; "))
	}
	kb, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
