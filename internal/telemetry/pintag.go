package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/pintag"
)

// PinTags returns what tags of pinned snapshots are to tell. It is called once.
func (m *Metrics) PinTags() func(pintag.Look) {
	looks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_pin_tag_looks_total",
		Help: "Looks at the tags of pinned snapshots, by whether a query waited (query) or streams run (renewal), and how they ended.",
	}, []string{"for", "outcome"})
	m.registry.MustRegister(looks)
	return func(l pintag.Look) {
		who, outcome := "query", "ok"
		if l.Renewal {
			who = "renewal"
		}
		if l.Err != nil {
			outcome = fault.KindOf(l.Err).String()
		}
		looks.WithLabelValues(who, outcome).Inc()
	}
}
