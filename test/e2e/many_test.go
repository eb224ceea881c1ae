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

// distinctPartitions is how many partitions TestDistinctPartitions puts into a window. QUEEN_PARTITIONS=1000000 takes seven minutes on two busy cores (go test -timeout 20m).
const distinctPartitions = 20_000

// TestDistinctPartitions writes one object of very many partitions, each new to the broker, which were pushed ten thousand at a time. The sink gets the memory that the list of such a window
// needs (contract B3: it may take half) and must keep to it beside the broker.
func TestDistinctPartitions(t *testing.T) {
	partitions := distinctPartitions
	if text := os.Getenv("QUEEN_PARTITIONS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		partitions = n
	}
	memory := max(64, partitions/4000) // MiB
	g := harness.StartGateway(t, t.TempDir(), "lake")
	dir := t.TempDir()
	b := harness.StartBroker(t, dir, nil)
	begun := time.Now()
	for first := 0; first < partitions; first += 10_000 {
		items := make([]harness.Item, min(10_000, partitions-first))
		for i := range items {
			items[i] = harness.Item{Queue: "orders", Partition: fmt.Sprintf("customer-%09d", (first+i)*7919%partitions), TxID: fmt.Sprint(first + i), Payload: `{"n":1}`}
		}
		if err := b.Push(items...); err != nil {
			t.Fatal(err)
		}
	}
	pushed := time.Since(begun)
	windows := int64(1)
	if begun.UTC().Hour() != time.Now().UTC().Hour() {
		windows = 2 // an object has no records of two hours
	}
	stop := func(b *harness.Broker) {
		t.Helper()
		b.Signal(15)
		if _, err := b.Wait(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	stop(b)
	booting := time.Now()
	b = harness.StartBroker(t, dir, nil)
	boot, idle := time.Since(booting), rssAnon(t, b)
	stop(b)
	start := time.Now()
	b = harness.StartBroker(t, dir, harness.SinkEnv(g.URL, "lake").With("QUEEN_S3_ALIGN", "hour", "QUEEN_S3_MEMORY_MB", fmt.Sprint(memory), "QUEEN_S3_TARGET_MB", "1024", "QUEEN_S3_MAX_WINDOW_MS", "1000"))
	var most int64
	var row harness.QueueRow
	harness.Eventually(t, 8*time.Minute, func() (ok bool, what string) {
		most = max(most, rssAnon(t, b))
		var err error
		row, err = b.Row("orders")
		return err == nil && row.Records >= int64(partitions), fmt.Sprintf("%+v %v", row, err)
	})
	t.Logf("%d partitions pushed in %v, boot in %v, in the lake after %v: %d windows, RssAnon %d MiB with %d MiB for the sink, with the sink off %d MiB", partitions, pushed, boot,
		time.Since(start), row.K, most>>20, memory, idle>>20)
	if row.K != windows || row.Records != int64(partitions) {
		t.Errorf("%d records in %d windows, want %d in %d", row.Records, row.K, partitions, windows)
	}
	if most > idle+int64(memory+64)<<20 {
		t.Errorf("the sink took %d MiB beside the broker's %d, it may have %d", (most-idle)>>20, idle>>20, memory)
	}
	begun = time.Now()
	harness.MustBeClean(t, g.Lake("lake"), "")
	t.Logf("audited in %v", time.Since(begun))
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
