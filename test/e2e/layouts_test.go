package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/test/harness"
)

// shape is one way to write a lake.
type shape struct{ format, codec, layout, align string }

func (s shape) String() string {
	return strings.Join([]string{s.format, s.codec, s.layout, s.align}, "-")
}

// env are the settings of a sink that writes in this way.
func (s shape) env() []string {
	codec := "QUEEN_S3_COMPRESSION"
	if s.format == "parquet" {
		codec = "QUEEN_S3_PARQUET_CODEC"
	}
	return []string{"QUEEN_S3_FORMAT", s.format, codec, s.codec, "QUEEN_S3_LAYOUT", s.layout, "QUEEN_S3_ALIGN", s.align}
}

// shapes asks the binary for all that it can write, so that what is new is in the matrix by itself.
func shapes(t *testing.T) (all []shape) {
	t.Helper()
	bins, err := harness.Build()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(bins.Queen, "settings", "--markdown").Output()
	if err != nil {
		t.Fatal(err)
	}
	values := func(name string) (vs []string) {
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\|[^|]*\\|([^|]*)\\|(.*)$").FindStringSubmatch(string(out))
		if row == nil {
			t.Fatalf("queen settings says nothing of %s", name)
		}
		for _, v := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if !regexp.MustCompile("`" + v[1] + "`[^`]*\\(not available").MatchString(row[2]) {
				vs = append(vs, v[1])
			}
		}
		return vs
	}
	codecs := map[string]string{"jsonl": "QUEEN_S3_COMPRESSION", "parquet": "QUEEN_S3_PARQUET_CODEC"}
	for _, format := range values("QUEEN_S3_FORMAT") {
		for _, codec := range values(codecs[format]) {
			for _, layout := range values("QUEEN_S3_LAYOUT") {
				for _, align := range values("QUEEN_S3_ALIGN") {
					all = append(all, shape{format, codec, layout, align})
				}
			}
		}
	}
	return all
}

// TestEveryShape writes a small lake in each way that there is into a real store. Both audits find no fault, and DuckDB reads back what the log has, to
// the byte.
func TestEveryShape(t *testing.T) {
	all := shapes(t)
	if len(all) < 18 {
		t.Fatalf("only %d ways to write a lake: %v", len(all), all)
	}
	var buckets []string
	for _, s := range all {
		buckets = append(buckets, s.String())
	}
	g := harness.StartGateway(t, t.TempDir(), buckets...)
	for _, s := range all {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			b := harness.StartBroker(t, t.TempDir(), harness.SinkEnv(g.URL, s.String()).With("QUEEN_S3_MAX_WINDOW_MS", "200", "QUEEN_S3_SAFE_GUARD_MS", "20",
				"QUEEN_S3_DISCOVERY_INTERVAL_MS", "20").With(s.env()...))
			partitions := []string{"Default", "клиент/1", "a \"q\"\t~", strings.Repeat("ж", 60)}
			for k := range 2 {
				var items []harness.Item
				for i, text := range shapePayloads {
					items = append(items, harness.Item{Queue: "orders", Partition: partitions[(i+k)%len(partitions)], TxID: fmt.Sprintf("tx %d/%d \"é", k, i), Payload: text})
				}
				if err := b.Push(items...); err != nil {
					t.Fatal(err)
				}
				b.WaitWindows(t, "orders", int64(k+1), 30*time.Second)
			}
			lake := g.Lake(s.String())
			objectsOf(t, lake, s, len(partitions))
			var args []string
			if s.align == "none" {
				args = []string{"--align", "none"}
			}
			harness.MustBeClean(t, lake, b.URL, args...)
			readBack(t, lake, s, b, partitions)
		})
	}
}

// shapePayloads are texts that careless readers and writers change.
var shapePayloads = []string{`{"total":42.00}`, `{ "a" :  1 }`, "{\n \"a\": 1\n}", "{\r\n \"a\":\r1\r\n}", `5`, `"hi"`, `[1,2.50]`, `null`, `""`, `{"a":1,"a":2}`, `1e400`, `-0`,
	"\"é 🛒 \u2028 \u0085 \x7f\"", `"<a href='x'>&amp;</a>"`, `"\u00e9\/\u003c\u00E9"`, `"\ud800"`, `{"n":9007199254740993123}`, `"\n\"payload\":1}\n{\"partition\":\"x\""`}

