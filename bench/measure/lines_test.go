package measure

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/bench/child"
	"queen/bench/contract"
	"queen/bench/load"
	"queen/bench/procfs"
	"queen/bench/report"
	"queen/bench/roofline"
	"queen/upload"
)

func newBench() *Bench {
	kinds := Kinds()
	return &Bench{kind: "backfill", format: "jsonl", Report: &report.Report{Taken: kinds}, Say: func(string, ...any) {}, Sizes: Sizes{Runs: 1, BackfillMB: 2000, Records: []int{100},
		Partitions: []int{10, 100_000}, TargetMB: 128, Push: time.Second, Connections: 1, Rate: 1000, BusyMB: 2000, MemoryMB: 2000, Appends: []int{100},
		Budgets: []int{64}, Targets: []int{128}, MemoryPush: time.Second, IdleQueues: 10_000, IdleInterval: time.Second, Lag: time.Second, RestartMB: 10_000}}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func cost(s float64) roofline.Cost { return roofline.Cost{Wall: seconds(s), CPU: seconds(2 * s)} }

// filled reports one line of each sort from figures that are easy to work out.
func filled(t *testing.T) *Bench {
	t.Helper()
	b := newBench()
	ceiling := func(s float64) Ceiling {
		return Ceiling{Send: cost(s), Bare: roofline.Bare{Lines: 3e9, Encode: cost(5), Bare: cost(4)}}
	}
	samples := []sample{{mirrored{cost: cost(10)}, ceiling(8), ceiling(12)}, {mirrored{cost: cost(20)}, ceiling(12), ceiling(14)}, {mirrored{cost: cost(12)}, ceiling(14), ceiling(10)}}
	s := &store{}
	pushed := func(n int64, p99 float64) []load.Result {
		return []load.Result{{Messages: n, Wall: time.Second, CPU: time.Second, P99: seconds(p99), Pushes: 10}}
	}
	mem := func(mib int64) []watched { return []watched{{high: procfs.Memory{Anon: mib << 20}}} }
	steps := []func() error{
		func() error {
			wall, err := b.backfillLines(samples, []*upload.Manifest{{Bytes: 1e9}}, nil, 100, 10, nil)
			if wall != 12 {
				t.Errorf("a wall time of %v s", wall)
			}
			return err
		},
		func() error { return b.scaleLine([]float64{10, 16}, 100) },
		func() error { return b.pushLine(pushed(240_000, 0), 1, nil) },
		func() error { return b.pushLine(pushed(100_000, 0), 100, nil) },
		func() error { return b.busyLine(pushed(1, 0.012), pushed(1, 0.010)) },
		func() error {
			m := memoryShape{100, 10, true, 64, 128}
			return b.memoryLine(m, mem(200), mem(40), m.settings(s, 1))
		},
		func() error {
			return b.idleLines([]quiet{{0.05, 90, 60, make([]float64, 10_000)}}, []quiet{{0.03, 50, 20, nil}}, burst{time.Second, 300, 100, 4000}, nil)
		},
		func() error { return b.lagLines([]lags{{6.5, 9, 1.5}}, nil) },
		func() error { return b.restartLines([]float64{4}, []float64{6}) },
		func() error {
			b.kind, b.format = "parquet", "parquet"
			_, err := b.backfillLines(samples, []*upload.Manifest{{Bytes: 1e9}}, nil, 100, 10, nil)
			return err
		},
		func() error {
			b.kind = "parquet-memory"
			return b.memoryLine(memoryShape{100, 10, false, 64, 128}, mem(200), mem(40), nil)
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// Every number of the contract has a line when all measurements are done, and those that have none say what they need.
func TestEveryRowHasALine(t *testing.T) {
	b := filled(t)
	for _, gap := range b.Report.Gaps() {
		if gap.Row.Needs == "" {
			t.Errorf("%s: %s", gap.Row.ID, gap.Why)
		}
	}
	have := map[string]bool{}
	for _, l := range b.Report.Lines() {
		have[l.Row] = true
		if !strings.Contains(l.Command, "-only ") {
			t.Errorf("%s: %q does not make it again", l.What, l.Command)
		}
	}
	for _, row := range contract.Rows() {
		if have[row.ID] != (row.Needs == "") || (row.Needs == "" && !slices.Contains(Kinds(), row.Kind)) {
			t.Errorf("%+v: has a line: %v", row, have[row.ID])
		}
	}
}

func TestFigures(t *testing.T) {
	lines := filled(t).Report.Lines()
	for _, want := range []struct {
		what, measured, ratio string
		result                report.Verdict
	}{
		{"backfill, appends of 100, 10 partitions", "167 MB/s, 12.0 CPU-s/GB", "1.00, by CPU 1.00", report.Pass},
		{"encoder alone, appends of 100, 10 partitions", "600 MB/s of lines", "0.80", "short by 11.1 %"},
		{"time a record, appends of 100, 100000 against 10 partitions", "2400 ns against 1500 ns", "1.60", "short by 6.7 %"},
		{"push, batches of 100 to one partition", "240,000 msg/CPU-s", "0.96", "short by 4.0 %"},
		{"push, batches of 100 to 100 partitions", "100,000 msg/CPU-s", "-", report.Shown},
		{"push p99, sink at full speed against none", "12.0 ms against 10.0 ms", "1.20", report.Pass},
		{"memory, appends of 100, MEMORY_MB=64 TARGET_MB=128, under pushes", "160 MiB", "1.25", "short by 25.0 %"},
		{"10,000 idle queues, processor", "2.00 %", "0.67", report.Pass},
		{"10,000 idle queues, memory", "40 MB", "0.80", report.Pass},
		{"10,000 idle queues, goroutines", "60", "-", report.Shown},
		{"10,000 queues with work at once", "4000 goroutines, 250 MB", "-", report.Shown},
		{"lag of an idle queue", "6.50 s", "0.93", report.Pass},
		{"lag of a busy queue", "9.00 s", "0.95", report.Pass},
		{"restart with 10.0 GB of log, after a stop", "4.00 s", "0.80", report.Pass},
		{"restart with 10.0 GB of log, after kill -9 3s into full pushes", "6.00 s", "1.20", "short by 20.0 %"},
	} {
		i := slices.IndexFunc(lines, func(l report.Line) bool { return l.What == want.what })
		if i < 0 {
			t.Errorf("no line %q", want.what)
			continue
		}
		if l := lines[i]; l.Measured != want.measured || l.Ratio != want.ratio || l.Result != want.result {
			t.Errorf("%s: %q, %q, %q", l.What, l.Measured, l.Ratio, l.Result)
		}
	}
}

// A size below the one that a target is stated for shows in the verdict.
func TestSmallSizes(t *testing.T) {
	b := newBench()
	b.Sizes.RestartMB = 9_999
	if err := b.restartLines([]float64{1}, []float64{9}); err != nil {
		t.Fatal(err)
	}
	if l := b.Report.Lines(); l[0].Result != report.Small || l[1].Result != "short by 80.0 %" {
		t.Errorf("%+v", l)
	}
}

// A queue without a lag must not pass for one with a small lag.
func TestQueueWithoutLag(t *testing.T) {
	b := newBench()
	if err := b.idleLines([]quiet{{lags: make([]float64, 9_999)}}, []quiet{{}}, burst{}, nil); err != nil {
		t.Fatal(err)
	}
	for _, l := range b.Report.Lines() {
		if l.Row == "scale.idle.lag" && l.Result != report.Nothing {
			t.Errorf("%+v", l)
		}
	}
}

// What is counted is the time from when the queue's rows are read; lines of other queues and those before do not count.
func TestMirror(t *testing.T) {
	p, err := child.Start(t.Context(), "/bin/sh", []string{"-c", "exec tail -f /dev/null"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	q := &broker{Process: p, lines: make(chan child.Line, 100)}
	t0 := time.Unix(1000, 0)
	for _, l := range []struct {
		after float64
		text  string
	}{
		{0, lineStart + " sink=x"}, {1, lineRestored + " queue=other"}, {2, lineRestored + " queue=backlog"}, {3, lineCommitted + " queue=backlog2 records=60"},
		{4, linePressure + " queue=backlog"}, {5, lineCommitted + " queue=backlog k=1 records=40"}, {6, lineRestored + " queue=backlog"},
		{9, lineCommitted + " queue=backlog k=2 records=60"}, {50, lineCommitted + " queue=backlog k=3 records=60"},
	} {
		q.lines <- child.Line{Text: "INFO queen-s3: " + l.text, At: t0.Add(seconds(l.after))}
	}
	m, err := mirror(t.Context(), q, "backlog", 100, time.Minute)
	if err != nil || m.cost.Wall != 7*time.Second || m.ready != 2*time.Second || m.first != 3*time.Second || m.windows != 2 || m.pressure != 1 {
		t.Errorf("%+v %v", m, err)
	}
	p.Kill()
	if _, err := mirror(t.Context(), q, "backlog", 100, time.Minute); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("%v", err)
	}
}

func TestLagsOfStatus(t *testing.T) {
	const page = `{"s3":{"sinks":[{"queues":[{"name":"a","lagSeconds":5.5},{"name":"b","lagSeconds":null}]},{"queues":[{"name":"c","lagSeconds":0}]}]}}`
	var s status
	if err := json.Unmarshal([]byte(page), &s); err != nil {
		t.Fatal(err)
	}
	if got := s.lags(); len(got) != 2 || got["a"] != 5.5 {
		t.Errorf("%v", got)
	}
}

func TestMostGoroutines(t *testing.T) {
	if n, err := mostGoroutines([]string{"x", LineGoroutines + "17"}); err != nil || n != 17 {
		t.Errorf("%d %v", n, err)
	}
	for _, bad := range [][]string{nil, {"x"}, {LineGoroutines + "x"}} {
		if n, err := mostGoroutines(bad); err == nil {
			t.Errorf("%q: %d", bad, n)
		}
	}
}

// Each combination of budget and window size once; the smallest appends over the most partitions.
func TestMemoryShapes(t *testing.T) {
	b := &Bench{Sizes: Sizes{Budgets: []int{64, 128, 512}, Targets: []int{128, 2048}}}
	got := b.memoryShapes(1, true)
	if len(got) != 6 || got[1] != (memoryShape{1, 100_000, true, 64, 2048}) || got[4] != (memoryShape{1, 100_000, true, 512, 128}) || partitionsOf(100) != 10 {
		t.Errorf("%+v", got)
	}
	s := got[1].settings(&store{}, 7)
	if s["QUEEN_S3_MEMORY_MB"] != "64" || s["QUEEN_S3_TARGET_MB"] != "2048" || s["QUEEN_S3_QUEUES"] != "backlog,pushed-7" {
		t.Errorf("%v", s)
	}
}
