package telemetry

import (
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
)

// Described returns the names of all metrics, also of those that have no value yet.
func (m *Metrics) Described() []string {
	described := make(chan *prometheus.Desc)
	go func() {
		m.registry.Describe(described)
		close(described)
	}()
	name := regexp.MustCompile(`fqName: "(\w+)"`)
	var out []string
	for d := range described {
		out = append(out, name.FindStringSubmatch(d.String())[1])
	}
	return out
}