// objectsOf compares the names of the objects with the shape: two windows.
func objectsOf(t *testing.T, lake string, s shape, partitions int) {
	t.Helper()
	ext := map[string]string{"jsonl zstd": "jsonl.zst", "jsonl gzip": "jsonl.gz", "jsonl none": "jsonl"}[s.format+" "+s.codec]
	if ext == "" {
		ext = s.format
	}
	path, part, want := `dt=\d{4}-\d\d-\d\d/hour=\d\d/`, "", 2
	if s.align == "day" {
		path = `dt=\d{4}-\d\d-\d\d/`
	}
	if s.layout == "per-partition" {
		part, want = `-p-[A-Za-z0-9._%-]+(~[0-9a-f]{16})?-\d{12}-\d{12}`, 2*partitions
	}
	data := regexp.MustCompile(`^queen/` + tenantPath + `/` + path + `w-000000000[12]-\d{16}-\d{16}` + part + `\.` + regexp.QuoteMeta(ext) + `$`)
	n := 0
	for key := range harness.Keys(t, lake) {
		if strings.HasPrefix(key, "queen/_queen/") {
			continue
		}
		if n++; !data.MatchString(key) {
			t.Errorf("%s is not as %s says: %s", key, s, data)
		}
	}
	if n != want {
		t.Errorf("%d objects, want %d", n, want)
	}
}

// readBack lets DuckDB read a lake and compares it with the log.
func readBack(t *testing.T, lake string, s shape, b *harness.Broker, partitions []string) {
	t.Helper()
	bins, err := harness.Build()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	for _, p := range partitions {
		for _, r := range fetchAll(t, b, "orders", p) {
			rows = append(rows, map[string]any{"partition": p, "offset": r.Offset, "transactionId": r.TransactionID, "ts": r.TS, "payload": string(r.Payload)})
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(t.TempDir(), "want.json")
	if err := os.WriteFile(want, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bins.Python, filepath.Join(bins.Root, "test", "e2e", "readback.py"), lake, s.format, want)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != fmt.Sprintf("%d rows", len(rows)) {
		t.Errorf("%v: %s, want %d rows", err, out, len(rows))
	}
}

// TestPartitionNames mirrors a partition of each name that a lake must hold into a real store, each into an object of its own.
func TestPartitionNames(t *testing.T) {
	s := shape{"jsonl", "zstd", "per-partition", "hour"}
	g := harness.StartGateway(t, t.TempDir(), "lake")
	b := harness.StartBroker(t, t.TempDir(), harness.SinkEnv(g.URL, "lake").With("QUEEN_S3_MAX_WINDOW_MS", "1000", "QUEEN_S3_SAFE_GUARD_MS", "100",
		"QUEEN_S3_DISCOVERY_INTERVAL_MS", "50").With(s.env()...))
	partitions := []string{strings.Repeat("ж", 20), strings.Repeat("ж", 21), strings.Repeat("ж", 199) + "a", strings.Repeat("ж", 199) + "b", strings.Repeat("x", 405), "a-000000000000-000000000000"}
	for _, n := range names() {
		if !n.refused {
			partitions = append(partitions, n.text)
		}
	}
	var items []harness.Item
	for _, p := range partitions {
		items = append(items, harness.Item{Queue: "orders", Partition: p, TxID: "tx", Payload: "1"})
	}
	if err := b.Push(items...); err != nil { // one push: one stamp, one window
		t.Fatal(err)
	}
	if row := b.WaitWindows(t, "orders", 1, 60*time.Second); row.Records != int64(len(partitions)) || row.LastError != nil {
		t.Errorf("%+v", row)
	}
	keys := harness.Keys(t, g.Lake("lake"))
	for _, p := range partitions {
		esc := escaped(p)
		if len(esc) > 120 {
			sum := sha256.Sum256([]byte(esc))
			esc = esc[:100] + "~" + hex.EncodeToString(sum[:8])
		}
		n := 0
		for key := range keys {
			if strings.HasSuffix(key, "-p-"+esc+"-000000000000-000000000000.jsonl.zst") && strings.Count(key, "/") == 5 && strings.Contains(key, "/w-0000000001-") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d objects of partition %.80q, want the one that is called %s", n, p, esc)
		}
	}
	if len(keys) != len(partitions)+1 {
		t.Errorf("%d keys for %d partitions and a manifest", len(keys), len(partitions))
	}
	harness.MustBeClean(t, g.Lake("lake"), b.URL)
	readBack(t, g.Lake("lake"), s, b, partitions)
}

// escaped is a name as it stands in a key (docs/formats.md 7).
func escaped(name string) string {
	var out strings.Builder
	for i := range len(name) {
		if c := name[i]; slices.Contains([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"), c) {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}
