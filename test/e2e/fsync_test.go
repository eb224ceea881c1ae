package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"queen/test/harness"
)

// TestFsyncBeforeAnswer counts with strace: pushes that are sent one after another are one group each, so the raft log is synced at least as
// often as pushes are answered. Syncs of other files do not count, and neither do as many as ticks may have caused.
func TestFsyncBeforeAnswer(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	b := harness.StartBroker(t, t.TempDir(), nil, "strace", "-f", "-qq", "-y", "-e", "trace=fsync,fdatasync", "-o", trace)
	before, start := syncs(t, trace), time.Now()
	const pushes = 200
	for i := range pushes {
		if err := b.Push(harness.Item{Queue: "q", Partition: "p", TxID: fmt.Sprint(i), Payload: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	ticks := int(time.Since(start)/(500*time.Millisecond)) + 1 // an idle broker proposes one each half second
	n := syncs(t, trace) - before
	t.Logf("%d groups answered, %d fsyncs of the raft log, at most %d of them for ticks", pushes, n, ticks)
	if n < pushes {
		t.Errorf("%d fsyncs for %d answered groups", n, pushes)
	}
}

// syncCall is the start of a sync of a file of the raft log; strace -y shows the path of the descriptor.
var syncCall = regexp.MustCompile(`(?m)\b(fsync|fdatasync)\(\d+<[^>]*/raft/[^>]*\.wal>`)

func syncs(t *testing.T, trace string) int {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return len(syncCall.FindAll(text, -1))
}

// TestHeldFsyncHoldsTheAnswer makes every fsync take a second: no push may be answered sooner.
func TestHeldFsyncHoldsTheAnswer(t *testing.T) {
	const held = time.Second
	b := harness.StartBroker(t, t.TempDir(), nil)
	if err := b.Push(harness.Item{Queue: "q", Partition: "p", TxID: "before", Payload: "1"}); err != nil {
		t.Fatal(err)
	}
	harness.Attach(t, b.Process, "strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", os.DevNull,
		"-e", fmt.Sprintf("inject=fsync,fdatasync:delay_enter=%d", held.Microseconds()), "-p", fmt.Sprint(b.Pid()))
	for i := range 3 {
		start := time.Now()
		if err := b.Push(harness.Item{Queue: "q", Partition: "p", TxID: fmt.Sprint(i), Payload: "1"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < held {
			t.Errorf("push %d was answered after %s while each fsync takes %s", i, took, held)
		} else {
			t.Logf("push %d was answered after %s; each fsync takes %s", i, took, held)
		}
	}
}
