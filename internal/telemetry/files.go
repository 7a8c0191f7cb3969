package telemetry

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/spool"
)

// Spool adds metrics of the rows on local disk that do not fit in memory. limit is the setting
// spool_limit. It is called once.
func (m *Metrics) Spool(limit int64, read func() spool.Stats) {
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	m.registry.MustRegister(
		gauge("penstock_spool_bytes", "Bytes on local disk of rows that do not fit in memory.", func() int64 { return read().Used }),
		gauge("penstock_spool_limit_bytes", "The setting spool_limit; 0 is unlimited.", func() int64 { return max(0, limit) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "penstock_spool_written_bytes_total", Help: "Bytes that were written to local disk for rows that do not fit in memory.",
		}, func() float64 { return float64(read().Written) }),
	)
}

// Files returns the function that records whether a group of files, such as the tokens, is in use
// as it is on disk.
func (m *Metrics) Files() func(group string, current bool) {
	current := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "penstock_files_current", Help: "1 if files that the server reads again when they change are in use as they are; 0 if they were refused.",
	}, []string{"files"})
	m.registry.MustRegister(current)
	return func(group string, is bool) {
		current.WithLabelValues(strings.TrimPrefix(group, "the ")).Set(map[bool]float64{true: 1}[is])
	}
}

// CertificateExpiry adds a metric of when the server's certificate expires. It is called once.
func (m *Metrics) CertificateExpiry(read func() time.Time) {
	m.time("penstock_certificate_expiry_timestamp_seconds", "When the server's certificate expires, in seconds since 1970.", read)
}

// IssuerKeys adds a metric of when the keys of the token issuer were fetched. It is called once.
func (m *Metrics) IssuerKeys(fetched func() time.Time) {
	m.time("penstock_issuer_keys_fetched_timestamp_seconds", "When the keys of the token issuer were fetched last, in seconds since 1970.", fetched)
}

// time adds a metric of a time.
func (m *Metrics) time(name, help string, read func() time.Time) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read().Unix()) }))
}
