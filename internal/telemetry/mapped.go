package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/flight/local"
)

// Mapped adds metrics of batches in mapped memory. It is called once.
func (m *Metrics) Mapped(read func() local.SessionStats) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "penstock_local_sessions", Help: "Sessions of clients that read batches from mapped memory.",
	}, func() float64 { return float64(read().Sessions) }))
	for state, bytes := range map[string]func(local.SessionStats) int64{
		"lent": func(s local.SessionStats) int64 { return s.Lent },
		"kept": func(s local.SessionStats) int64 { return s.Kept },
		"free": func(s local.SessionStats) int64 { return s.Free },
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "penstock_mapped_memory_bytes",
			Help:        "Bytes of the memory budget for batches in mapped memory: lent to clients, kept for clients that read the same batches later, or free.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(bytes(read())) }))
	}
}
