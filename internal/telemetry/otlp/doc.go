// Package otlp exports traces to a collector over OTLP, the protocol of OpenTelemetry, by gRPC.
//
// It uses the protocol's messages and not the SDK: the spans of Penstock have ids and times of their own, so the SDK would only
// send them, and it is 40 times as large. The exporter never makes its callers wait. Spans wait in a bounded queue, whose memory is
// reserved from the budget. If the collector is slow or does not answer, further spans are dropped and counted.
package otlp
