package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/flight/local"
)

// mappedMetrics reads the statistics of sessions when it is collected.
type mappedMetrics struct {
	read             func() local.SessionStats
	sessions, memory *prometheus.Desc
}

// Mapped adds metrics of batches in mapped memory. It is called once.
func (m *Metrics) Mapped(read func() local.SessionStats) {
	m.registry.MustRegister(mappedMetrics{
		read:     read,
		sessions: prometheus.NewDesc("penstock_local_sessions", "Sessions of clients that read batches from mapped memory.", nil, nil),
		memory: prometheus.NewDesc("penstock_mapped_memory_bytes",
			"Bytes of the memory budget for batches in mapped memory: lent to clients, kept for clients that read the same batches later, or free.",
			[]string{"state"}, nil),
	})
}

// Describe implements prometheus.Collector.
func (m mappedMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m mappedMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.read()
	to <- prometheus.MustNewConstMetric(m.sessions, prometheus.GaugeValue, float64(s.Sessions))
	to <- prometheus.MustNewConstMetric(m.memory, prometheus.GaugeValue, float64(s.Lent), "lent")
	to <- prometheus.MustNewConstMetric(m.memory, prometheus.GaugeValue, float64(s.Free), "free")
	to <- prometheus.MustNewConstMetric(m.memory, prometheus.GaugeValue, float64(s.Kept), "kept")
}
