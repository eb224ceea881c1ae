package profile

import (
	"math"
	"testing"
)

const stored = `File: queen
Type: cpu
Time: 2026-01-02 03:04:05 UTC
Duration: 5.01s, Total samples = 9.50s (189.6%)
Showing nodes accounting for 9.50s, 100% of 9.50s total
      flat  flat%   sum%        cum   cum%
     4.00s 42.11% 42.11%      4.20s 44.21%  github.com/klauspost/compress/zstd.(*doubleFastEncoder).Encode
     2.00s 21.05% 63.16%      2.00s 21.05%  github.com/klauspost/compress/internal/race.ReadSlice[go.shape.uint8] (inline)
     1.00s 10.53% 73.69%      1.10s 11.58%  queen/encode/jsonl.(*lines).record /src/encode/jsonl/line.go:95
         0     0% 73.69%      1.10s 11.58%  runtime.mcall
     0.50s  5.26% 78.95%      0.50s  5.26%  queen/stages.noted[go.shape.*uint8,queen/stages.Chunk].Do
`

func TestParse(t *testing.T) {
	rows, err := ParseTop(stored)
	if err != nil || len(rows) != 5 {
		t.Fatalf("%v %v", rows, err)
	}
	if rows[2] != (Row{10.53, 11.58, "queen/encode/jsonl.(*lines).record /src/encode/jsonl/line.go:95"}) {
		t.Errorf("%+v", rows[2])
	}
	for _, bad := range []string{"", "File: x\n", "flat  flat%\n 1s many% 1% 1s 1% f\n"} {
		if rows, err := ParseTop(bad); err == nil {
			t.Errorf("%q: %v", bad, rows)
		}
	}
}

func TestPackage(t *testing.T) {
	for in, want := range map[string]string{
		"runtime.mcall": "runtime",
		"github.com/klauspost/compress/zstd.(*blockEnc).encode":            "github.com/klauspost/compress/zstd",
		"queen/stages.noted[go.shape.*uint8,queen/stages.Chunk].Do":        "queen/stages",
		"slices.pdqsortCmpFunc[go.shape.struct { queen/stages.TS int64 }]": "slices",
		"queen/encode/jsonl.(*lines).record /src/encode/jsonl/line.go:9":   "queen/encode/jsonl",
		"golang.org/x/sync/errgroup.(*Group).Go.func1":                     "golang.org/x/sync/errgroup",
		"gcWriteBarrier": "gcWriteBarrier",
	} {
		if got := Package(in); got != want {
			t.Errorf("%s: %q, not %q", in, got, want)
		}
	}
}

func TestByPackage(t *testing.T) {
	rows, err := ParseTop(stored)
	if err != nil {
		t.Fatal(err)
	}
	got := ByPackage(rows, 2)
	if len(got) != 2 || got[0].Name != "github.com/klauspost/compress/zstd" || math.Abs(got[1].Share-0.2105) > 1e-9 {
		t.Errorf("%+v", got)
	}
}

func TestRuntime(t *testing.T) {
	for in, want := range map[string]string{
		"runtime.memmove": "copying and clearing", "runtime.gcDrain": "collector", "runtime.scanObject": "collector", "runtime.futex": "scheduling",
		"runtime.mallocgcSmallNoscan": "allocation", "runtime.nanotime": "other",
	} {
		if got := work(in); got != want {
			t.Errorf("%s is %s, not %s", in, got, want)
		}
	}
}
