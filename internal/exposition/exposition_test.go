package exposition

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// families gathers what it is.
type families []*dto.MetricFamily

func (f families) Gather() ([]*dto.MetricFamily, error) { return f, nil }

func gauge(name, help string, kind dto.MetricType, metrics ...*dto.Metric) *dto.MetricFamily {
	return &dto.MetricFamily{Name: &name, Help: &help, Type: &kind, Metric: metrics}
}

func value(v float64, labels ...string) *dto.Metric {
	m := &dto.Metric{Gauge: &dto.Gauge{Value: &v}}
	for i := 0; i < len(labels); i += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: &labels[i], Value: &labels[i+1]})
	}
	return m
}

func TestWrite(t *testing.T) {
	r := prometheus.NewRegistry()
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "size", Help: "bytes", Buckets: []float64{0.5, 1 << 20}})
	r.MustRegister(h)
	h.Observe(0.25)
	h.Observe(1 << 30)
	var b bytes.Buffer
	err := Write(&b, []prometheus.Gatherer{
		families{gauge("empty", "nothing\nyet \\", dto.MetricType_COUNTER),
			gauge("lag", "seconds", dto.MetricType_GAUGE, value(2.5, "tenant", "t2", "queue", "b"), value(1e15, "tenant", "t2", "queue", "a\"\\\n"))},
		families{gauge("lag", "seconds", dto.MetricType_GAUGE, value(-3, "queue", "z"))},
		r,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `# HELP empty nothing\nyet \\
# TYPE empty counter
# HELP lag seconds
# TYPE lag gauge
lag{queue="z"} -3
lag{tenant="t2",queue="a\"\\\n"} 1000000000000000
lag{tenant="t2",queue="b"} 2.5
# HELP size bytes
# TYPE size histogram
size_bucket{le="0.5"} 1
size_bucket{le="1048576"} 1
size_bucket{le="+Inf"} 2
size_sum 1073741824.25
size_count 2
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation) // what a scraper reads is what was meant
	read, err := parser.TextToMetricFamilies(&b)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(read["lag"].GetMetric()); n != 3 {
		t.Errorf("%d series of lag are read", n)
	}
	if got := read["lag"].GetMetric()[1].GetLabel()[1].GetValue(); got != "a\"\\\n" {
		t.Errorf("the label is read as %q", got)
	}
}

func TestWriteRefuses(t *testing.T) {
	broken := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, errors.New("torn") })
	for says, g := range map[string][]prometheus.Gatherer{
		"torn":                         {broken},
		"lag is a GAUGE and a COUNTER": {families{gauge("lag", "", dto.MetricType_GAUGE)}, families{gauge("lag", "", dto.MetricType_COUNTER)}},
		"which nothing here writes":    {families{gauge("lag", "", dto.MetricType_SUMMARY, value(1))}},
	} {
		var b bytes.Buffer
		if err := Write(&b, g); err == nil || !strings.Contains(err.Error(), says) || b.Len() > 0 {
			t.Errorf("%v and %q, want %s", err, b.String(), says)
		}
	}
}
