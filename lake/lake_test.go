package lake

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// mem is a lake in memory.
type mem map[string][]byte

var _ Store = mem(nil)

func (m mem) List(_ context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if strings.HasPrefix(key, prefix) && !yield(Object{Key: key, Size: int64(len(m[key]))}, nil) {
				return
			}
		}
	}
}

func (m mem) Open(_ context.Context, key string) (io.ReadCloser, error) {
	if data, ok := m[key]; ok {
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	return nil, fmt.Errorf("get %s: %w", key, fs.ErrNotExist)
}

const (
	tenant = "00000000-0000-0000-0000-000000000001"
	orders = "queen/tenant=" + tenant + "/queue=orders/dt=2026-10-03/"
	sides  = "queen/_queen/tenant=" + tenant + "/queue=orders/windows/"
	// Window 1 is 06:00:00 to 06:37:38.377855, window 2 goes on to 07:00:00, window 3 begins there.
	key1 = orders + "hour=06/w-0000000001-1791007200000000-1791009458377855.jsonl.zst"
	key2 = orders + "hour=06/w-0000000002-1791009458377855-1791010800000000.jsonl.gz"
	key3 = orders + "hour=07/w-0000000003-1791010800000000-1791010801000000.jsonl"
)

// The records of the user guide, and a few that are harder.
const (
	lines1 = `{"partition":"cust-1","offset":0,"transactionId":"01a1007b-855d-7001-8107-adfdabd3e51c","ts":"2026-10-03T06:37:37.501942Z","payload":{"order":1,"status":"new","total":42.00}}
{"partition":"cust-1","offset":1,"transactionId":"01a1007b-855d-7003-ab83-e480f30b0bb6","ts":"2026-10-03T06:37:37.501942Z","payload":{"order":1,"status":"paid","total":42.00}}
{"partition":"cust-2","offset":0,"transactionId":"01a1007b-855d-7002-aa32-19bf977724d0","ts":"2026-10-03T06:37:37.501942Z","payload":{"order":2,"status":"new","total":17.50}}
`
	lines2 = `{"partition":"cust-1","offset":2,"transactionId":"a\"b\\c\u0001\n","ts":"2026-10-03T06:59:59.999999Z","payload":null}
{"partition":"cust-2","offset":4,"transactionId":"t/é","ts":"2026-10-03T06:40:00.000000Z","payload":"<&>\u2028"}
{"partition":"cust-2","offset":0,"transactionId":"again","ts":"2026-10-03T06:50:00.000000Z","payload":1e400}
`
	lines3 = `{"partition":"","offset":7,"transactionId":"x","ts":"2026-10-03T07:00:00.000000Z","payload":{"a":1,"a":2}}
`
)

func packZstd(t testing.TB, text string) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	return z.EncodeAll([]byte(text), nil)
}

