package sink

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"queen/commit"
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
