package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/telemetry/otlp"
)

// traceMetrics reads the counts of an exporter of traces when it is collected.
type traceMetrics struct {
	read          func() otlp.Stats
	spans, queued *prometheus.Desc
}

// Traces adds metrics of the traces that are exported. It is called at most once.
func (m *Metrics) Traces(read func() otlp.Stats) {
	m.registry.MustRegister(traceMetrics{
		read: read,
		spans: prometheus.NewDesc("penstock_trace_spans_total",
			"Spans of traces, by result: sent, dropped (the queue was full) or failed (the collector did not accept them).", []string{"result"}, nil),
		queued: prometheus.NewDesc("penstock_trace_spans_queued", "Spans of traces that wait to be sent.", nil, nil),
	})
}

// Describe implements prometheus.Collector.
func (m traceMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m traceMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.read()
	to <- prometheus.MustNewConstMetric(m.queued, prometheus.GaugeValue, float64(s.Queued))
	for result, n := range map[string]int64{"sent": s.Sent, "dropped": s.Dropped, "failed": s.Failed} {
		to <- prometheus.MustNewConstMetric(m.spans, prometheus.CounterValue, float64(n), result)
	}
}
