package sink

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"queen/stages"
)

// metrics are the 15 families of contract S12. What has a queue label is made at a scrape from the rows of the queues, so none outlives its
// queue, and nothing is kept for one beside its row; the others are counted as events come.
type metrics struct {
	registry *prometheus.Registry

	requests                   *prometheus.CounterVec
	precondition, givenBack    prometheus.Counter
	windowRecords, windowBytes prometheus.Histogram
}

func newMetrics(s *Sink) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	var tenant prometheus.Registerer = m.registry
	if s.cfg.Tenant != stages.DefaultTenant {
		tenant = prometheus.WrapRegistererWith(prometheus.Labels{"tenant": s.cfg.Tenant}, m.registry)
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		tenant.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		tenant.MustRegister(h)
		return h
	}
	const mib = 1 << 20
	m.windowRecords = histogram("queen_s3_window_records", "records of a window", []float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7})
	m.windowBytes = histogram("queen_s3_window_bytes", "object bytes of a window",
		[]float64{mib, 4 * mib, 16 * mib, 64 * mib, 128 * mib, 256 * mib, 512 * mib, 1024 * mib})
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "queen_s3_s3_requests_total", Help: "S3 requests"}, []string{"op", "code"})
	tenant.MustRegister(m.requests)
	m.precondition = counter("queen_s3_commit_precondition_lost_total", "KV batches rolled back")
	m.givenBack = counter("queen_s3_queues_given_back_total", "queues handed to others")
	tenant.MustRegister(newQueueMetrics(s))
	m.registry.MustRegister(&nodeGauges{s: s,
		safe:   prometheus.NewDesc("queen_s3_safe_lag_seconds", "wall clock minus safeTime", nil, nil),
		buffer: prometheus.NewDesc("queen_s3_buffer_bytes", "buffered weight over all queues", nil, nil)})
	return m
}

// hear counts.
func (m *metrics) hear(event any) {
	switch e := event.(type) {
	case requested:
		m.requests.WithLabelValues(string(e.op), strconv.Itoa(e.code)).Inc()
	case preconditionLost:
		m.precondition.Inc()
	case released:
		m.givenBack.Inc()
	case windowCommitted:
		m.windowRecords.Observe(float64(e.c.Pointer.Records))
		m.windowBytes.Observe(float64(e.c.Pointer.Bytes))
	}
}

// queueMetrics are the families with a queue label.
type queueMetrics struct {
	s                                      *Sink
	windows, records, bytes, lost, fetches *prometheus.Desc
	lag, partitions, checkpoint            *prometheus.Desc
}

var _ prometheus.Collector = (*queueMetrics)(nil)

func newQueueMetrics(s *Sink) *queueMetrics {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"queue"}, more...), nil)
	}
	return &queueMetrics{
		s:          s,
		windows:    desc("queen_s3_windows_committed_total", "windows committed"),
		records:    desc("queen_s3_records_written_total", "records written in objects"),
		bytes:      desc("queen_s3_bytes_written_total", "object bytes after compression", "format"),
		lost:       desc("queen_s3_records_lost_total", "records gone before being read"),
		fetches:    desc("queen_s3_fetch_calls_total", "fetch calls", "result"),
		lag:        desc("queen_s3_lag_seconds", "safeTime minus the stamp the lake is complete through, the SLO"),
		partitions: desc("queen_s3_discovery_partitions", "partitions of the last full sweep"),
		checkpoint: desc("queen_s3_checkpoint_age_windows", "windows since the last checkpoint"),
	}
}

// Describe implements prometheus.Collector.
func (g *queueMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.windows, g.records, g.bytes, g.lost, g.fetches, g.lag, g.partitions, g.checkpoint} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *queueMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, q := range g.s.all() {
		q.mu.Lock()
		lag, known := q.lag()
		partitions := q.partitions
		q.mu.Unlock()
		done, watched := q.status.figures()
		g.counters(ch, q.name, done)
		if !watched {
			continue
		}
		ch <- prometheus.MustNewConstMetric(g.partitions, prometheus.GaugeValue, float64(partitions), q.name)
		if point, age := q.status.checkpoint(); age > 0 || point.k > 0 {
			ch <- prometheus.MustNewConstMetric(g.checkpoint, prometheus.GaugeValue, float64(age), q.name)
		}
		if known {
			ch <- prometheus.MustNewConstMetric(g.lag, prometheus.GaugeValue, lag.Seconds(), q.name)
		}
	}
}

// counters shows what this process has done for a queue; what has not happened yet has no sample.
func (g *queueMetrics) counters(ch chan<- prometheus.Metric, queue string, done figures) {
	count := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{queue}, labels...)...)
	}
	if done.windows > 0 {
		count(g.windows, done.windows)
		count(g.records, done.records)
	}
	for _, b := range done.bytes {
		count(g.bytes, b.n, b.format)
	}
	if done.lost > 0 {
		count(g.lost, done.lost)
	}
	if done.fetched > 0 {
		count(g.fetches, done.fetched, "ok")
	}
	if done.unfetched > 0 {
		count(g.fetches, done.unfetched, "error")
	}
}

// nodeGauges are the two gauges of the node.
type nodeGauges struct {
	s            *Sink
	safe, buffer *prometheus.Desc
}

var _ prometheus.Collector = (*nodeGauges)(nil)

// Describe implements prometheus.Collector.
func (g *nodeGauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- g.safe
	ch <- g.buffer
}

// Collect implements prometheus.Collector.
func (g *nodeGauges) Collect(ch chan<- prometheus.Metric) {
	var buffered int64
	watched := false
	for _, q := range g.s.all() {
		q.mu.Lock()
		buffered += q.buffered()
		q.mu.Unlock()
		q.status.mu.Lock()
		watched = watched || q.status.watched
		q.status.mu.Unlock()
	}
	ch <- prometheus.MustNewConstMetric(g.buffer, prometheus.GaugeValue, float64(buffered))
	if watched {
		lag := stages.MicrosOf(g.s.o.Now()).Sub(g.s.o.Log.Safe())
		ch <- prometheus.MustNewConstMetric(g.safe, prometheus.GaugeValue, lag.Seconds())
	}
}
