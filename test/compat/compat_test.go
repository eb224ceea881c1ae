package compat

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"queen/test/harness"
)

// row is a record as the lake must show it; the payload is the text behind "payload": in its line.
type row struct {
	Partition string `json:"partition"`
	Offset    int64  `json:"offset"`
	TxID      string `json:"transactionId"`
	TS        string `json:"ts"`
	Payload   string `json:"payload"`
}

// typed are payloads that every reader takes as columns and values; odd are those that some reader only takes as text (a lone surrogate, a
// number that no type holds, a name twice): of them, lines are compared.
func typed() []string {
	return []string{
		`{"total":42.00}`, `{ "a" :  1 }`, "{\n \"a\": 1\n}", "{\r\n \"a\":\r1\r\n}", `5`, `true`, `"hi"`, `[]`, `[1,2.50]`, `null`, `""`,
		"\"é 🛒 \u2028 \u2029 \u0085 \x7f\"", `"<a href='x'>&amp;</a>"`, `{"n":[1.50,{"b":"x\ny"}],"t":"2026-10-03"}`,
		`{"partition":"x","offset":0,"payload":1}`, `"\n\"payload\":1}\n{\"partition\":\"x\""`, `"\u00e9\/\u003c\u00E9"`, `{"":0}`, `9007199254740993`,
	}
}

func odd() []string {
	texts := []string{
		`{"n":9007199254740993123}`, `123456789012345678901234567890`, `1e400`, `-0`, `1E+2`, `{"a":1,"a":2}`, `"\ud800"`, `"\u0000"`,
		strings.Repeat("[", 500) + strings.Repeat("]", 500), `"` + strings.Repeat("x", 1_000_000) + `"`,
		`{"` + strings.Repeat("k", 64<<10) + `":1}`,
	}
	sum := sha256.Sum256(nil)
	for range 4 { // a frame of many blocks: 5 MB that hardly compress
		var text strings.Builder
		for text.Len() < 1_250_000 {
			sum = sha256.Sum256(sum[:])
			fmt.Fprintf(&text, "%x", sum)
		}
		texts = append(texts, `"`+text.String()+`"`)
	}
	return texts
}

const oddQueue = "odd"

// TestReaders makes one lake for each compression, and lets every reader read all of it.
func TestReaders(t *testing.T) {
	bins, err := harness.Build()
	if err != nil {
		t.Fatal(err)
	}
	g := harness.StartGateway(t, t.TempDir(), "zstd", "gzip", "none", "parquet-zstd", "parquet-snappy")
	for _, compression := range []string{"zstd", "gzip", "none", "parquet-zstd", "parquet-snappy"} {
		t.Run(compression, func(t *testing.T) {
			want := filepath.Join(t.TempDir(), "want.json")
			rows := fill(t, g, compression, compression)
			text, err := json.Marshal(rows)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(want, text, 0o600); err != nil {
				t.Fatal(err)
			}
			read(t, bins, g.Lake(compression), want, true)
			if strings.HasPrefix(compression, "parquet") {
				readGo(t, g.Lake(compression), rows)
			}
			damage(t, text, want)
			read(t, bins, g.Lake(compression), want, false)
		})
	}
}