func packGzip(t testing.TB, text, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Name = name
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// manifest writes the manifest of one object by hand.
func manifest(k int, start, end string, codec, key string, data []byte, records, partitions int, minTS, maxTS, lost string) string {
	writer := map[string]string{"zstd": "jsonl+zstd", "gzip": "jsonl+gzip", "none": "jsonl"}[codec]
	return fmt.Sprintf(`{"sink":"default","tenant":"%s","queue":"orders","k":%d,"tStart":%s,"tEnd":%s,"format":"jsonl","compression":"%s","layout":"merged",`+
		`"objects":[{"key":"%s","bytes":%d,"records":%d,"sha256":"%x"}],"records":%d,"bytes":%d,"partitions":%d,"minTs":%s,"maxTs":%s,"lost":[%s],`+
		`"writer":"queen-s3/2.0.0 %s","committedAt":"2026-10-03T06:37:44.741000Z"}`,
		tenant, k, start, end, codec, key, len(data), records, sha256.Sum256(data), records, len(data), partitions, minTS, maxTS, lost, writer)
}

// put lays a window whose object holds these bytes.
func (m mem) put(t testing.TB, k int, text string) {
	t.Helper()
	switch k {
	case 1:
		m[key1] = packZstd(t, text)
	case 2:
		m[key2] = packGzip(t, text, "")
	case 3:
		m[key3] = []byte(text)
	}
	m.describe(k)
}

// describe writes the manifest that fits the object of window k as it is in a whole lake.
func (m mem) describe(k int) {
	side := fmt.Sprintf("%s%010d.json", sides, k)
	switch k {
	case 1:
		m[side] = []byte(manifest(1, "1791007200000000", "1791009458377855", "zstd", key1, m[key1], 3, 2, "1791009457501942", "1791009457501942", ""))
	case 2:
		m[side] = []byte(manifest(2, "1791009458377855", "1791010800000000", "gzip", key2, m[key2], 3, 2, "1791009600000000", "1791010799999999",
			`{"partition":"cust-2","from":1,"to":2},{"partition":"cust-2","from":3,"to":3}`))
	case 3:
		m[side] = []byte(manifest(3, "1791010800000000", "1791010801000000", "none", key3, m[key3], 1, 1, "1791010800000000", "1791010800000000", ""))
	}
}

// The checkpoint of window 1.
const (
	point       = "queen/_queen/tenant=" + tenant + "/queue=orders/checkpoint/0000000001.json.zst"
	checkpoint1 = `{"k":1,"tEnd":1791009458377855,"positions":[["cust-1",2,"5f0c1122-3344-8a55-9b66-778899aabbcc"],["cust-2",1]]}`
)

func whole(t testing.TB) mem {
	m := mem{point: packZstd(t, checkpoint1), "other/object": nil}
	m.put(t, 1, lines1)
	m.put(t, 2, lines2)
	m.put(t, 3, lines3)
	return m
}

func verify(t testing.TB, store Store, o Options) (Summary, []string) {
	t.Helper()
	if o.Prefix == "" {
		o.Prefix = "queen"
	}
	var faults []string
	s, err := Verify(t.Context(), store, o, func(f Fault) { faults = append(faults, f.String()) })
	if err != nil {
		t.Fatal(err)
	}
	if s.Faults != len(faults) {
		t.Errorf("%d faults counted, %d reported", s.Faults, len(faults))
	}
	return s, faults
}

func stores(t *testing.T, m mem) map[string]Store {
	dir := t.TempDir()
	for key, data := range m {
		path := filepath.Join(dir, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]Store{"memory": m, "folder": Folder(dir)}
}

func TestWholeLake(t *testing.T) {
	m := whole(t)
	size := len(m[key1]) + len(m[key2]) + len(m[key3])
	for name, store := range stores(t, m) {
		s, faults := verify(t, store, Options{})
		if len(faults) > 0 {
			t.Errorf("%s: %s", name, strings.Join(faults, "\n"))
		}
		if want := fmt.Sprintf("1 queue, 3 windows, 3 data objects, 7 records, %d bytes, 3 lost, 1 checkpoint", size); s.String() != want {
			t.Errorf("%s: %s", name, s)
		}
	}
}

// TestCat: the lines of all windows in order, whatever their compression, and no silence about an object that is not what it was.
func TestCat(t *testing.T) {
	m := whole(t)
	var out strings.Builder
	s, err := Cat(t.Context(), m, Options{Prefix: "queen", Queue: "orders"}, &out)
	if err != nil || out.String() != lines1+lines2+lines3 || s.Records != 7 || s.Windows != 3 {
		t.Errorf("%+v %v, got\n%s", s, err, out.String())
	}
	m[key3] = []byte(strings.Replace(lines3, "7", "8", 1))
	if _, err := Cat(t.Context(), m, Options{Prefix: "queen"}, io.Discard); err == nil || !strings.Contains(err.Error(), key3) {
		t.Errorf("an object that changed: %v", err)
	}
	delete(m, key3)
	if _, err := Cat(t.Context(), m, Options{Prefix: "queen"}, io.Discard); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that is not there: %v", err)
	}
}

func TestList(t *testing.T) {
	m := whole(t)
	var out strings.Builder
	s, err := List(t.Context(), m, Options{Prefix: "queen", Queue: "orders"}, &out)
	if err != nil || s.Records != 7 || s.Windows != 3 || s.Lost != 3 {
		t.Errorf("%+v %v", s, err)
	}
	want := fmt.Sprintf("tenant=%s/queue=orders\n           1  2026-10-03T06:00:00.000000Z  2026-10-03T06:37:38.377855Z          3 records  %12d bytes  %s\n",
		tenant, len(m[key1]), key1)
	want += fmt.Sprintf("           1  checkpoint  %d bytes  %s\n", len(m[point]), point)
	if !strings.HasPrefix(out.String(), want) || strings.Count(out.String(), "\n") != 5 || s.Checkpoints != 1 {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	if s, err := List(t.Context(), m, Options{Prefix: "queen", Queue: "other"}, io.Discard); err != nil || s.Queues != 0 {
		t.Errorf("another queue: %+v %v", s, err)
	}
}

func TestEmptyAndAbsent(t *testing.T) {
	if s, faults := verify(t, mem{}, Options{}); len(faults) > 0 || s.Queues != 0 {
		t.Errorf("empty: %v %v", s, faults)
	}
	if _, err := Verify(t.Context(), Folder(filepath.Join(t.TempDir(), "nothing")), Options{Prefix: "queen"}, func(Fault) {}); err == nil {
		t.Error("a folder that is not there is not an error")
	}
}

// TestLostInAnEarlierWindow: what was lost of a partition stands in the manifest of the window in which its first record would have been. That may hold no record of the
// partition, or none at all: the next one that is there, windows later, goes on behind it.
func TestLostInAnEarlierWindow(t *testing.T) {
	move := func(first, second string) mem {
		m := whole(t)
		for side, lost := range map[string][2]string{"1": {`"lost":[]`, `"lost":[` + first + `]`},
			"2": {`"lost":[{"partition":"cust-2","from":1,"to":2},{"partition":"cust-2","from":3,"to":3}]`, `"lost":[` + second + `]`}} {
			key := sides + "000000000" + side + ".json"
			changed := bytes.Replace(m[key], []byte(lost[0]), []byte(lost[1]), 1)
			if bytes.Equal(changed, m[key]) && lost[0] != lost[1] {
				t.Fatalf("%s has no %s", key, lost[0])
			}
			m[key] = changed
		}
		return m
	}
	if _, faults := verify(t, move(`{"partition":"cust-2","from":1,"to":3}`, ""), Options{}); len(faults) > 0 {
		t.Error(faults)
	}
	if _, faults := verify(t, move(`{"partition":"cust-2","from":1,"to":1}`, `{"partition":"cust-2","from":2,"to":3}`), Options{}); len(faults) > 0 {
		t.Error(faults)
	}
	for name, m := range map[string]mem{
		"too little": move(`{"partition":"cust-2","from":1,"to":2}`, ""),
		"another's":  move(`{"partition":"cust-1","from":1,"to":3}`, ""),
	} {
		if _, faults := verify(t, m, Options{}); len(faults) != 1 || !strings.Contains(faults[0], `partition "cust-2": 1 to 3 are neither here nor in lost`) {
			t.Errorf("%s: %q", name, faults)
		}
	}
}
