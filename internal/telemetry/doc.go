// Package telemetry makes the logger, the Prometheus metrics and the HTTP
// handler that shows them. It keeps nothing global: whoever makes a Metrics
// owns its registry. Other packages report through observers of their own and
// know nothing of Prometheus.
package telemetry
