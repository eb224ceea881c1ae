package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"queen/test/harness"
)

const tenantPath = "tenant=00000000-0000-0000-0000-000000000001/queue=orders"

// TestGuide is the example of the user guide, to the key and the line: three messages to two partitions of a queue that does not exist
// yet, one window, two objects, payloads as the producer wrote them, and a reader that knows nothing of Queen.
func TestGuide(t *testing.T) {
	g := harness.StartGateway(t, t.TempDir(), "lake")
	b := harness.StartBroker(t, t.TempDir(), harness.SinkEnv(g.URL, "lake"))
	harness.Eventually(t, 5*time.Second, func() (bool, string) {
		row, err := b.Row("orders")
		return err == nil && row.State == "missing", fmt.Sprintf("%+v %v", row, err)
	})
	push(t, b)
	row := b.WaitWindows(t, "orders", 1, 30*time.Second)
	if row.State != "filling" || row.K != 1 || row.WindowsCommitted != 1 || row.Records != 3 {
		t.Errorf("row is %+v, want filling, k 1, 1 window, 3 records", row)
	}
	checkLake(t, g.Lake("lake"))
	harness.MustBeClean(t, g.Lake("lake"), b.URL)
	duckdb(t, g.Lake("lake"))
	b.Signal(15)
	if code, err := b.Wait(10 * time.Second); err != nil || code != 0 {
		t.Errorf("after SIGTERM: exit %d, %v", code, err)
	}
}

func push(t *testing.T, b *harness.Broker) {
	t.Helper()
	body := `{"items":[
 {"queue":"orders","partition":"cust-1","payload":{"order":1,"status":"new","total":42.00}},
 {"queue":"orders","partition":"cust-2","payload":{"order":2,"status":"new","total":17.50}},
 {"queue":"orders","partition":"cust-1","payload":{"order":1,"status":"paid","total":42.00}}
]}`
	if status, out, err := b.Do("POST", "/api/v1/push", []byte(body)); err != nil || status != 201 {
		t.Fatalf("push: %d %s %v", status, out, err)
	}
}

func checkLake(t *testing.T, lake string) {
	t.Helper()
	keys := harness.Keys(t, lake)
	data := regexp.MustCompile(`^queen/` + tenantPath + `/dt=\d{4}-\d\d-\d\d/hour=\d\d/w-0000000001-(\d{16})-\d{16}\.jsonl\.zst$`)
	var object string
	for key := range keys {
		if m := data.FindStringSubmatch(key); m != nil {
			object = key
			var start int64
			fmt.Sscan(m[1], &start)
			if start%3_600_000_000 != 0 {
				t.Errorf("first window starts at %d, not at the hour of its first record", start)
			}
			continue
		}
		if key != "queen/_queen/"+tenantPath+"/windows/0000000001.json" {
			t.Errorf("unexpected object %s", key)
		}
	}
	if len(keys) != 2 || object == "" {
		t.Fatalf("lake holds %v, want one object and one manifest", keys)
	}
	lines := decode(t, filepath.Join(lake, object))
	want := []string{
		`^\{"partition":"cust-1","offset":0,"transactionId":"[0-9a-f-]{36}","ts":"[0-9T:.-]{26}Z","payload":\{"order":1,"status":"new","total":42.00\}\}$`,
		`^\{"partition":"cust-1","offset":1,"transactionId":"[0-9a-f-]{36}","ts":"[0-9T:.-]{26}Z","payload":\{"order":1,"status":"paid","total":42.00\}\}$`,
		`^\{"partition":"cust-2","offset":0,"transactionId":"[0-9a-f-]{36}","ts":"[0-9T:.-]{26}Z","payload":\{"order":2,"status":"new","total":17.50\}\}$`,
	}
	if len(lines) != len(want) {
		t.Fatalf("object has %d lines: %q", len(lines), lines)
	}
	for i, w := range want {
		if !regexp.MustCompile(w).MatchString(lines[i]) {
			t.Errorf("line %d is %s", i, lines[i])
		}
	}
}

func decode(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var out strings.Builder
	if _, err := d.WriteTo(&out); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// duckdb reads the lake as its users do: a glob with Hive partitioning. The rows come back as the producer's numbers; that the text is the
// producer's too is seen where DuckDB reads each line as one string.
func duckdb(t *testing.T, lake string) {
	t.Helper()
	bins, err := harness.Build()
	if err != nil {
		t.Fatal(err)
	}
	query := fmt.Sprintf(`import duckdb
lake = '%s/queen/tenant=*/queue=*/dt=*/hour=*/*.jsonl.zst'
for row in duckdb.sql(f"""SELECT queue, partition, "offset", payload->>'order', payload->>'status', (payload->>'total')::DECIMAL(9,2) FROM read_json('{lake}',
    format = 'newline_delimited', hive_partitioning = true,
    hive_types = {{'tenant': VARCHAR, 'queue': VARCHAR, 'dt': DATE, 'hour': VARCHAR}},
    columns = {{partition: 'VARCHAR', "offset": 'BIGINT', transactionId: 'VARCHAR', ts: 'TIMESTAMPTZ', payload: 'JSON'}})
    ORDER BY partition, "offset" """).fetchall():
    print(*row)
for row in duckdb.sql(f"SELECT line FROM read_csv('{lake}', columns = {{line: 'VARCHAR'}}, delim = '\x01', quote = '', escape = '', header = false) ORDER BY line").fetchall():
    print(row[0][row[0].index('"payload"'):])
`, lake)
	out, err := exec.Command(bins.Python, "-c", query).CombinedOutput()
	if err != nil {
		t.Fatalf("duckdb: %v\n%s", err, out)
	}
	want := `orders cust-1 0 1 new 42.00
orders cust-1 1 1 paid 42.00
orders cust-2 0 2 new 17.50
"payload":{"order":1,"status":"new","total":42.00}}
"payload":{"order":1,"status":"paid","total":42.00}}
"payload":{"order":2,"status":"new","total":17.50}}
`
	if string(out) != want {
		t.Errorf("DuckDB reads\n%s, want\n%s", out, want)
	}
}
