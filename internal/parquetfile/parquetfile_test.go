package parquetfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"queen/encode"
	"queen/encode/rowstest"
	"queen/internal/parquetfile"
	"queen/stages"
)

// object writes appends of one record each, of the sorted partitions.
func object(t testing.TB, codec string, names []string, payloads ...string) []byte {
	t.Helper()
	f, err := encode.Lookup("parquet", codec)
	if err != nil {
		t.Fatal(err)
	}
	var list stages.Listing
	var bodies []rowstest.Append
	for i, name := range names {
		list.Parts = append(list.Parts, stages.Part{ID: stages.PartitionID(i + 1), Name: name})
		b := rowstest.Append{H: stages.Header{TS: stages.Micros(1000 + i), Partition: stages.PartitionID(i + 1), Base: int64(i), Count: int32(len(payloads))}}
		for j, p := range payloads {
			b.All = append(b.All, stages.Record{Offset: int64(i + j), TxID: fmt.Appendf(nil, "tx-%d", j), Payload: []byte(p)})
		}
		bodies = append(bodies, b)
		list.Appends = append(list.Appends, stages.Append{Part: uint32(i), Off: uint32(i), Len: 100})
		list.Records += int64(len(payloads))
	}
	var out bytes.Buffer
	_, err = f.Encode(t.Context(), &out, encode.Rows{Appends: list.Appends, List: &list, Readers: 1, Queue: "q", Tenant: "t",
		Read: rowstest.Read(bodies)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(data []byte, codec string) (n int64, err error) {
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), codec)
	if err != nil {
		return 0, err
	}
	for _, err := range f.Rows() {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

var small = []string{`{"a":1}`, "", "null", `"é"`}

func TestOpen(t *testing.T) {
	for _, codec := range []string{"zstd", "snappy"} {
		data := object(t, codec, []string{"a", "b"}, small...)
		f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), codec)
		if err != nil || f.Queue != "q" || f.Tenant != "t" || f.Records != 8 {
			t.Fatalf("%+v, %v", f, err)
		}
		if n, err := read(data, codec); n != 8 || err != nil {
			t.Errorf("%s: %d rows, %v", codec, n, err)
		}
	}
	if _, err := read(object(t, "zstd", []string{"a"}, small...), "snappy"); err == nil {
		t.Error("zstd is read as snappy")
	}
	if _, err := read(object(t, "zstd", []string{"a"}, small...), "gzip"); err == nil || !strings.Contains(err.Error(), `"gzip"`) {
		t.Errorf("gzip: %v", err)
	}
}

// A byte that is changed, cut or added is found, but for those of statistics in page headers, which the library writes and no reader needs, and
// of sizes that it only sums up.
func TestEveryByteCounts(t *testing.T) {
	good := object(t, "zstd", []string{"a", "b"}, small...)
	unseen := 0
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 0x10
		if _, err := read(bad, "zstd"); err == nil {
			unseen++
		}
		if n, err := read(good[:at], "zstd"); err == nil {
			t.Errorf("%d bytes of %d are read as %d rows", at, len(good), n)
		}
	}
	if unseen > len(good)/5 {
		t.Errorf("%d of %d changed bytes are not noticed", unseen, len(good))
	}
	if _, err := read(append(bytes.Clone(good), 0), "zstd"); err == nil {
		t.Error("a byte behind the end is not noticed")
	}
}

// A footer that claims to be large is refused before anything is allocated.
func TestLargeClaims(t *testing.T) {
	data := object(t, "zstd", []string{"a"}, small...)
	for _, length := range []uint32{1 << 31, 1<<32 - 1, 65 << 20, uint32(len(data))} {
		bad := bytes.Clone(data)
		binary.LittleEndian.PutUint32(bad[len(bad)-8:], length)
		if _, err := read(bad, "zstd"); err == nil || !strings.Contains(err.Error(), "has a footer of") {
			t.Errorf("%d: %v", length, err)
		}
	}
}

// A spooled object has no name and goes with its file; a store that fails is said so.
func TestSpool(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := parquetfile.Spool(strings.NewReader("object"))
	if err != nil || s.Size != 6 {
		t.Fatal(s, err)
	}
	got := make([]byte, 6)
	if _, err := s.ReadAt(got, 0); err != nil || string(got) != "object" {
		t.Errorf("%q, %v", got, err)
	}
	boom := errors.New("boom")
	if _, err := parquetfile.Spool(failing{boom}); !errors.Is(err, boom) {
		t.Error(err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Files with some bytes changed, moved or doubled are errors or rows, and take no more than is promised: what FuzzOpen looks for, each time.
func TestHostileFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1_500 {
		codec := []string{"zstd", "snappy"}[i%2]
		data := object(t, codec, []string{"a", "b"}, small...)
		for range 1 + r.IntN(4) {
			at := r.IntN(len(data) - 8)
			if i%3 == 0 { // the footer decides over what is allocated
				at = len(data) - 9 - r.IntN(500)
			}
			switch r.IntN(3) {
			case 0:
				data[at] = byte(r.IntN(256))
			case 1:
				copy(data[at:], []byte{0xff, 0xff, 0xff, 0xff, 0x7f}[r.IntN(4):])
			default:
				copy(data[at:], data[r.IntN(len(data)-8):][:8])
			}
		}
		bounded(t, data, codec)
	}
}

func bounded(t *testing.T, data []byte, codec string) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := read(data, codec)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > mostAllocated {
		t.Errorf("%d bytes are allocated for a file of %d", took, len(data))
	}
	if err == nil && n > int64(len(data))<<10 {
		t.Errorf("%d rows of a file of %d bytes", n, len(data))
	}
}

// mostAllocated bounds what reading a file of up to 64 KiB may allocate in all: the pages of four columns and of the payload, compressed and not,
// at their largest, and what the library makes of them.
const mostAllocated = 256 << 20

// FuzzOpen: a damaged or hostile file is an error or its rows, never a panic, and takes no more than the largest pages that a lake may have.
func FuzzOpen(f *testing.F) {
	for _, codec := range []string{"zstd", "snappy"} {
		f.Add(object(f, codec, []string{"a", "b"}, small...), codec == "zstd")
		f.Add(object(f, codec, nil), codec == "zstd")
		f.Add(object(f, codec, []string{"", "é"}, strings.Repeat("[", 60)+strings.Repeat("]", 60)), codec == "zstd")
	}
	f.Add([]byte("PAR1\x00\x00\x00\x00PAR1"), true)
	f.Fuzz(func(t *testing.T, data []byte, zstd bool) {
		if len(data) > 64<<10 {
			return
		}
		bounded(t, data, map[bool]string{true: "zstd", false: "snappy"}[zstd])
	})
}
