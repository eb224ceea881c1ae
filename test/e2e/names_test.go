package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"queen/test/harness"
)

// name is a name of a queue and of a partition, and what its keys have behind "queue=".
type name struct {
	text    string
	path    string // "" = not mirrored
	refused bool   // by the push
	why     string // in lastError, when it is taken and not mirrored
}

// names are the rows of names that a lake must hold.
func names() []name {
	same := func(texts ...string) (out []name) {
		for _, text := range texts {
			out = append(out, name{text: text, path: text})
		}
		return out
	}
	all := same("orders", "Orders", "a.b_c-1", ".", "..", "007", "1e5", "true", "NaN", "2024-01-01", "null", "NULL", "__HIVE_DEFAULT_PARTITION__",
		"_queen", "t1", "t10", "cust-1", "01a1007b-855d-7001-8107-adfdabd3e51c", strings.Repeat("n", 249))
	return append(all,
		name{text: "a b", path: "a%20b"}, name{text: "a/b", path: "a%2Fb"}, name{text: "a=b", path: "a%3Db"}, name{text: "a:b", path: "a%3Ab"},
		name{text: "a+b", path: "a%2Bb"}, name{text: "a~b", path: "a%7Eb"}, name{text: "a%20b", path: "a%2520b"}, name{text: "50%", path: "50%25"},
		name{text: "../../etc", path: "..%2F..%2Fetc"}, name{text: "a/../b", path: "a%2F..%2Fb"}, name{text: "tenant=x", path: "tenant%3Dx"},
		name{text: "ключ", path: "%D0%BA%D0%BB%D1%8E%D1%87"}, name{text: "注文", path: "%E6%B3%A8%E6%96%87"}, name{text: "🛒", path: "%F0%9F%9B%92"},
		name{text: "\u00e9", path: "%C3%A9"}, name{text: "e\u0301", path: "e%CC%81"}, name{text: "  ", path: "%20%20"},
		name{text: "a\nb", path: "a%0Ab"}, name{text: "a\x00b", path: "a%00b"}, name{text: "a\x1b[31mb", path: "a%1B%5B31mb"},
		name{text: "'", path: "%27"}, name{text: "{}", path: "%7B%7D"}, name{text: `"`, path: "%22"}, name{text: "<script>", path: "%3Cscript%3E"},
		name{text: "a+b@c.d", path: "a%2Bb%40c.d"}, name{text: "https://x/y?z=1#f", path: "https%3A%2F%2Fx%2Fy%3Fz%3D1%23f"},
		name{text: `{"a":1}`, path: "%7B%22a%22%3A1%7D"},
		name{text: strings.Repeat("n", 250), why: "the segment queue= of its object keys would have 256 bytes"},
		name{text: strings.Repeat("ж", 42), why: "after percent-encoding, stores take 255"},
		name{text: strings.Repeat("n", 1<<20), refused: true},
		name{text: "", refused: true},
	)
}

// oneWindow is a sample of a queue with one window, whatever its name.
var oneWindow = regexp.MustCompile(`^queen_s3_windows_committed_total\{queue="([^"\\\n]|\\["\\n])*"\} 1\n$`)

// TestNames mirrors a queue of each name, with a partition of each name, into a real store. Each has a place of its own that says its name, and
// what no store would take is said in the row of that queue alone.
func TestNames(t *testing.T) {
	g := harness.StartGateway(t, t.TempDir(), "lake")
	b := harness.StartBroker(t, t.TempDir(), harness.SinkEnv(g.URL, "lake").With("QUEEN_S3_QUEUES", "*", "QUEEN_S3_MAX_WINDOW_MS", "1000", "QUEEN_S3_SAFE_GUARD_MS", "100",
		"QUEEN_S3_DISCOVERY_INTERVAL_MS", "50"))
	taken := 0
	for _, n := range names() {
		partition := n.text
		if len(partition) > 200 { // queue and partition may have 411 bytes together
			partition = "p"
		}
		status, out, err := b.Do("POST", "/api/v1/push", harness.PushBody([]harness.Item{{Queue: n.text, Partition: partition, TxID: "tx", Payload: "1"}}))
		switch {
		case err != nil:
			t.Fatalf("%.60q: %v", n.text, err)
		case n.refused && (status < 400 || status >= 500):
			t.Errorf("%.60q: %d %.200s, want a refusal", n.text, status, out)
		case !n.refused && status != 201:
			t.Errorf("%.60q: %d %.200s, want 201", n.text, status, out)
		}
		if n.path != "" {
			taken++
		}
	}
	for _, n := range names() {
		switch {
		case n.path != "":
			if row := b.WaitWindows(t, n.text, 1, 60*time.Second); row.Records != 1 || row.LastError != nil {
				t.Errorf("%.60q: %+v", n.text, row)
			}
		case n.why != "":
			harness.Eventually(t, 60*time.Second, func() (bool, string) {
				row, err := b.Row(n.text)
				return err == nil && row.State == "failed" && row.LastError != nil && strings.Contains(row.LastError.Message, n.why), fmt.Sprintf("%.80q: %+v %v", n.text, row, err)
			})
		}
	}
	places(t, g.Lake("lake"))
	_, metrics, err := b.Do("GET", "/metrics/prometheus", nil)
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]bool{}
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, "queen_s3_windows_committed_total{") && oneWindow.MatchString(line) {
			series[line] = true
		}
	}
	if len(series) != taken {
		t.Errorf("%d series of windows for %d queues, each on a line of its own: %s", len(series), taken, metrics)
	}
	harness.MustBeClean(t, g.Lake("lake"), "")
}

// places looks for the two keys of each name, and for keys of nobody.
func places(t *testing.T, lake string) {
	t.Helper()
	keys := harness.Keys(t, lake)
	const tenant = "tenant=00000000-0000-0000-0000-000000000001/queue="
	seen := map[string]int{}
	for _, n := range names() {
		if n.path == "" {
			continue
		}
		if seen[n.path]++; seen[n.path] > 1 {
			t.Errorf("two names have the path %s", n.path)
		}
		data, manifests := 0, 0
		for key := range keys {
			if strings.HasPrefix(key, "queen/"+tenant+n.path+"/dt=") {
				data++
			}
			if strings.HasPrefix(key, "queen/_queen/"+tenant+n.path+"/windows/") {
				manifests++
			}
		}
		if data != 1 || manifests != 1 {
			t.Errorf("%.60q: %d objects and %d manifests under %s, want one each", n.text, data, manifests, n.path)
		}
	}
	if len(keys) != 2*len(seen) {
		t.Errorf("%d keys for %d names", len(keys), len(seen))
	}
}

// TestClient runs the tests of package upload that need a store which runs.
func TestClient(t *testing.T) {
	g := harness.StartGateway(t, t.TempDir(), "lake")
	bins, err := harness.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"vet", "-tags", "store", "./upload"}, {"test", "-tags", "store", "-count=1", "-v", "-run", "RealStore", "./upload"}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = bins.Root
		cmd.Env = append(os.Environ(), "STORE_ENDPOINT="+g.URL, "STORE_BUCKET=lake", "STORE_ACCESS_KEY="+harness.AccessKey, "STORE_SECRET_KEY="+harness.SecretKey)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		if args[0] == "test" && strings.Count(string(out), "--- PASS: Test") != 4 {
			t.Errorf("not the four tests ran:\n%s", out)
		}
	}
}
