package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"queen/test/harness"
)

const encryptionKey = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"

// TestSealed: records of a queue with encryptionEnabled, before and after a kill -9: plain text in the lake, which both audits find whole against
// the broker, and in no file of the broker, neither log nor segments; the key is in no file and in nothing that the process prints. Without the
// key the broker serves envelopes and mirrors nothing of the queue.
func TestSealed(t *testing.T) {
	for _, format := range []string{"jsonl", "parquet"} {
		t.Run(format, func(t *testing.T) {
			g := harness.StartGateway(t, t.TempDir(), "lake")
			env := harness.SinkEnv(g.URL, "lake").With("QUEEN_S3_MAX_WINDOW_MS", "1000", "QUEEN_S3_SAFE_GUARD_MS", "100", "QUEEN_S3_DISCOVERY_INTERVAL_MS", "50",
				"QUEEN_S3_FORMAT", format, "QUEEN_S3_COMPRESSION", "none", "QUEEN_ENCRYPTION_KEY", encryptionKey, "QUEEN_S3_CHECKPOINT_EVERY", "1")
			dir := t.TempDir()
			b := harness.StartBroker(t, dir, env)
			if status, out, err := b.Do("POST", "/api/v1/configure", []byte(`{"queue":"orders","options":{"encryptionEnabled":true}}`)); err != nil || status != 200 {
				t.Fatalf("configure: %d %s %v", status, out, err)
			}
			push := func(payload string) {
				t.Helper()
				if err := b.Push(harness.Item{Queue: "orders", Partition: "p", Payload: payload}); err != nil {
					t.Fatal(err)
				}
			}
			push(`{"card":"hunter2-before"}`)
			b.WaitWindows(t, "orders", 1, 60*time.Second)
			b.Kill()
			printed := strings.Join(b.Lines(), "\n")

			b = harness.StartBroker(t, dir, env.With("QUEEN_ENCRYPTION_KEY", ""))
			if got := fetchAll(t, b, "orders", "p"); len(got) != 1 || !bytes.HasPrefix(got[0].Payload, []byte(`{"encrypted":"`)) {
				t.Errorf("without the key: %+v", got)
			}
			harness.Eventually(t, 30*time.Second, func() (bool, string) {
				_, status, _ := b.Do("GET", "/status", nil)
				return strings.Contains(string(status), "start this node with that QUEEN_ENCRYPTION_KEY"), string(status)
			})
			b.Kill()
			printed += strings.Join(b.Lines(), "\n")

			b = harness.StartBroker(t, dir, env)
			push(`{"card":"hunter2-after"}`)
			b.WaitWindows(t, "orders", 2, 60*time.Second)
			harness.MustBeClean(t, g.Lake("lake"), b.URL)
			b.Signal(syscall.SIGTERM)
			if code, err := b.Wait(30 * time.Second); err != nil || code != 0 {
				t.Errorf("stop: %d %v", code, err)
			}
			printed += strings.Join(b.Lines(), "\n")

			if n := filesWith(t, dir, "hunter2"); n != 0 {
				t.Errorf("%d files of the broker hold plain text", n)
			}
			if n := filesWith(t, g.Lake("lake"), "hunter2-before") + filesWith(t, g.Lake("lake"), "hunter2-after"); n != 2 && format == "jsonl" {
				t.Errorf("%d objects of the lake hold the records, want 2", n)
			}
			if n := filesWith(t, dir, encryptionKey) + filesWith(t, g.Lake("lake"), encryptionKey); n != 0 || strings.Contains(printed, encryptionKey) {
				t.Errorf("the key is in %d files, or in what the process printed:\n%s", n, printed)
			}
		})
	}
}

// filesWith counts the files below a folder that hold a text.
func filesWith(t *testing.T, dir, text string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
