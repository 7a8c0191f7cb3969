package otlp

import (
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	wire "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/penstock/penstock/internal/trace"
)

// service is the name of the program in traces.
const service = "penstock"

// request returns the message with some traces.
func (e *Exporter) request(of []trace.Trace) *collector.ExportTraceServiceRequest {
	var spans []*wire.Span
	for _, one := range of {
		for i := range one.Spans {
			spans = append(spans, spanOf(one.ID, &one.Spans[i]))
		}
	}
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*wire.ResourceSpans{{
		Resource:   &resource.Resource{Attributes: []*common.KeyValue{text("service.name", service), text("service.version", e.options.Version)}},
		ScopeSpans: []*wire.ScopeSpans{{Scope: &common.InstrumentationScope{Name: service, Version: e.options.Version}, Spans: spans}},
	}}}
}

func spanOf(id trace.ID, s *trace.Span) *wire.Span {
	out := &wire.Span{
		TraceId: id[:], SpanId: s.ID[:], Name: s.Kind.String(), Kind: kindOf(s),
		StartTimeUnixNano: uint64(max(0, s.Begin.UnixNano())), EndTimeUnixNano: uint64(max(0, s.End.UnixNano())), //nolint:gosec // not negative
	}
	if s.Parent != (trace.SpanID{}) {
		out.ParentSpanId = s.Parent[:]
	}
	if s.Failed {
		out.Status = &wire.Status{Code: wire.Status_STATUS_CODE_ERROR}
	}
	for _, a := range s.Attributes {
		switch {
		case a.Text != "":
			out.Attributes = append(out.Attributes, text(string(a.Key), a.Text))
		case trace.Counts(a.Key):
			out.Attributes = append(out.Attributes, number(string(a.Key), a.Number))
		}
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, &wire.Span_Link{TraceId: l.Trace[:], SpanId: l.Span[:]})
	}
	return out
}

// kindOf returns the kind of a span in the protocol.
func kindOf(s *trace.Span) wire.Span_SpanKind {
	if s.Kind.Serves() {
		return wire.Span_SPAN_KIND_SERVER
	}
	return wire.Span_SPAN_KIND_INTERNAL
}

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

func number(key string, value int64) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: value}}}
}
