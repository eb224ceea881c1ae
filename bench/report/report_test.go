package report

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"queen/bench/contract"
	"queen/bench/machine"
)

func sample(t *testing.T) *Report {
	t.Helper()
	r := &Report{Machine: machine.Machine{CPU: "X", Cores: 2, RAM: 1 << 30, Kernel: "6", Go: "go1", Commit: "abc"},
		Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Title: "quick", Load: "0.50 2 3", Taken: []string{"push", "memory"}, Failed: []string{"push"}}
	for _, l := range []Line{
		{Row: "restart.ready", What: "longer", Target: "-", Measured: "5 s", Ratio: "-", Result: Shown, Command: "go run ./bench -only b"},
		{Row: "push.cpu", What: "a", Target: ">= 0.95", Measured: "200 MB/s", Ratio: "0.96", Result: AtLeast(0.96, 0.95, true), Notes: []string{"runs 1 2 3"}, Command: "go run ./bench -only a", Load: "1 2 3"},
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
		"queen bench, 2026-01-02 03:04 UTC, quick\nX, 2 cores, 1 GiB, Linux 6, go1, commit abc, load average at start 0.50 2 3\n\nwhat ",
		"\na    ", "  >= 0.95 ", "  200 MB/s  0.96   PASS\n",
		"\nencoder alone, Parquet ", "  not measured yet: needs a writer of another library beside ours\n", "  not measured yet: needs more than one node\n",
		"\npush p99, sink at full speed against none ", "  FAILED: the measurement ended before it\n", "  not in this run: -only idle\n", "  not in this run: the flags leave it out\n",
		"a: 200 MB/s; target >= 0.95, ratio 0.96: PASS\n    runs 1 2 3\n    $ go run ./bench -only a\n    X, 2 cores, 1 GiB, Linux 6, go1, commit abc, load 1 2 3\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "WARNING") || strings.Index(b.String(), "\na ") > strings.Index(b.String(), "\nlonger ") {
		t.Errorf("a warning, or not the contract's order:\n%s", b.String())
	}
}

// A machine that does something else is named in the output, at the top.
func TestWarning(t *testing.T) {
	for load, want := range map[string]bool{"0.50 9 9": false, "0.51 0 0": true, "12.00 1 1": true, "unknown": false, "": false} {
		r := sample(t)
		r.Load = load
		var b strings.Builder
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "WARNING"); got != want {
			t.Errorf("load %q: %v", load, got)
		}
	}
}

// Every row of the contract is in the report, measured or not; one that is only reported where a target is asked for counts as absent.
func TestGaps(t *testing.T) {
	r := sample(t)
	why := map[string]string{}
	for _, a := range r.Gaps() {
		why[a.Row.ID] = a.Why
	}
	if len(why) != len(contract.Rows())-1 {
		t.Errorf("%d rows are absent: %v", len(why), why)
	}
	for id, part := range map[string]string{"push.cpu": "", "push.spread": "FAILED", "restart.ready": "-only restart", "restart.takeover": "more than one node"} {
		if got := why[id]; (got == "") != (part == "") || !strings.Contains(got, part) {
			t.Errorf("%s: %q", id, got)
		}
	}
	spread := Line{Row: "push.spread", What: "s", Target: "-", Measured: "1", Ratio: "-", Result: Shown, Command: "c"}
	if err := r.Add(spread); err != nil || len(r.Gaps()) != len(why)-1 {
		t.Errorf("%v, %d absent", err, len(r.Gaps()))
	}
}

func TestIncomplete(t *testing.T) {
	r := &Report{}
	whole := Line{Row: "push.cpu", What: "a", Target: "-", Measured: "1", Ratio: "-", Result: Pass, Command: "c"}
	if err := r.Add(whole); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*Line){
		"no command": func(l *Line) { l.Command = "" }, "no row": func(l *Line) { l.Row = "" }, "a row that cannot be measured": func(l *Line) { l.Row = "encoder.parquet" },
	} {
		l := whole
		change(&l)
		if r.Add(l) == nil {
			t.Errorf("a line with %s was taken", what)
		}
	}
}

func TestSave(t *testing.T) {
	r := sample(t)
	dir := t.TempDir()
	first, err := r.Save(dir)
	if err != nil || !strings.HasSuffix(first, "/2026-01-02-x-2-cores-abc.txt") {
		t.Fatalf("%s %v", first, err)
	}
	second, err := r.Save(dir)
	if err != nil || !strings.HasSuffix(second, "/2026-01-02-x-2-cores-abc.2.txt") {
		t.Fatalf("%s %v", second, err)
	}
	data, err := os.ReadFile(strings.TrimSuffix(second, ".txt") + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var got record
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil || len(lines) != 2 || got.Machine.Commit != "abc" || got.Result != Shown || got.Row != "restart.ready" || got.AtStart != "0.50 2 3" {
		t.Errorf("%v %d %+v", err, len(lines), got)
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct{ got, want Verdict }{
		{AtLeast(0.95, 0.95, true), "PASS"}, {AtLeast(1, 0.95, false), "PASS, small"}, {AtLeast(0.9, 1, true), "short by 10.0 %"},
		{AtLeast(0.9, 1, false), "short by 10.0 %"}, {AtMost(1.5, 1.5, true), "PASS"}, {AtMost(1, 1.5, false), "PASS, small"},
		{AtMost(3, 1.5, true), "short by 100.0 %"}, {AtLeast(math.NaN(), 1, true), Nothing}, {AtMost(math.NaN(), 1, true), Nothing},
		{AtMost(math.Inf(1), 1, true), Nothing}, {AtLeast(math.Inf(1), 1, true), Nothing},
	} {
		if c.got != c.want {
			t.Errorf("%q, not %q", c.got, c.want)
		}
	}
}
