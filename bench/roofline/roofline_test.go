package roofline

import (
	"net/http/httptest"
	"testing"

	"queen/bench/discard"
	"queen/bench/fill"
	"queen/encode"
	"queen/stages"
	"queen/upload"
)

// A folder's records come out of memory as they lie in the log, and go through the stages as one window each.
func TestLoadAndSend(t *testing.T) {
	dir := t.TempDir()
	shape := fill.Shape{Dir: dir, Records: 2500, Append: 10, Partitions: 7, Payload: 300}
	if err := fill.Make(t.Context(), shape); err != nil {
		t.Fatal(err)
	}
	f, err := encode.Lookup("jsonl", "zstd")
	if err != nil {
		t.Fatal(err)
	}
	m := &upload.Manifest{Tenant: stages.DefaultTenant, Queue: fill.Queue, K: 1, Start: 1, End: 1 << 60, Records: shape.Records, Layout: "merged"}
	windows, err := Load(t.Context(), dir, []*upload.Manifest{m})
	if err != nil {
		t.Fatal(err)
	}
	w := windows[0]
	if len(w.appends) != 250 || len(w.list.Parts) != 7 || w.list.Records != 2500 {
		t.Fatalf("%d appends of %d partitions, %d records", len(w.appends), len(w.list.Parts), w.list.Records)
	}
	records := 0
	err = w.read(t.Context(), w.appends, func(_ int, b stages.Body) error {
		for r, err := range b.Records() {
			if err != nil || len(r.Payload) != 300 || len(r.TxID) != 36 {
				t.Fatalf("%v %d %d", err, len(r.Payload), len(r.TxID))
			}
			records++
		}
		return nil
	})
	if err != nil || records != 2500 {
		t.Errorf("%d records, %v", records, err)
	}
	send(t, windows, m, f)
	if err := w.free(); err != nil {
		t.Error(err)
	}
}

func send(t *testing.T, windows []*Window, m *upload.Manifest, f encode.Format) {
	t.Helper()
	server := httptest.NewServer(&discard.Server{})
	defer server.Close()
	s := Settings{Format: "jsonl", Compression: "zstd", Readers: 4, Threshold: 64 << 20, Prefix: "r",
		Client: upload.ClientOptions{Endpoint: server.URL, Region: "r", Bucket: "b", AccessKey: "a", SecretKey: "s", PathStyle: true}}
	b, err := Compress(t.Context(), windows, s)
	if err != nil || b.Lines < 2500*336 {
		t.Fatalf("%+v %v", b, err)
	}
	if _, err := Send(t.Context(), windows, s); err == nil {
		t.Error("an object of another size than the manifest's was taken")
	}
	m.Bytes = size(t, windows[0], f)
	if _, err := Send(t.Context(), windows, s); err != nil {
		t.Error(err)
	}
}

func size(t *testing.T, w *Window, f encode.Format) int64 {
	t.Helper()
	n := counter(0)
	if _, err := f.Encode(t.Context(), &n, w.rows(1)); err != nil {
		t.Fatal(err)
	}
	return int64(n)
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }
