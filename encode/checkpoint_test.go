package encode

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"queen/encode/codec"
	"queen/internal/rounds"
	"queen/stages"
)

func checkpoint(t testing.TB, k uint64, end stages.Micros, positions ...stages.Position) (text string, stored []byte) {
	t.Helper()
	var out bytes.Buffer
	if err := NewRegistry(nil).Checkpoint(&out, k, end, positions); err != nil {
		t.Fatal(err)
	}
	z, err := codec.List(nil)[0].Reader(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	plain, err := io.ReadAll(z) // one frame, or the reader says so
	if err != nil {
		t.Fatal(err)
	}
	return string(plain), out.Bytes()
}

// The text of a checkpoint, to the byte, as docs/formats.md 7.5 shows it; an incarnation whose id is not known is left out.
func TestCheckpoint(t *testing.T) {
	got, _ := checkpoint(t, 20, 1791010800000000, stages.Position{Name: "cust-1", Offset: 12, ID: [16]byte{0x5f, 0x0c, 0x11, 0x22, 0x33, 0x44, 0x8a, 0x55, 0x9b, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc}},
		stages.Position{Name: "a\"\n<ü>", Offset: 1<<63 - 1})
	want := `{"k":20,"tEnd":1791010800000000,"positions":[["cust-1",12,"5f0c1122-3344-8a55-9b66-778899aabbcc"],["a\"\n<ü>",9223372036854775807]]}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	doc, err := os.ReadFile("../docs/formats.md")
	if err != nil || !strings.Contains(string(doc), `{"k":20,"tEnd":1791010800000000,"positions":[["cust-1",12,"5f0c1122-3344-8a55-9b66-778899aabbcc"]`) {
		t.Errorf("the document does not show it: %v", err)
	}
	if got, _ := checkpoint(t, 1, -1); got != `{"k":1,"tEnd":-1,"positions":[]}` {
		t.Errorf("without a partition: %s", got)
	}
}

// The same positions are the same bytes on any number of cores. A million of them, with ids, take less than 39 MiB.
func TestCheckpointIsPure(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	positions := make([]stages.Position, rounds.Of(1_000_000, 50_000))
	for i := range positions {
		id := sha256.Sum256(fmt.Append(nil, i))
		positions[i] = stages.Position{Name: fmt.Sprintf("customer-%07d", i), Offset: int64(i) * 7, ID: [16]byte(id[:16])}
	}
	sums := map[string]bool{}
	for _, procs := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(procs)
		var out bytes.Buffer
		if err := NewRegistry(nil).Checkpoint(&out, 40, 5, positions); err != nil {
			t.Fatal(err)
		}
		if out.Len() > 39<<20 {
			t.Errorf("%d bytes", out.Len())
		}
		sum := sha256.Sum256(out.Bytes())
		sums[hex.EncodeToString(sum[:])] = true
	}
	if len(sums) != 1 {
		t.Errorf("%d contents", len(sums))
	}
}

// A store that fails in the middle fails the checkpoint, and nothing of it goes on.
func TestCheckpointFails(t *testing.T) {
	broken := errors.New("broken")
	positions := make([]stages.Position, 200_000)
	for i := range positions {
		id := sha256.Sum256(fmt.Append(nil, i))
		positions[i] = stages.Position{Name: fmt.Sprint(i), ID: [16]byte(id[:16])}
	}
	for _, after := range []int{0, 1 << 20} {
		n := 0
		w := writer(func(p []byte) (int, error) {
			if n += len(p); n > after {
				return 0, broken
			}
			return len(p), nil
		})
		if err := NewRegistry(nil).Checkpoint(w, 1, 1, positions); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", after, err)
		}
	}
	if err := (Registry{}).Checkpoint(io.Discard, 1, 1, nil); err == nil {
		t.Error("a registry without zstd wrote one")
	}
}

type writer func(p []byte) (int, error)

func (f writer) Write(p []byte) (int, error) { return f(p) }
