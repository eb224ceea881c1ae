package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/test/harness"
)

// TestMemoryOfLargeRecords holds the sink to the contract's number for memory where single records are large against it: one window of them, RssAnon over the same
// broker on the same log with the sink off, at most QUEEN_S3_MEMORY_MB + 64 MB + 8 times the largest record for Parquet, 3 times for JSONL. The windows are larger than
// the memory, and a record of 32 MiB less 1 KiB is about the largest that a push takes with no setting.
func TestMemoryOfLargeRecords(t *testing.T) {
	for _, c := range []struct{ records, mib, memory int }{{64, 4, 64}, {20, 32, 512}} {
		t.Run(fmt.Sprintf("%d of %d MB in %d", c.records, c.mib, c.memory), func(t *testing.T) {
			dir := t.TempDir()
			stop := func(b *harness.Broker) {
				t.Helper()
				b.Signal(15)
				if code, err := b.Wait(30 * time.Second); err != nil || code != 0 {
					t.Fatalf("stop: exit %d, %v", code, err)
				}
			}
			b := harness.StartBroker(t, dir, nil)
			for i := range c.records {
				if err := b.Push(harness.Item{Queue: "orders", Partition: fmt.Sprint(i % 3), TxID: fmt.Sprint(i), Payload: noise(t, c.mib<<10-1)}); err != nil {
					t.Fatal(err)
				}
			}
			stop(b)
			b = harness.StartBroker(t, dir, nil)
			off := rssAnon(t, b)
			stop(b)
			for format, times := range map[string]int64{"parquet": 8, "jsonl": 3} {
				g := harness.StartGateway(t, t.TempDir(), "lake")
				env := harness.SinkEnv(g.URL, "lake").With("QUEEN_S3_SINK", format, "QUEEN_S3_FORMAT", format, "QUEEN_S3_MEMORY_MB", fmt.Sprint(c.memory), "QUEEN_S3_TARGET_MB", "5120",
					"QUEEN_S3_MAX_WINDOW_MS", "1000", "QUEEN_S3_SAFE_GUARD_MS", "100")
				b := harness.StartBroker(t, dir, env)
				var most int64
				harness.Eventually(t, 3*time.Minute, func() (bool, string) {
					most = max(most, rssAnon(t, b))
					row, err := b.Row("orders")
					return err == nil && row.K == 1, strings.TrimSpace(fmt.Sprintf("%+v %v", row, err))
				})
				row, err := b.Row("orders")
				if err != nil || row.Records != int64(c.records) {
					t.Errorf("%s: %+v %v: not one window", format, row, err)
				}
				bound := int64(c.memory+64)<<20 + times*int64(c.mib)<<20
				t.Logf("%s: RssAnon %d MiB, with the sink off %d MiB: the sink %d MiB of %d", format, most>>20, off>>20, (most-off)>>20, bound>>20)
				if most-off > bound {
					t.Errorf("%s: the sink took %d MiB, its bound is %d", format, (most-off)>>20, bound>>20)
				}
				stop(b)
				harness.MustBeClean(t, g.Lake("lake"), "")
			}
		})
	}
}
