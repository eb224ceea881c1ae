package lake

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"queen/encode"
	"queen/encode/rowstest"
	"queen/stages"
)

// packParquet writes sorted rows as the sink does.
func packParquet(t testing.TB, codec, queue string, all []Row) []byte {
	t.Helper()
	f, err := encode.Lookup("parquet", codec)
	if err != nil {
		t.Fatal(err)
	}
	list := stages.Listing{Records: int64(len(all))}
	bodies := make([]rowstest.Append, len(all))
	for i, row := range all {
		if i == 0 || row.Partition != all[i-1].Partition || row.Offset <= all[i-1].Offset {
			list.Parts = append(list.Parts, stages.Part{ID: stages.PartitionID(i), Name: row.Partition})
		}
		bodies[i] = rowstest.Append{H: stages.Header{TS: row.TS, Partition: list.Parts[len(list.Parts)-1].ID, Base: row.Offset, Count: 1},
			All: []stages.Record{{Offset: row.Offset, TxID: []byte(row.TxID), Payload: row.Payload}}}
		list.Appends = append(list.Appends, stages.Append{Part: uint32(len(list.Parts) - 1), Off: uint32(i), Len: 100})
	}
	var out bytes.Buffer
	_, err = f.Encode(t.Context(), &out, encode.Rows{Appends: list.Appends, List: &list, Readers: 1, Queue: queue, Tenant: tenant,
		Read: rowstest.Read(bodies)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var parquetKey = strings.Replace(key1, "jsonl.zst", "parquet", 1)

// parquetLake is a lake of one window, in a Parquet file, whose manifest fits it.
func parquetLake(t testing.TB, codec string, object []byte) mem {
	t.Helper()
	m := mem{parquetKey: object}
	text := manifest(1, "1791007200000000", "1791009458377855", codec, parquetKey, object, 4, 3, "1791009457501942", "1791009457501943", "")
	text = strings.Replace(text, `"format":"jsonl"`, `"format":"parquet"`, 1)
	i := strings.Index(text, `"writer":"queen-s3/2.0.0 `)
	text = text[:i] + fmt.Sprintf(`"writer":"queen-s3/2.0.0 parquet/18 %s","committedAt":"2026-10-03T06:37:44.741000Z"}`, codec)
	m[sides+"0000000001.json"] = []byte(text)
	return m
}

// parquetRows are records whose payloads a line could not hold as they are.
func parquetRows() []Row {
	const ts = 1791009457501942
	return []Row{
		{"a\n\"", 0, "t\x01", ts, []byte("{\r\n \"a\":\r1\n}")},
		{"cust-1", 5, "t2", ts, nil},
		{"cust-1", 6, "t3", ts + 1, []byte("null")},
		{"ключ", 0, "😀", ts, []byte(`{"n":9007199254740993123,"t":42.00}`)},
	}
}

func TestParquetLake(t *testing.T) {
	for _, codec := range []string{"zstd", "snappy"} {
		m := parquetLake(t, codec, packParquet(t, codec, "orders", parquetRows()))
		for name, store := range stores(t, m) {
			s, faults := verify(t, store, Options{})
			if want := fmt.Sprintf("1 queue, 1 window, 1 data object, 4 records, %d bytes, 0 lost", len(m[parquetKey])); len(faults) > 0 || s.String() != want {
				t.Errorf("%s, %s: %s, %s", codec, name, s, strings.Join(faults, "\n"))
			}
		}
		var out strings.Builder
		want := `{"partition":"a\n\"","offset":0,"transactionId":"t\u0001","ts":"2026-10-03T06:37:37.501942Z","payload":{   "a": 1 }}
{"partition":"cust-1","offset":5,"transactionId":"t2","ts":"2026-10-03T06:37:37.501942Z","payload":null}
{"partition":"cust-1","offset":6,"transactionId":"t3","ts":"2026-10-03T06:37:37.501943Z","payload":null}
{"partition":"ключ","offset":0,"transactionId":"😀","ts":"2026-10-03T06:37:37.501942Z","payload":{"n":9007199254740993123,"t":42.00}}
`
		if _, err := Cat(t.Context(), m, Options{Prefix: "queen"}, &out); err != nil || out.String() != want {
			t.Errorf("cat: %v, got\n%s", err, out.String())
		}
	}
}

// What is wrong with a Parquet object is found, with the row where there is one.
func TestParquetDamage(t *testing.T) {
	good := packParquet(t, "zstd", "orders", parquetRows())
	changed := func(change func(rows []Row)) []byte {
		rows := parquetRows()
		change(rows)
		return packParquet(t, "zstd", "orders", rows)
	}
	for name, c := range map[string]struct {
		codec  string
		object []byte
		want   string
	}{
		"another queue":   {"zstd", packParquet(t, "zstd", "other", parquetRows()), `its footer names tenant "` + tenant + `", queue "other"`},
		"another codec":   {"snappy", good, "is compressed with ZSTD"},
		"cut":             {"zstd", good[:len(good)-1], "cannot be read"},
		"nothing":         {"zstd", nil, "cannot be read: 0 bytes are no Parquet file"},
		"lines":           {"zstd", packZstd(t, lines1), "cannot be read"},
		"more behind it":  {"zstd", append(slices.Clone(good), 0), "cannot be read"},
		"a hole":          {"zstd", changed(func(r []Row) { r[2].Offset = 9 }), "row 3 has offset 9 of partition \"cust-1\": 6 to 8 are neither here nor in lost"},
		"a stamp":         {"zstd", changed(func(r []Row) { r[3].TS = 1791009458377855 }), "row 4 is stamped 2026-10-03T06:37:38.377855Z, outside its window"},
		"a partition":     {"zstd", changed(func(r []Row) { r[0].Partition = "cust-1" }), "has 2 partitions, its manifest says 3"},
		"no JSON":         {"zstd", changed(func(r []Row) { r[3].Payload = []byte("{") }), "row 4: payload is not one JSON value"},
		"no UTF-8":        {"zstd", changed(func(r []Row) { r[3].TxID = "\xff" }), "row 4: a name is not UTF-8"},
		"below offset 0":  {"zstd", changed(func(r []Row) { r[0].Offset = -1 }), "row 1: has offset -1"},
		"a row too many":  {"zstd", packParquet(t, "zstd", "orders", append(parquetRows(), Row{"ы", 0, "t", 1791009457501942, nil})), "has 5 records, its manifest says 4"},
		"a row too few":   {"zstd", packParquet(t, "zstd", "orders", parquetRows()[:3]), "has 3 records, its manifest says 4"},
		"a byte of a row": {"zstd", flip(good, len(good)/4), "cannot be read"},
	} {
		if _, faults := verify(t, parquetLake(t, c.codec, c.object), Options{}); !strings.Contains(strings.Join(faults, "\n"), c.want) {
			t.Errorf("%s: %q is not among\n%s", name, c.want, strings.Join(faults, "\n"))
		}
	}
	m := parquetLake(t, "zstd", good)
	m[parquetKey] = packParquet(t, "snappy", "orders", parquetRows())
	if _, faults := verify(t, m, Options{}); len(faults) < 2 {
		t.Errorf("another object under the key: %q", faults)
	}
}

func flip(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 1
	return b
}

// A manifest of Parquet has its own codecs and writers.
func TestParquetManifest(t *testing.T) {
	for _, change := range [][2]string{{`"compression":"zstd"`, `"compression":"gzip"`}, {`"compression":"zstd"`, `"compression":"none"`},
		{"parquet/18 zstd", "parquet/59 zstd"}, {"parquet/18 zstd", "parquet+zstd"}, {`"format":"parquet"`, `"format":"jsonl"`}} {
		m := parquetLake(t, "zstd", packParquet(t, "zstd", "orders", parquetRows()))
		side := sides + "0000000001.json"
		m[side] = bytes.Replace(m[side], []byte(change[0]), []byte(change[1]), 1)
		if _, faults := verify(t, m, Options{}); len(faults) == 0 {
			t.Errorf("%s is fine", change[1])
		}
	}
}

// Cells are compared with the log byte for byte, line breaks included; no payload and the payload null are one to the log's API.
func TestParquetAgainstTheLog(t *testing.T) {
	const ts = `"ts":"2026-10-03T06:37:37.501942Z"`
	log := broker{"a\n\"": {`{"partition":"p","offset":0,"transactionId":"t\u0001",` + ts + ",\"payload\":{\r\n \"a\":\r1\n}}"},
		"cust-1": {"", "", "", "", "", `{"partition":"p","offset":5,"transactionId":"t2",` + ts + `,"payload":null}`,
			`{"partition":"p","offset":6,"transactionId":"t3","ts":"2026-10-03T06:37:37.501943Z","payload":null}`},
		"ключ": {`{"partition":"p","offset":0,"transactionId":"😀",` + ts + `,"payload":{"n":9007199254740993123,"t":42.00}}`}}
	for name, change := range map[string]struct {
		do   func(rows []Row)
		want string
	}{
		"as it is":    {func([]Row) {}, ""},
		"flattened":   {func(r []Row) { r[0].Payload = flat(r[0].Payload) }, "row 1 has payload"},
		"not null":    {func(r []Row) { r[1].Payload = []byte("1") }, "row 2 has payload"},
		"null at all": {func(r []Row) { r[3].Payload = nil }, "row 4 has payload"},
	} {
		rows := parquetRows()
		change.do(rows)
		object := packParquet(t, "zstd", "orders", rows)
		server := httptest.NewServer(log)
		s, faults := verify(t, parquetLake(t, "zstd", object), Options{Log: HTTPLog{URL: server.URL, Client: http.DefaultClient}})
		server.Close()
		if text := strings.Join(faults, "\n"); s.Compared != 4 || (change.want == "") != (text == "") || !strings.Contains(text, change.want) {
			t.Errorf("%s: %d compared, %s", name, s.Compared, text)
		}
	}
}
