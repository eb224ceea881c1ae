package sink

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"queen/stages"
)

// metrics are the 15 families of contract S12. Counters and histograms are counted as events come; per-queue gauges are made at a scrape
// from the queues that run here, so none outlives its queue.
type metrics struct {
	registry *prometheus.Registry

	windows, records, bytes, lost, fetches, requests *prometheus.CounterVec
	precondition, givenBack                          prometheus.Counter
	windowRecords, windowBytes                       prometheus.Histogram
}

func newMetrics(s *Sink) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	var tenant prometheus.Registerer = m.registry
	if s.cfg.Tenant != stages.DefaultTenant {
		tenant = prometheus.WrapRegistererWith(prometheus.Labels{"tenant": s.cfg.Tenant}, m.registry)
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		tenant.MustRegister(c)
		return c
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
	m.windows = counters("queen_s3_windows_committed_total", "windows committed", "queue")
	m.records = counters("queen_s3_records_written_total", "records written in objects", "queue")
	m.bytes = counters("queen_s3_bytes_written_total", "object bytes after compression", "queue", "format")
	m.lost = counters("queen_s3_records_lost_total", "records gone before being read", "queue")
	m.windowRecords = histogram("queen_s3_window_records", "records of a window", []float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7})
	m.windowBytes = histogram("queen_s3_window_bytes", "object bytes of a window",
		[]float64{mib, 4 * mib, 16 * mib, 64 * mib, 128 * mib, 256 * mib, 512 * mib, 1024 * mib})
	m.fetches = counters("queen_s3_fetch_calls_total", "fetch calls", "queue", "result")
	m.requests = counters("queen_s3_s3_requests_total", "S3 requests", "op", "code")
	m.precondition = counter("queen_s3_commit_precondition_lost_total", "KV batches rolled back")
	m.givenBack = counter("queen_s3_queues_given_back_total", "queues handed to others")
	tenant.MustRegister(&queueGauges{s: s, lag: prometheus.NewDesc("queen_s3_lag_seconds",
		"safeTime minus the stamp the lake is complete through, the SLO", []string{"queue"}, nil),
		partitions: prometheus.NewDesc("queen_s3_discovery_partitions", "partitions of the last full sweep", []string{"queue"}, nil),
		checkpoint: prometheus.NewDesc("queen_s3_checkpoint_age_windows", "windows since the last checkpoint", []string{"queue"}, nil)})
	m.registry.MustRegister(&nodeGauges{s: s,
		safe:   prometheus.NewDesc("queen_s3_safe_lag_seconds", "wall clock minus safeTime", nil, nil),
		buffer: prometheus.NewDesc("queen_s3_buffer_bytes", "buffered weight over all queues", nil, nil)})
	return m
}

// hear counts.
func (m *metrics) hear(q *queue, event any) {
	switch e := event.(type) {
	case requested:
		m.requests.WithLabelValues(string(e.op), strconv.Itoa(e.code)).Inc()
	case preconditionLost:
		m.precondition.Inc()
	case bodiesRead:
		result := "ok"
		if e.err != nil {
			result = "error"
		}
		m.fetches.WithLabelValues(q.name, result).Inc()
	case windowCommitted:
		p := e.c.Pointer
		m.windows.WithLabelValues(q.name).Inc()
		m.records.WithLabelValues(q.name).Add(float64(p.Records))
		m.bytes.WithLabelValues(q.name, e.c.Intent.Format).Add(float64(p.Bytes))
		if lost := lostRecords(e.c.Lost); lost > 0 {
			m.lost.WithLabelValues(q.name).Add(float64(lost))
		}
		m.windowRecords.Observe(float64(p.Records))
		m.windowBytes.Observe(float64(p.Bytes))
	}
}

// queueGauges are the gauges with a queue label.
type queueGauges struct {
	s                           *Sink
	lag, partitions, checkpoint *prometheus.Desc
}

var _ prometheus.Collector = (*queueGauges)(nil)

// Describe implements prometheus.Collector. One family has no samples: this sink needs no checkpoint.
func (g *queueGauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- g.lag
	ch <- g.partitions
	ch <- g.checkpoint
}

// Collect implements prometheus.Collector.
func (g *queueGauges) Collect(ch chan<- prometheus.Metric) {
	for _, q := range g.s.all() {
		q.mu.Lock()
		lag, known := q.lag()
		partitions := q.partitions
		q.mu.Unlock()
		q.status.mu.Lock()
		watched := q.status.watched
		q.status.mu.Unlock()
		if !watched {
			continue
		}
		ch <- prometheus.MustNewConstMetric(g.partitions, prometheus.GaugeValue, float64(partitions), q.name)
		if known {
			ch <- prometheus.MustNewConstMetric(g.lag, prometheus.GaugeValue, lag.Seconds(), q.name)
		}
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
