package lake

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the statements of testdata/ddl anew")

// TestStats: what the manifests add up to, a window without one, and one that cannot be read.
func TestStats(t *testing.T) {
	now := time.UnixMicro(1791010801000000).Add(90 * time.Second)
	m := whole(t)
	size := len(m[key1]) + len(m[key2]) + len(m[key3])
	for _, c := range []struct {
		spoil func()
		row   string
		ok    bool
	}{
		{func() {}, fmt.Sprintf("3 0 7 %d 3 2026-10-03T07:00:01.000000Z 1m30s tenant=%s/queue=orders", size, tenant), true},
		{func() { m[sides+"0000000003.json"] = []byte("{}") }, "2 1 6 ", false},
		{func() { delete(m, sides+"0000000001.json") }, "1 2 3 ", false},
		{func() { delete(m, sides+"0000000002.json"); delete(m, sides+"0000000003.json") }, "0 0 0 0 0 - - tenant=", true},
	} {
		c.spoil()
		var out strings.Builder
		s, err := Stats(t.Context(), m, Options{Prefix: "queen"}, now, &out)
		if err != nil {
			t.Fatal(err)
		}
		_, row, _ := strings.Cut(strings.Join(strings.Fields(out.String()), " "), " queue ")
		if !strings.HasPrefix(row, c.row) || (s.Faults == 0) != c.ok {
			t.Errorf("%+v, want %s\n%s", s, c.row, out.String())
		}
	}
}

// TestDDL: the statements of every engine, for a lake with several queues, formats and alignments. DuckDB and ClickHouse run theirs in test/compat.
func TestDDL(t *testing.T) {
	m := whole(t)
	for key, data := range whole(t) { // more queues, whose names are one identifier; one has no hours
		if strings.Contains(key, "queue=orders") {
			m[asQueue(key, "a%2Fb.c")] = []byte(asQueue(string(data), "a%2Fb.c"))
			m[asQueue(key, "a_b_c_2")] = []byte(asQueue(string(data), "a_b_c_2")) // what the second of them is called
			m[strings.Replace(asQueue(key, "a_b_c"), "/hour=06", "", 1)] = []byte(strings.Replace(asQueue(string(data), "a_b_c"), "/hour=06", "", 1))
		}
	}
	for key, data := range parquetLake(t, "zstd", packParquet(t, "zstd", "orders", parquetRows())) { // one of Parquet, and one whose format was changed
		m[asQueue(key, "events")] = []byte(asQueue(string(data), "events"))
		m[asQueue(key, "mixed")] = []byte(asQueue(string(data), "mixed"))
	}
	for _, key := range []string{key2, sides + "0000000002.json"} {
		m[asQueue(key, "mixed")] = []byte(asQueue(string(m[key]), "mixed"))
	}
	for place, at := range map[string]Place{
		"s3":     {Bucket: "lake", Region: "eu-west-1"},
		"minio":  {Bucket: "lake", Endpoint: "http://127.0.0.1:9000/"},
		"folder": {Folder: "/data/it's a lake/"},
	} {
		for _, engine := range Engines() {
			if at.Bucket == "" && engine != "duckdb" && engine != "clickhouse" || place == "minio" && engine != "clickhouse" {
				continue
			}
			var out strings.Builder
			if _, err := DDL(t.Context(), m, Options{Prefix: "queen"}, engine, at, &out); err != nil {
				t.Fatal(err)
			}
			golden(t, engine+"-"+place+".sql", out.String())
		}
	}
	if _, err := DDL(t.Context(), m, Options{}, "oracle", Place{}, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "athena, clickhouse, duckdb, spark, trino") {
		t.Errorf("an engine that nobody knows: %v", err)
	}
}

// asQueue is a key or a manifest of the queue orders, for one with this name, which is encoded.
func asQueue(text, name string) string {
	return strings.NewReplacer("queue=orders", "queue="+name, `"queue":"orders"`, `"queue":"`+unescapeName(name)+`"`).Replace(text)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "ddl", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not\n%s", path, got)
	}
}

// TestIdentifiers: any queue has a name that needs no quotes, and none has the SQL that it holds.
func TestIdentifiers(t *testing.T) {
	for name, want := range map[string]string{"orders": "orders", "Orders.EU-1": "orders_eu_1", "1x": "queue_1x", "_": "queue_", "": "queue_", "клиент": "queue_", "a'; DROP TABLE x": "a___drop_table_x"} {
		if got := identifier(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
