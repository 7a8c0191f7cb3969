package telemetry

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// Metrics counts what a server does. It is safe for concurrent use.
type Metrics struct {
	version  string
	registry *prometheus.Registry
	ready    atomic.Bool
	open     *prometheus.GaugeVec     // open streams, by dataset
	ended    *prometheus.CounterVec   // streams that ended, by dataset and end
	setBack  *prometheus.CounterVec   // streams that repeated a step, by dataset
	rows     *prometheus.CounterVec   // sent, by dataset
	batches  *prometheus.CounterVec   // sent, by dataset
	bytes    *prometheus.CounterVec   // sent, by dataset
	mapped   *prometheus.CounterVec   // bytes delivered in mapped memory, by dataset
	streams  *prometheus.HistogramVec // seconds, by dataset
	staging  stagingMetrics
	trainers trainerMetrics
	jobs     *jobMetrics
	calls    *prometheus.CounterVec   // calls that ended, by method and end
	took     *prometheus.HistogramVec // seconds that calls took, by method; without streams
}

// Buckets of the histograms, in seconds.
const (
	minCall, callFactor, callBuckets       = 0.0005, 4, 9 // 0.5 ms to 33 s
	minStream, streamFactor, streamBuckets = 0.1, 4, 9    // 0.1 s to 1.8 h
)

// stagingMetrics counts the rows and bytes of staging tables, by dataset and staging entry.
type stagingMetrics struct {
	rows       *prometheus.CounterVec // training rows, also by result
	duplicates *prometheus.CounterVec
	read       *prometheus.CounterVec // bytes
	spilled    *prometheus.CounterVec // bytes
	rate       *prometheus.GaugeVec   // the match rate of the last stream that had minRated rows
}

// minRated is the least number of rows of a stream whose match rate is shown. A stream of a few
// rows, such as a test of a query, says nothing about a table.
const minRated = 1000

func (m stagingMetrics) add(end flight.StreamEnd) {
	for name, of := range end.Staging {
		labels := []string{end.Dataset, name}
		if end.Dataset == "" {
			labels = []string{inline, inline}
		}
		for result, rows := range map[string]int64{"matched": of.Matched, "missing": of.Missing - of.NullKeys, "null_key": of.NullKeys} {
			m.rows.WithLabelValues(append(labels, result)...).Add(float64(rows))
		}
		m.duplicates.WithLabelValues(labels...).Add(float64(of.Duplicates))
		m.read.WithLabelValues(labels...).Add(float64(of.BytesRead))
		m.spilled.WithLabelValues(labels...).Add(float64(of.SpilledBytes))
		if of.Rows >= minRated {
			m.rate.WithLabelValues(labels...).Set(float64(of.Matched) / float64(of.Rows))
		}
	}
}

// trainerMetrics counts what trainers report, by dataset.
type trainerMetrics struct {
	rows, batches, seconds, waited *prometheus.CounterVec
}

func (m trainerMetrics) add(s flight.Stall) {
	of := label(s.Dataset)
	m.rows.WithLabelValues(of).Add(float64(s.Rows))
	m.batches.WithLabelValues(of).Add(float64(s.Batches))
	m.seconds.WithLabelValues(of).Add(s.Took.Seconds())
	m.waited.WithLabelValues(of).Add(s.Waited.Seconds())
}

// Version returns the program's version.
func (m *Metrics) Version() string { return m.version }

// NewMetrics returns metrics in a new registry, which also has the metrics of the Go runtime and of
// the process.
func NewMetrics(version string) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &Metrics{
		version:  version,
		registry: prometheus.NewRegistry(),
		open:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "penstock_streams_open", Help: "Streams that are open."}, []string{"dataset"}),
		ended:    counter("penstock_streams_ended_total", "Streams that ended, by outcome: ok, cancelled, deadline or a kind of failure.", "dataset", "end"),
		setBack:  counter("penstock_streams_set_back_total", "How often a stream repeated a step because the memory budget was full.", "dataset"),
		rows:     counter("penstock_rows_sent_total", "Rows handed to the network.", "dataset"),
		batches:  counter("penstock_batches_sent_total", "Batches handed to the network.", "dataset"),
		bytes:    counter("penstock_bytes_sent_total", "Bytes of batches handed to the network.", "dataset"),
		mapped:   counter("penstock_mapped_bytes_total", "Bytes of batches delivered in mapped memory.", "dataset"),
		streams: histogram("penstock_stream_seconds", "How long streams were open.",
			prometheus.ExponentialBuckets(minStream, streamFactor, streamBuckets), "dataset"),
		staging: stagingMetrics{
			rows: counter("penstock_staging_rows_total",
				"Training rows that were joined with a staging table, in streams that ended, by result: matched, missing or null_key.", "dataset", "staging", "result"),
			duplicates: counter("penstock_staging_duplicates_total", "Training rows that matched several staging rows, in streams that ended.", "dataset", "staging"),
			read:       counter("penstock_staging_read_bytes_total", "Stored sizes of the column chunks of staging tables that were decoded by streams that ended.", "dataset", "staging"),
			rate: prometheus.NewGaugeVec(prometheus.GaugeOpts{
				Name: "penstock_staging_match_rate", Help: "The share of training rows that had a match, in the last stream that ended with at least 1000 rows.",
			}, []string{"dataset", "staging"}),
			spilled: counter("penstock_staging_spilled_bytes_total", "Bytes of staging rows written to local disk by streams that ended.", "dataset", "staging"),
		},
		trainers: trainerMetrics{
			rows:    counter("penstock_trainer_rows_total", "Rows that trainers reported as received.", "dataset"),
			batches: counter("penstock_trainer_batches_total", "Batches that trainers reported as received.", "dataset"),
			seconds: counter("penstock_trainer_seconds_total", "Time that trainers spent on streams, as reported.", "dataset"),
			waited:  counter("penstock_trainer_waited_seconds_total", "The part of penstock_trainer_seconds_total in which trainers waited for a batch.", "dataset"),
		},
		jobs:  newJobMetrics(),
		calls: counter("penstock_calls_total", "Calls, by outcome.", "method", "end"),
		took: histogram("penstock_call_seconds", "How long calls took.",
			prometheus.ExponentialBuckets(minCall, callFactor, callBuckets), "method"),
	}
	serving := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "penstock_serving", Help: "1 while the server is ready for calls, 0 before, and after it was told to stop."}, func() float64 {
		return map[bool]float64{true: 1}[m.ready.Load()]
	})
	built := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "penstock_build_info", Help: "Always 1, with the program's version."}, []string{"version"})
	built.WithLabelValues(version).Set(1)
	m.registry.MustRegister(m.open, m.ended, m.setBack, m.rows, m.batches, m.bytes, m.mapped, m.streams, m.calls, m.took, built, serving,
		m.trainers.rows, m.trainers.batches, m.trainers.seconds, m.trainers.waited,
		m.staging.rows, m.staging.duplicates, m.staging.read, m.staging.spilled, m.staging.rate,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(m.jobs.collectors()...)
	return m
}