// fill pushes into three queues of many partitions, restarts between windows, and returns what the lake must hold, by queue.
func fill(t *testing.T, g *harness.Gateway, bucket, compression string) map[string][]row {
	t.Helper()
	env := harness.SinkEnv(g.URL, bucket).With("QUEEN_S3_QUEUES", "*", "QUEEN_S3_MAX_WINDOW_MS", "300",
		"QUEEN_S3_SAFE_GUARD_MS", "50", "QUEEN_S3_DISCOVERY_INTERVAL_MS", "100")
	codec, parquet := strings.CutPrefix(compression, "parquet-")
	if parquet {
		env = env.With("QUEEN_S3_FORMAT", "parquet", "QUEEN_S3_PARQUET_CODEC", codec)
	} else {
		env = env.With("QUEEN_S3_COMPRESSION", compression)
	}
	b := harness.StartBroker(t, t.TempDir(), env)
	partitions := []string{"Default", "клиент/1", "a \"quoted\\ name\t", "a+b@c.d", "007"}
	payloads, counts := map[string]string{}, map[string]int64{}
	for round := range 3 {
		for name, texts := range map[string][]string{"orders": typed(), "a/b 100%": typed(), oddQueue: odd()} {
			var items []harness.Item
			for i, text := range texts {
				it := harness.Item{Queue: name, Partition: partitions[(i+round)%len(partitions)], TxID: fmt.Sprintf("tx %d/%d \"é", round, i), Payload: text}
				items = append(items, it)
				if !parquet {
					text = strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
				}
				payloads[name+it.TxID] = text
			}
			if err := b.Push(items...); err != nil {
				t.Fatal(err)
			}
			counts[name] += int64(len(texts))
		}
		for name, n := range counts { // so that each round has objects of its own
			harness.Eventually(t, 60*time.Second, func() (bool, string) {
				row, err := b.Row(name)
				return err == nil && row.Records == n, fmt.Sprintf("%s: %+v %v, want %d records", name, row, err, n)
			})
		}
	}
	harness.MustBeClean(t, g.Lake(bucket), b.URL)
	out := log(t, b, partitions)
	for name, rows := range out {
		if int64(len(rows)) != counts[name] {
			t.Fatalf("the log of %s has %d records, %d were pushed", name, len(rows), counts[name])
		}
		for i := range rows {
			rows[i].Payload = payloads[name+rows[i].TxID]
		}
	}
	return out
}

// read lets every reader read a lake. Each must say that all is as wanted, or none.
func read(t *testing.T, bins harness.Binaries, lake, want string, well bool) {
	t.Helper()
	cmd := exec.Command(bins.Python, filepath.Join(bins.Root, "test", "compat", "read.py"), lake, want)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); err != nil && code != 1 {
		t.Fatalf("read.py: %v\n%s", err, out)
	}
	good, bad := 0, 0
	for line := range strings.Lines(string(out)) {
		switch {
		case strings.HasPrefix(line, "ok "):
			good++
		case strings.HasPrefix(line, "FAIL "):
			bad++
		default:
			t.Fatalf("read.py says\n%s", out)
		}
	}
	if strings.Contains(lake, "parquet") != strings.Contains(string(out), "pyarrow") {
		t.Errorf("read.py took the lake for another:\n%s", out)
	}
	if well && (bad > 0 || good < readers) || !well && (good > 0 || bad < readers) {
		t.Errorf("%d of %d readers agree, at a lake that is as wanted: %v\n%s", good, good+bad, well, out)
	}
	if well {
		t.Logf("\n%s", out)
	}
}

const readers = 5 // at the least

// damage changes one digit of what a lake must hold.
func damage(t *testing.T, text []byte, want string) {
	t.Helper()
	changed := strings.Replace(string(text), "42.00", "42.01", 1)
	if changed == string(text) {
		t.Fatal("nothing to change")
	}
	if err := os.WriteFile(want, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

// log fetches partition, offset, transaction id and stamp of all records, by queue in stamp order.
func log(t *testing.T, b *harness.Broker, partitions []string) map[string][]row {
	t.Helper()
	out := map[string][]row{}
	for _, queue := range []string{"orders", "a/b 100%", oddQueue} {
		entries := []map[string]any{}
		for _, p := range partitions {
			entries = append(entries, map[string]any{"queue": queue, "partition": p, "offset": 0, "maxBytes": 8 << 20})
		}
		body, err := json.Marshal(map[string]any{"entries": entries})
		if err != nil {
			t.Fatal(err)
		}
		status, text, err := b.Do("POST", "/api/v1/fetch", body)
		var answer struct {
			Entries []struct {
				Partition string
				Records   []struct {
					Offset        int64
					TransactionID string
					TS            string
				}
				Error string
			}
		}
		if err != nil || status != 200 || json.Unmarshal(text, &answer) != nil {
			t.Fatalf("fetch: %d %v %.300s", status, err, text)
		}
		for _, e := range answer.Entries {
			if e.Error != "" {
				t.Fatalf("fetch %s/%s: %s", queue, e.Partition, e.Error)
			}
			for _, r := range e.Records {
				out[queue] = append(out[queue], row{Partition: e.Partition, Offset: r.Offset, TxID: r.TransactionID, TS: r.TS})
			}
		}
	}
	return out
}
