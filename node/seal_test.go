package node

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"queen/internal/fakes3"
	"queen/lake"
)

// TestSealedQueue: payloads of a queue with encryptionEnabled are plain text in every answer and in the lake, and nowhere on the disk; the key is
// in nothing that the node writes. A node without the key leaves the queue alone and says so; with it, it goes on (contract R5, B1).
func TestSealedQueue(t *testing.T) {
	const key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	store := fakes3.New(fakes3.Options{Bucket: "lake", Secret: "queen-secret-key"})
	defer store.Close()
	endpoint, err := store.ListenTCP()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var shown strings.Builder
	life := func(settings ...string) (*Node, *output) {
		return open(t, dir, append(settings, "QUEEN_S3_EMBEDDED=true", "QUEEN_S3_QUEUES=*", "QUEEN_S3_ENDPOINT="+endpoint, "QUEEN_S3_REGION=us-east-1",
			"QUEEN_S3_PATH_STYLE=true", "QUEEN_S3_BUCKET=lake", "QUEEN_S3_ACCESS_KEY=queen", "QUEEN_S3_SECRET_KEY=queen-secret-key",
			"QUEEN_S3_START=earliest", "QUEEN_S3_MAX_WINDOW_MS=100", "QUEEN_S3_SAFE_GUARD_MS=0", "QUEEN_S3_DISCOVERY_INTERVAL_MS=20")...)
	}
	say := func(n *Node, method, path, body string) string {
		_, text := call(t, method, n.URL()+path, body)
		shown.WriteString(text)
		return text
	}
	end := func(n *Node, logs *output) {
		for _, path := range []string{"/status", "/metrics", "/metrics/prometheus", "/api/v1/resources/queues", "/health"} {
			say(n, "GET", path, "")
		}
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
		shown.WriteString(logs.String())
	}
	const push = `{"items":[{"queue":"orders","payload":{"order":"hunter2"}},{"queue":"orders","payload":"hunter2"},{"queue":"plain","payload":1}]}`

	n, logs := life("QUEEN_ENCRYPTION_KEY=" + key)
	say(n, "POST", "/api/v1/configure", `{"queue":"orders","options":{"encryptionEnabled":true}}`)
	say(n, "POST", "/api/v1/push", push)
	awaitRecords(t, n, 3)
	verify(t, n, store, 3)
	end(n, logs)

	n, logs = life()
	if got := say(n, "POST", "/api/v1/fetch", `{"entries":[{"queue":"orders"}]}`); !strings.Contains(got, `"payload":{"encrypted":"`) {
		t.Errorf("without the key fetch shows %s", got)
	}
	if got := say(n, "POST", "/api/v1/push", push); !strings.Contains(got, "encryption_required") {
		t.Errorf("without the key a push is answered %s", got)
	}
	awaitText(t, n, "this node has none: start this node with that QUEEN_ENCRYPTION_KEY")
	say(n, "POST", "/api/v1/push", `{"items":[{"queue":"plain","payload":2}]}`)
	awaitRecords(t, n, 1) // the queue beside it is mirrored as ever
	end(n, logs)

	n, logs = life("QUEEN_ENCRYPTION_KEY=" + key)
	say(n, "POST", "/api/v1/push", push)
	awaitRecords(t, n, 3)
	verify(t, n, store, 7)
	end(n, logs)

	if text := shown.String(); strings.Contains(text, key) || strings.Contains(text, "queen-secret-key") {
		t.Errorf("the key is shown in\n%s", text)
	}
	for _, secret := range []string{key, "hunter2"} {
		grep(t, dir, secret)
	}
}

// verify audits the lake against the broker.
func verify(t *testing.T, n *Node, store *fakes3.Server, records int64) {
	t.Helper()
	var faults []string
	summary, err := lake.Verify(t.Context(), bucket{store}, lake.Options{Prefix: "queen", Log: lake.HTTPLog{URL: n.URL(), Client: fresh()}},
		func(f lake.Fault) { faults = append(faults, f.String()) })
	if err != nil || len(faults) > 0 || summary.Records != records || summary.Compared != records {
		t.Errorf("%s, %v %q", summary, err, faults)
	}
}

// awaitText waits until /status holds a text.
func awaitText(t *testing.T, n *Node, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, status := call(t, "GET", n.URL()+"/status", "")
		if strings.Contains(status, text) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("status never says %q: %s", text, status)
		case <-tick.C:
		}
	}
}

// grep fails for each file below a folder that holds a text.
func grep(t *testing.T, dir, secret string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), secret) {
			t.Errorf("%s holds %q", path, secret)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
