package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/store/s3"
)

// S3 returns what stores on S3 are to tell. It is called once.
func (m *Metrics) S3() func(s3.Request) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	requests := counter("penstock_s3_requests_total", "Requests to S3, by what they were for and how they ended.", "operation", "outcome")
	again := counter("penstock_s3_retries_total", "Requests to S3 that were made because another one had failed.", "operation")
	bytes := counter("penstock_s3_read_bytes_total", "Bytes of files that came from S3.", "operation")
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "penstock_s3_request_seconds", Help: "How long requests to S3 took, to the last byte.",
		Buckets: prometheus.ExponentialBuckets(callShortest, callFactor, callBuckets),
	}, []string{"operation"})
	m.registry.MustRegister(requests, again, bytes, took)
	return func(r s3.Request) {
		operation := string(r.Operation)
		requests.WithLabelValues(operation, string(r.Outcome)).Inc()
		bytes.WithLabelValues(operation).Add(float64(r.Bytes))
		took.WithLabelValues(operation).Observe(r.Took.Seconds())
		if r.Again {
			again.WithLabelValues(operation).Inc()
		}
	}
}
