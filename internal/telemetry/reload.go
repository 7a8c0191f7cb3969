package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Reload is the result of reading the config file again.
type Reload int

// The results of a reload.
const (
	ReloadWhole   Reload = iota // all of the file is in use
	ReloadPartly                // the file's datasets are in use, but some of its settings need a restart
	ReloadRefused               // nothing of the file is in use
)

// label returns the value of the label result, and whether everything in the file is in use.
func (r Reload) label() (result string, whole bool) {
	switch r {
	case ReloadWhole:
		return "applied", true
	case ReloadPartly:
		return "applied", false
	case ReloadRefused:
		return "refused", false
	}
	return "refused", false
}

// Reloads registers the metrics of the config file, and returns the function that counts a reload.
// When it is called, the file must be in use.
func (m *Metrics) Reloads() func(Reload) {
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_config_reloads_total", Help: "How often the config file was read again, by result: applied or refused.",
	}, []string{"result"})
	current := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "penstock_config_current", Help: "1 if the config file is in use as it is; 0 if it is refused, or settings in it need a restart.",
	})
	current.Set(1)
	m.registry.MustRegister(ended, current)
	for _, result := range []Reload{ReloadWhole, ReloadRefused} {
		name, _ := result.label()
		ended.WithLabelValues(name)
	}
	return func(r Reload) {
		result, whole := r.label()
		ended.WithLabelValues(result).Inc()
		current.Set(map[bool]float64{true: 1}[whole])
	}
}
