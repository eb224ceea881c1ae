package sink

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"queen/stages"
)

// metrics are the families of contract S12 (families.go). What has a queue label is made at a scrape from the rows of the queues, so none
// outlives its queue, and nothing is kept for one beside its row; the others are counted as events come.
type metrics struct {
	*counters
	registry *prometheus.Registry
}

// counters are the families without a queue label, which a sink that begins anew goes on with.
type counters struct {
	requests                   *prometheus.CounterVec
	precondition, givenBack    prometheus.Counter
	windowRecords, windowBytes prometheus.Histogram
}

func newCounters() *counters {
	f := named("queen_s3_s3_requests_total")
	return &counters{
		requests:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.name, Help: f.help}, f.labels),
		precondition: counter("queen_s3_commit_precondition_lost_total"), givenBack: counter("queen_s3_queues_given_back_total"),
		windowRecords: histogram("queen_s3_window_records"), windowBytes: histogram("queen_s3_window_bytes"),
	}
}

func newMetrics(s *Sink, counted *counters) *metrics {
	m := &metrics{counters: counted, registry: prometheus.NewRegistry()}
	var tenant prometheus.Registerer = m.registry
	if s.cfg.Tenant != stages.DefaultTenant {
		tenant = prometheus.WrapRegistererWith(prometheus.Labels{tenantLabel: s.cfg.Tenant}, m.registry)
	}
	tenant.MustRegister(m.windowRecords, m.windowBytes, m.requests, m.precondition, m.givenBack, newQueueMetrics(s))
	m.registry.MustRegister(&nodeGauges{s: s, safe: desc("queen_s3_safe_lag_seconds"), buffer: desc("queen_s3_buffer_bytes")})
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
	return &queueMetrics{
		s:          s,
		windows:    desc("queen_s3_windows_committed_total"),
		records:    desc("queen_s3_records_written_total"),
		bytes:      desc("queen_s3_bytes_written_total"),
		lost:       desc("queen_s3_records_lost_total"),
		fetches:    desc("queen_s3_fetch_calls_total"),
		lag:        desc("queen_s3_lag_seconds"),
		partitions: desc("queen_s3_discovery_partitions"),
		checkpoint: desc("queen_s3_checkpoint_age_windows"),
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
		done, runs := q.status.figures()
		g.counters(ch, q.name, done)
		if !runs {
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
		_, runs := q.status.figures()
		watched = watched || runs
	}
	ch <- prometheus.MustNewConstMetric(g.buffer, prometheus.GaugeValue, float64(buffered))
	if watched {
		lag := stages.MicrosOf(g.s.o.Now()).Sub(g.s.o.Log.Safe())
		ch <- prometheus.MustNewConstMetric(g.safe, prometheus.GaugeValue, lag.Seconds())
	}
}
