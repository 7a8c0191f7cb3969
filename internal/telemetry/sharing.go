package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/loader/fanout"
)

// sharingMetrics reads the statistics of a Sharer when it is collected.
type sharingMetrics struct {
	read                             func() fanout.SharingStats
	groups, members, window          *prometheus.Desc
	batches, views, widened, reasons *prometheus.Desc
}

// Sharing adds metrics of the streams that share batches. It is called once.
func (m *Metrics) Sharing(read func() fanout.SharingStats) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m.registry.MustRegister(sharingMetrics{
		read:    read,
		groups:  desc("penstock_sharing_groups", "Groups of streams that share batches, including groups of one stream."),
		members: desc("penstock_sharing_streams", "Streams in groups that share batches, including groups of one stream."),
		window:  desc("penstock_sharing_window_bytes", "Bytes of the memory budget for batches that wait for other streams of their group."),
		batches: desc("penstock_sharing_batches_total", "Batches that streams received from their group instead of reading them."),
		views:   desc("penstock_sharing_views_total", "Batches that streams got as views of batches with more columns or rows."),
		widened: desc("penstock_sharing_widened_total", "How often a group began to read more columns or larger batches for another stream."),
		reasons: desc("penstock_sharing_left_total",
			"How often a stream left its group to read alone, by reason: behind, parked, limit, skipped, form, crowded, lacking or failing.", "reason"),
	})
}

// Describe implements prometheus.Collector.
func (m sharingMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m sharingMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.read()
	to <- prometheus.MustNewConstMetric(m.groups, prometheus.GaugeValue, float64(s.Groups))
	to <- prometheus.MustNewConstMetric(m.members, prometheus.GaugeValue, float64(s.Members))
	to <- prometheus.MustNewConstMetric(m.window, prometheus.GaugeValue, float64(s.WindowBytes))
	to <- prometheus.MustNewConstMetric(m.batches, prometheus.CounterValue, float64(s.Shared))
	to <- prometheus.MustNewConstMetric(m.views, prometheus.CounterValue, float64(s.Views))
	to <- prometheus.MustNewConstMetric(m.widened, prometheus.CounterValue, float64(s.Widened))
	for _, why := range fanout.Reasons() {
		to <- prometheus.MustNewConstMetric(m.reasons, prometheus.CounterValue, float64(s.Alone[why]), string(why))
	}
}
