// Package telemetry has the logger, the Prometheus metrics and the HTTP handler that serves
// them. It has no global state: each Metrics has its own registry. Other packages report to
// observers and do not depend on Prometheus.
package telemetry