// inline is the value of the label dataset for all datasets that are defined in queries. Their own
// names are not used, so that clients cannot create values of the label.
const inline = "(inline)"

func label(dataset string) string {
	if dataset == "" {
		return inline
	}
	return dataset
}

// fromZero makes the series of a counter for failures that alerts watch. Prometheus sees no increase
// in a series that begins above 0, so the first failure would cause no alert. of is the value of
// the label before the label end.
func fromZero(c *prometheus.CounterVec, of string) {
	for _, kind := range []fault.Kind{fault.Corrupt, fault.Internal, fault.Unavailable, fault.Exhausted} {
		c.WithLabelValues(of, kind.String())
	}
}

// Observer returns the observer of the server.
func (m *Metrics) Observer() flight.Observer {
	return flight.Observer{
		CallEnded: func(method, end string, took time.Duration) {
			fromZero(m.calls, method)
			m.calls.WithLabelValues(method, end).Inc()
			m.took.WithLabelValues(method).Observe(took.Seconds())
		},
		StreamBegan: func(dataset, job string) {
			m.open.WithLabelValues(label(dataset)).Inc()
			fromZero(m.ended, label(dataset))
			m.setBack.WithLabelValues(label(dataset))
			m.jobs.began(job)
		},
		BatchSent: func(dataset, job string, rows, bytes, mapped int64) {
			m.jobs.sent(job, rows, bytes+mapped)
			m.rows.WithLabelValues(label(dataset)).Add(float64(rows))
			m.batches.WithLabelValues(label(dataset)).Inc()
			m.bytes.WithLabelValues(label(dataset)).Add(float64(bytes))
			m.mapped.WithLabelValues(label(dataset)).Add(float64(mapped))
		},
		StreamSetBack: func(dataset string) { m.setBack.WithLabelValues(label(dataset)).Inc() },
		StreamEnded: func(end flight.StreamEnd) {
			m.open.WithLabelValues(label(end.Dataset)).Dec()
			m.ended.WithLabelValues(label(end.Dataset), end.End).Inc()
			m.streams.WithLabelValues(label(end.Dataset)).Observe(end.Took.Seconds())
			m.staging.add(end)
			m.jobs.ended(end)
		},
		Stalled: m.trainers.add,
	}
}

// Budget adds metrics of a memory budget. It is called once.
func (m *Metrics) Budget(b *budget.Budget) {
	gauge := func(name, help string, read func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
	}
	m.registry.MustRegister(
		gauge("penstock_memory_budget_bytes", "The memory budget.", b.Limit),
		gauge("penstock_memory_reserved_bytes", "Bytes of the memory budget that are reserved.", b.Used),
		gauge("penstock_memory_idle_bytes", "Reserved bytes of caches for later streams, which are released when memory is needed.", b.Idle),
		gauge("penstock_memory_reserved_peak_bytes", "The most bytes that were ever reserved at the same time.", b.Peak),
	)
}

// Storage adds a metric of abandoned calls. It is called once.
func (m *Metrics) Storage(c *store.Calls) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "penstock_storage_calls_left_behind",
		Help: "Opens and reads that storage has not answered and whose callers no longer wait.",
	}, func() float64 {
		n := 0
		for _, left := range c.Abandoned() {
			n += left
		}
		return float64(n)
	}))
}

// HealthPath is the path at which probes ask whether the server is ready for calls. Requests need
// no token.
const HealthPath = "/healthz"

// SetReady sets what HealthPath reports. Before its first call, the server is not ready.
func (m *Metrics) SetReady(ready bool) { m.ready.Store(ready) }

// health responds with status 200 while the server is ready for calls, and with 503 otherwise.
func (m *Metrics) health(w http.ResponseWriter, _ *http.Request) {
	if !m.ready.Load() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "serving\n") // a failure means that the client has gone
}

// HealthHandler serves the health at HealthPath, and nothing else.
func (m *Metrics) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+HealthPath, m.health)
	return mux
}

// Handler serves the metrics at /metrics, the health at HealthPath, a page with links at / and, if profiles is set, the profiles of the Go
// runtime at /debug/pprof/.
func (m *Metrics) Handler(profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", index(profiles))
	mux.HandleFunc("GET "+HealthPath, m.health)
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry}))
	if profiles {
		addProfiles(mux)
	}
	return mux
}
