package sink

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// family is one row of the table of metrics.
type family struct {
	name    string
	kind    dto.MetricType
	labels  []string // behind the tenant's, in the order in which they are shown
	buckets []float64
	help    string
}

// tenantLabel comes first on each series but the two of the node, and is not there for the default tenant.
const tenantLabel = "tenant"

// families are the 15 metrics of contract S12, in the order in which a scrape has them.
func families() []family {
	const (
		counter, gauge, histogram = dto.MetricType_COUNTER, dto.MetricType_GAUGE, dto.MetricType_HISTOGRAM
		mib                       = 1 << 20
	)
	queue := []string{"queue"}
	return []family{
		{"queen_s3_lag_seconds", gauge, queue, nil, "safeTime minus the stamp the lake is complete through, the SLO"},
		{"queen_s3_safe_lag_seconds", gauge, nil, nil, "wall clock minus safeTime"},
		{"queen_s3_windows_committed_total", counter, queue, nil, "windows committed"},
		{"queen_s3_records_written_total", counter, queue, nil, "records written in objects"},
		{"queen_s3_bytes_written_total", counter, []string{"queue", "format"}, nil, "object bytes after compression"},
		{"queen_s3_records_lost_total", counter, queue, nil, "records gone before being read"},
		{"queen_s3_window_records", histogram, nil, []float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7}, "records of a window"},
		{"queen_s3_window_bytes", histogram, nil, []float64{mib, 4 * mib, 16 * mib, 64 * mib, 128 * mib, 256 * mib, 512 * mib, 1024 * mib},
			"object bytes of a window"},
		{"queen_s3_buffer_bytes", gauge, nil, nil, "buffered weight over all queues"},
		{"queen_s3_fetch_calls_total", counter, []string{"queue", "result"}, nil, "fetch calls"},
		{"queen_s3_discovery_partitions", gauge, queue, nil, "partitions of the last full sweep, all pages"},
		{"queen_s3_s3_requests_total", counter, []string{"op", "code"}, nil, "S3 requests"},
		{"queen_s3_commit_precondition_lost_total", counter, nil, nil, "KV batches rolled back"},
		{"queen_s3_checkpoint_age_windows", gauge, queue, nil, "windows since the last checkpoint"},
		{"queen_s3_queues_given_back_total", counter, nil, nil, "queues handed to others"},
	}
}

// named is a row of the table. The name is one of this package's own.
func named(name string) family {
	for _, f := range families() {
		if f.name == name {
			return f
		}
	}
	panic("no metric " + name)
}

func desc(name string) *prometheus.Desc {
	f := named(name)
	return prometheus.NewDesc(f.name, f.help, f.labels, nil)
}

func counter(name string) prometheus.Counter {
	f := named(name)
	return prometheus.NewCounter(prometheus.CounterOpts{Name: f.name, Help: f.help})
}

func histogram(name string) prometheus.Histogram {
	f := named(name)
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: f.name, Help: f.help, Buckets: f.buckets})
}

// complete gathers a registry as the table has it: every family, in its order, and the labels of each series in theirs. A library that gathers
// sorts both by name, and leaves out what has no series yet.
type complete struct{ registry *prometheus.Registry }

var _ prometheus.Gatherer = complete{}

// Gather implements prometheus.Gatherer.
func (c complete) Gather() ([]*dto.MetricFamily, error) {
	gathered, err := c.registry.Gather()
	if err != nil {
		return nil, err
	}
	var all []*dto.MetricFamily
	for _, f := range families() {
		whole := &dto.MetricFamily{Name: &f.name, Help: &f.help, Type: &f.kind}
		for _, g := range gathered {
			if g.GetName() == f.name {
				whole = g
			}
		}
		place := func(p *dto.LabelPair) int { return slices.Index(f.labels, p.GetName()) } // -1 is the tenant's
		for _, m := range whole.Metric {
			slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return place(a) - place(b) })
		}
		all = append(all, whole)
	}
	return all, nil
}
