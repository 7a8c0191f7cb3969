package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/pintag"
)

// PinTags returns the observer of checks of tags. It is called once.
func (m *Metrics) PinTags() func(pintag.Look) {
	looks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_pin_tag_looks_total",
		Help: "Checks of the tags of pinned snapshots, by purpose and outcome. The purpose is query (a query waited for the check) or renewal (of the tags of running streams).",
	}, []string{"for", "outcome"})
	m.registry.MustRegister(looks)
	return func(l pintag.Look) {
		purpose, outcome := "query", "ok"
		if l.Renewal {
			purpose = "renewal"
		}
		if l.Err != nil {
			outcome = fault.KindOf(l.Err).String()
		}
		looks.WithLabelValues(purpose, outcome).Inc()
	}
}
