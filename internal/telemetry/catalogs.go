package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/fault"
)

// Lookups returns the function that counts the lookups of tables in a catalog, with their duration
// and error. A lookup whose caller canceled it is not counted. It is called once, with the names of
// all catalogs.
func (m *Metrics) Lookups(catalogs []string) func(catalog string, took time.Duration, err error) {
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_catalog_lookups_total", Help: "Lookups of tables in a catalog, by outcome: ok or a kind of failure.",
	}, []string{"catalog", "outcome"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "penstock_catalog_lookup_seconds", Help: "How long lookups of tables in a catalog took.",
		Buckets: prometheus.ExponentialBuckets(minCall, callFactor, callBuckets),
	}, []string{"catalog"})
	m.registry.MustRegister(ended, took)
	for _, name := range catalogs {
		ended.WithLabelValues(name, "ok")
		ended.WithLabelValues(name, fault.Unavailable.String())
	}
	return func(catalog string, d time.Duration, err error) {
		outcome := "ok"
		switch {
		case errors.Is(err, context.Canceled):
			return
		case err != nil:
			outcome = fault.KindOf(err).String()
		}
		ended.WithLabelValues(catalog, outcome).Inc()
		took.WithLabelValues(catalog).Observe(d.Seconds())
	}
}
