package parquet

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"
	"go.uber.org/goleak"

	"queen/encode/rows"
	"queen/encode/rowstest"
	"queen/stages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// window is a sorted window in memory.
type window struct {
	bodies []rowstest.Append
	parts  []stages.Part
}

// add appends one push to the partition called name, which comes behind all before it.
func (w *window) add(name string, ts stages.Micros, base int64, records ...stages.Record) {
	if len(w.parts) == 0 || w.parts[len(w.parts)-1].Name != name {
		w.parts = append(w.parts, stages.Part{ID: stages.PartitionID(len(w.parts) + 1), Name: name})
	}
	h := stages.Header{TS: ts, Partition: w.parts[len(w.parts)-1].ID, Base: base, Count: int32(len(records))}
	for i := range records {
		records[i].Offset = base + int64(i)
		h.Weight += int32(stages.RecordWeight(len(records[i].TxID), len(name), len(records[i].Payload)))
	}
	w.bodies = append(w.bodies, rowstest.Append{H: h, All: records})
}

func (w *window) rows(readers int) rows.Rows {
	list := stages.Listing{Parts: w.parts}
	for i, b := range w.bodies {
		list.Records += int64(b.H.Count)
		list.Weight += int64(b.H.Weight)
		list.Appends = append(list.Appends, stages.Append{Part: uint32(b.H.Partition - 1), Off: uint32(i), Len: uint32(b.H.Weight)})
	}
	return rows.Rows{Appends: list.Appends, List: &list, Readers: readers, Queue: "orders", Tenant: stages.DefaultTenant,
		Read: rowstest.Read(w.bodies)}
}

// same is n records of one transaction id and payload.
func same(n int, txID, payload string) []stages.Record {
	out := make([]stages.Record, n)
	for i := range out {
		out[i] = stages.Record{TxID: []byte(txID), Payload: []byte(payload)}
	}
	return out
}

// text is a JSON string of n bytes.
func text(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }

func write(t testing.TB, f Format, r rows.Rows) []byte {
	t.Helper()
	var out bytes.Buffer
	stats, err := f.Encode(t.Context(), &out, r)
	if err != nil || stats.Records != r.List.Records {
		t.Fatalf("%d records of %d, %v", stats.Records, r.List.Records, err)
	}
	return out.Bytes()
}

func opened(t testing.TB, object []byte) *file.Reader {
	t.Helper()
	f, err := file.NewParquetReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// groupsOf is the number of rows of each row group.
func groupsOf(t testing.TB, object []byte) (out []int64) {
	t.Helper()
	f := opened(t, object)
	for g := range f.NumRowGroups() {
		out = append(out, f.RowGroup(g).NumRows())
	}
	return out
}

// roundTrip says in what an object, read back, differs from its window.
func roundTrip(t testing.TB, f Format, w *window, object []byte) {
	t.Helper()
	next, stop := iter.Pull2(f.Decode(bytes.NewReader(object)))
	defer stop()
	for _, b := range w.bodies {
		for _, want := range b.All {
			got, err, more := next()
			if err != nil || !more {
				t.Fatalf("offset %d of %q: there is %v, %v", want.Offset, w.parts[b.H.Partition-1].Name, more, err)
			}
			if got.Partition != w.parts[b.H.Partition-1].Name || got.Offset != want.Offset || got.TS != b.H.TS || got.TxID != string(want.TxID) ||
				!bytes.Equal(got.Payload, want.Payload) {
				t.Fatalf("got %.300s, want %.300s of append %.300s", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", b.H))
			}
		}
	}
	if got, err, more := next(); more {
		t.Fatalf("there is one more: %+v, %v", got, err)
	}
}

func zstd() Format { return List()[0] }

func snappy() Format {
	return List()[slices.IndexFunc(List(), func(f Format) bool { return f.Compression() == "snappy" })]
}
