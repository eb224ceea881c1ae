package sink

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"queen/commit"
	"queen/config"
	"queen/stages"
)

// The counters of a queue are those of its row: each format has its bytes, failed calls are told from the others, and what has not happened has
// no sample.
func TestCountersOfARow(t *testing.T) {
	var row status
	window := func(format string, records, bytes int64, lost ...stages.Range) {
		row.hear(windowCommitted{commit.Committed{Intent: stages.Intent{Format: format}, Lost: lost,
			Pointer: stages.Pointer{Records: records, Bytes: bytes}}}, time.Time{})
	}
	if got := samples(t, &row); len(got) != 0 {
		t.Errorf("an idle queue has samples: %q", got)
	}
	row.hear(bodiesRead{errors.New("torn")}, time.Time{})
	window("jsonl", 3, 100)
	window("other", 4, 1000, stages.Range{From: 5, To: 6})
	window("jsonl", 1, 10)
	row.hear(bodiesRead{}, time.Time{})
	row.hear(bodiesRead{}, time.Time{})
	want := []string{`queen_s3_bytes_written_total{format="jsonl",queue="q"} 110`, `queen_s3_bytes_written_total{format="other",queue="q"} 1000`,
		`queen_s3_fetch_calls_total{queue="q",result="error"} 1`, `queen_s3_fetch_calls_total{queue="q",result="ok"} 2`,
		`queen_s3_records_lost_total{queue="q"} 2`, `queen_s3_records_written_total{queue="q"} 8`, `queen_s3_windows_committed_total{queue="q"} 3`}
	if d := cmp.Diff(want, samples(t, &row)); d != "" {
		t.Error("-want +got:\n", d)
	}
}

// oneRow collects the counters of a row.
type oneRow struct {
	*queueMetrics
	row *status
}

func (r oneRow) Collect(ch chan<- prometheus.Metric) {
	done, _ := r.row.figures()
	r.counters(ch, "q", done)
}

// samples are the lines of a scrape of a row, without help and types.
func samples(t *testing.T, row *status) (lines []string) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(oneRow{newQueueMetrics(nil), row})
	for line := range strings.Lines(gathered(t, r)) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// A scrape has all 15 families from the first moment on, with or without samples, and in a tenant's sink each series begins with its tenant, but
// for those of the node.
func TestMetricsOfATenant(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mem.push("orders", "p", 7)
		l := w.start(func(c *config.Sink) { c.Tenant = "t-1" })
		var names []string
		for line := range strings.Lines(metricsText(t, l.s)) {
			if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
				names = append(names, strings.TrimSpace(name))
			}
		}
		want := []string{"queen_s3_lag_seconds gauge", "queen_s3_safe_lag_seconds gauge", "queen_s3_windows_committed_total counter",
			"queen_s3_records_written_total counter", "queen_s3_bytes_written_total counter", "queen_s3_records_lost_total counter",
			"queen_s3_window_records histogram", "queen_s3_window_bytes histogram", "queen_s3_buffer_bytes gauge", "queen_s3_fetch_calls_total counter",
			"queen_s3_discovery_partitions gauge", "queen_s3_s3_requests_total counter", "queen_s3_commit_precondition_lost_total counter",
			"queen_s3_checkpoint_age_windows gauge", "queen_s3_queues_given_back_total counter"}
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
		w.until(time.Minute, "window 1", func() bool { return l.k("orders") == 1 })
		text := metricsText(t, l.s)
		for _, line := range []string{`queen_s3_bytes_written_total{tenant="t-1",queue="orders",format="jsonl"} `, `queen_s3_queues_given_back_total{tenant="t-1"} 0`,
			`queen_s3_s3_requests_total{tenant="t-1",op="put",code="200"} 2`, `queen_s3_window_bytes_bucket{tenant="t-1",le="1048576"} 1`} {
			if !strings.Contains(text, "\n"+line) {
				t.Errorf("no %s in\n%s", line, text)
			}
		}
		for line := range strings.Lines(text) {
			node := strings.HasPrefix(line, "queen_s3_safe_lag_seconds ") || strings.HasPrefix(line, "queen_s3_buffer_bytes ")
			if !node && !strings.HasPrefix(line, "#") && !strings.Contains(line, `{tenant="t-1"`) {
				t.Errorf("whose is %s", line)
			}
		}
		if w.logged(`"tenant":"t-1","queue":"orders"`) == 0 {
			t.Errorf("a line of a queue does not name its tenant: %s", w.logs.String())
		}
		l.stop()
	})
}
