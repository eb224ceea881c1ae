package compat

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"queen/test/harness"
)

// TestViews: the statements of `queen lake ddl` run in the engines that this machine has, and their views show every record: from the folder, and for
// ClickHouse from the bucket too. A view over a lake that lacks a record does not pass.
func TestViews(t *testing.T) {
	bins, err := harness.Build()
	if err != nil {
		t.Fatal(err)
	}
	g := harness.StartGateway(t, t.TempDir(), "views")
	want := fill(t, g, "views", "zstd")
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ engine, target string }{
		{"duckdb", g.Lake("views")}, {"clickhouse", g.Lake("views")}, {"clickhouse", "s3://views"},
	} {
		ddl := exec.Command(bins.Queen, "lake", "ddl", "--for", c.engine, c.target)
		ddl.Env = harness.SinkEnv(g.URL, "views").List()
		statements, err := ddl.Output()
		if err != nil {
			t.Fatalf("%s, %s: %v", c.engine, c.target, err)
		}
		if strings.HasPrefix(c.target, "s3:") {
			statements = withKeys(t, statements)
		}
		show(t, bins, c.engine, statements, text, true)
		show(t, bins, c.engine, statements, []byte(strings.Replace(string(text), `"offset":0`, `"offset":9`, 1)), false)
	}
}

// withKeys gives the gateway's keys to each of ClickHouse's s3().
func withKeys(t *testing.T, statements []byte) []byte {
	t.Helper()
	const format = "', 'JSONEachRow', "
	keyed := strings.ReplaceAll(string(statements), format, "', '"+harness.AccessKey+"', '"+harness.SecretKey+format)
	if n := strings.Count(string(statements), format); n == 0 || n != strings.Count(string(statements), "FROM s3(") {
		t.Fatalf("no place for the keys in:\n%s", statements)
	}
	return []byte(keyed)
}

func show(t *testing.T, bins harness.Binaries, engine string, statements, want []byte, well bool) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{"statements.sql": statements, "want.json": want} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bins.Python, filepath.Join(bins.Root, "test", "compat", "views.py"), engine, filepath.Join(dir, "statements.sql"), filepath.Join(dir, "want.json"))
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if (err == nil) != well || !strings.HasPrefix(string(out), map[bool]string{true: "ok ", false: "FAIL "}[well]) {
		t.Errorf("%v\n%s\n%.2000s", err, out, statements)
	}
}
