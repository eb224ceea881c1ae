package report

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"queen/bench/machine"
)

func sample(t *testing.T) *Report {
	t.Helper()
	r := &Report{Machine: machine.Machine{CPU: "X", Cores: 2, RAM: 1 << 30, Kernel: "6", Go: "go1", Commit: "abc"},
		Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Title: "quick"}
	for _, l := range []Line{
		{What: "a", Target: ">= 0.95", Measured: "200 MB/s", Ratio: "0.96", Met: Of(true, true), Notes: []string{"runs 1 2 3"}, Command: "go run ./bench -only a", Load: "1 2 3"},
		{What: "longer", Target: "-", Measured: "5 s", Ratio: "-", Met: Shown, Command: "go run ./bench -only b"},
	} {
		if err := r.Add(l); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestWrite(t *testing.T) {
	var b strings.Builder
	if err := sample(t).Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"queen bench, 2026-01-02 03:04 UTC, quick\nX, 2 cores",
		"what    target   measured  ratio  met\n------  -------  --------  -----  -----\na       >= 0.95  200 MB/s  0.96   met\n",
		"a: 200 MB/s; target >= 0.95, ratio 0.96: met\n    runs 1 2 3\n    $ go run ./bench -only a\n    X, 2 cores, 1 GiB, Linux 6, go1, commit abc, load 1 2 3\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestIncomplete(t *testing.T) {
	r := &Report{}
	if r.Add(Line{What: "a", Target: "-", Measured: "1", Ratio: "-", Met: Met}) == nil {
		t.Error("a line without a command was taken")
	}
}

func TestSave(t *testing.T) {
	r := sample(t)
	dir := t.TempDir()
	first, err := r.Save(dir)
	if err != nil || !strings.HasSuffix(first, "/2026-01-02-abc.txt") {
		t.Fatalf("%s %v", first, err)
	}
	second, err := r.Save(dir)
	if err != nil || !strings.HasSuffix(second, "/2026-01-02-abc.2.txt") {
		t.Fatalf("%s %v", second, err)
	}
	data, err := os.ReadFile(strings.TrimSuffix(second, ".txt") + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var got record
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil || len(lines) != 2 || got.Machine.Commit != "abc" || got.Met != Met || got.Target != ">= 0.95" {
		t.Errorf("%v %d %+v", err, len(lines), got)
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		met, stated bool
		want        Verdict
	}{{true, true, Met}, {true, false, Small}, {false, true, Missed}, {false, false, Missed}} {
		if got := Of(c.met, c.stated); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
