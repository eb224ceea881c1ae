// Package exposition writes metrics in Prometheus' text format 0.0.4 as contract S12 wants it. The library's own writer leaves out a
// family that has no samples yet, which looks to a dashboard like a broker without a sink, and writes a bucket of one MiB as 1.048576e+06,
// which no query for le="1048576" finds.
//
// It collects nothing and knows no metric: what it is given is what it writes, families in their order, labels in theirs.
package exposition

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// ContentType is what the text is served as.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Write gathers and writes. A family that several gatherers have (one a tenant) is written once, where it came first, and its series are
// sorted by their labels. Its error is a gatherer's, or the writer's, or names a family that gatherers have with two types.
func Write(w io.Writer, gatherers []prometheus.Gatherer) error {
	families, err := join(gatherers)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, f := range families {
		if err := write(&b, f); err != nil {
			return err
		}
	}
	_, err = w.Write(b.Bytes())
	return err
}

// join puts families of one name together, in the order in which they come up.
func join(gatherers []prometheus.Gatherer) (all []*dto.MetricFamily, err error) {
	at := map[string]*dto.MetricFamily{}
	for _, g := range gatherers {
		families, err := g.Gather()
		if err != nil {
			return nil, fmt.Errorf("gather metrics: %w", err)
		}
		for _, f := range families {
			first := at[f.GetName()]
			if first == nil {
				first = &dto.MetricFamily{Name: f.Name, Help: f.Help, Type: f.Type}
				at[f.GetName()] = first
				all = append(all, first)
			}
			if first.GetType() != f.GetType() {
				return nil, fmt.Errorf("metric %s is a %v and a %v", f.GetName(), first.GetType(), f.GetType())
			}
			first.Metric = append(first.Metric, f.Metric...)
		}
	}
	return all, nil
}

func write(b *bytes.Buffer, f *dto.MetricFamily) error {
	name := f.GetName()
	kind := strings.ToLower(f.GetType().String())
	help := strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(f.GetHelp())
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	type series struct {
		labels string
		metric *dto.Metric
	}
	all := make([]series, 0, len(f.Metric))
	for _, m := range f.Metric {
		all = append(all, series{labels(m.GetLabel()), m})
	}
	slices.SortFunc(all, func(a, b series) int { return cmp.Compare(a.labels, b.labels) })
	for _, s := range all {
		switch f.GetType() {
		case dto.MetricType_COUNTER:
			sample(b, name, s.labels, s.metric.GetCounter().GetValue())
		case dto.MetricType_GAUGE:
			sample(b, name, s.labels, s.metric.GetGauge().GetValue())
		case dto.MetricType_HISTOGRAM:
			histogram(b, name, s.labels, s.metric.GetHistogram())
		default:
			return fmt.Errorf("metric %s is a %s, which nothing here writes", name, kind)
		}
	}
	return nil
}

// labels are those of a series, without braces.
func labels(pairs []*dto.LabelPair) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(p.GetName() + `="` + escape.Replace(p.GetValue()) + `"`)
	}
	return b.String()
}

func histogram(b *bytes.Buffer, name, labels string, h *dto.Histogram) {
	le := func(bound string) string { return strings.TrimPrefix(labels+`,le="`+bound+`"`, ",") }
	for _, bucket := range h.GetBucket() {
		if !math.IsInf(bucket.GetUpperBound(), 1) {
			sample(b, name+"_bucket", le(number(bucket.GetUpperBound())), float64(bucket.GetCumulativeCount()))
		}
	}
	sample(b, name+"_bucket", le("+Inf"), float64(h.GetSampleCount()))
	sample(b, name+"_sum", labels, h.GetSampleSum())
	sample(b, name+"_count", labels, float64(h.GetSampleCount()))
}

func sample(b *bytes.Buffer, name, labels string, v float64) {
	b.WriteString(name)
	if labels != "" {
		b.WriteString("{" + labels + "}")
	}
	b.WriteString(" " + number(v) + "\n")
}

// number prints a whole number as such, and no exponent where a person would not.
func number(v float64) string {
	if math.Abs(v) < 1e21 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
