package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/store"
)

// requestMetrics counts the requests to one kind of remote storage.
type requestMetrics struct {
	ended, again, bytes *prometheus.CounterVec
	took                *prometheus.HistogramVec
}

// newRequests registers the metrics of one kind of storage under its name.
func (m *Metrics) newRequests(kind, title string) *requestMetrics {
	prefix := "penstock_" + kind
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	out := &requestMetrics{
		ended: counter("_requests_total", "Requests to "+title+", by operation and outcome.", "operation", "outcome"),
		again: counter("_retries_total", "Requests to "+title+" that retried a failed one.", "operation"),
		bytes: counter("_read_bytes_total", "Bytes of files received from "+title+".", "operation"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "_request_seconds", Help: "How long requests to " + title + " took, to the last byte.",
			Buckets: prometheus.ExponentialBuckets(minCall, callFactor, callBuckets),
		}, []string{"operation"}),
	}
	m.registry.MustRegister(out.ended, out.again, out.bytes, out.took)
	return out
}

func (m *requestMetrics) add(r store.Request) {
	operation := string(r.Operation)
	m.ended.WithLabelValues(operation, string(r.Outcome)).Inc()
	m.bytes.WithLabelValues(operation).Add(float64(r.Bytes))
	m.took.WithLabelValues(operation).Observe(r.Took.Seconds())
	retries := m.again.WithLabelValues(operation) // 0 before the first one
	if r.Again {
		retries.Inc()
	}
}

// Requests returns the observer of requests to remote storage: S3, and any other kind,
// whose metrics are registered at its first request. It is called once.
func (m *Metrics) Requests() func(store.Request) {
	var mu sync.Mutex
	kinds := map[string]*requestMetrics{"s3": m.newRequests("s3", "S3")}
	return func(r store.Request) {
		mu.Lock()
		of := kinds[r.Store]
		if of == nil {
			of = m.newRequests(r.Store, r.Store)
			kinds[r.Store] = of
		}
		mu.Unlock()
		of.add(r)
	}
}
