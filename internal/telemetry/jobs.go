package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/flight"
)

const (
	// maxJobs bounds the number of values of the label job, since clients choose the values.
	maxJobs = 100
	// otherJobs is the value of the label for all jobs after the first maxJobs jobs.
	otherJobs = "other"
)

// jobMetrics counts what the streams of a job do.
type jobMetrics struct {
	open  *prometheus.GaugeVec   // open streams, by job
	rows  *prometheus.CounterVec // rows sent, by job
	bytes *prometheus.CounterVec // bytes sent, including bytes in mapped memory, by job

	mu    sync.Mutex
	known map[string]bool // the jobs whose names are values of the label
}

func newJobMetrics() *jobMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &jobMetrics{
		open:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "penstock_job_streams_open", Help: "Streams that are open, of queries with a job."}, []string{"job"}),
		rows:  counter("penstock_job_rows_sent_total", "Rows handed to the network, of queries with a job.", "job"),
		bytes: counter("penstock_job_bytes_sent_total", "Bytes of batches handed to the network or delivered in mapped memory, of queries with a job.", "job"),
		known: map[string]bool{},
	}
}

// collectors returns the metrics.
func (m *jobMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.open, m.rows, m.bytes}
}

// label returns the value of the label for a job: its name if it is one of the first maxJobs jobs,
// and otherwise otherJobs.
func (m *jobMetrics) label(job string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.known[job]:
		return job
	case len(m.known) == maxJobs:
		return otherJobs
	}
	m.known[job] = true
	return job
}

// began counts a stream that begins.
func (m *jobMetrics) began(job string) {
	if job != "" {
		m.open.WithLabelValues(m.label(job)).Inc()
	}
}

// sent counts a batch that was sent. bytes includes both bytes on the wire and bytes in mapped
// memory.
func (m *jobMetrics) sent(job string, rows, bytes int64) {
	if job != "" {
		m.rows.WithLabelValues(m.label(job)).Add(float64(rows))
		m.bytes.WithLabelValues(m.label(job)).Add(float64(bytes))
	}
}

// ended counts a stream that has ended.
func (m *jobMetrics) ended(end flight.StreamEnd) {
	if end.Job != "" {
		m.open.WithLabelValues(m.label(end.Job)).Dec()
	}
}
