// Package otlptest has a collector of traces for tests, which implements OTLP over gRPC.
package otlptest

import (
	"context"
	"encoding/hex"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	wire "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Span is a span that the collector has received. Ids are in hexadecimal digits.
type Span struct {
	Trace, ID, Parent string
	Name              string
	Begin, End        time.Time
	Failed            bool
	Texts             map[string]string
	Numbers           map[string]int64
	Links             []Link
}

// Link is a link of a span.
type Link struct{ Trace, Span string }

// Collector receives spans. It is safe for concurrent use.
type Collector struct {
	Address string
	server  *grpc.Server

	mu      sync.Mutex
	spans   []Span
	headers metadata.MD // of the last message
	raw     [][]byte    // the messages
	answer  func(context.Context) (rejected int64, err error)
}

// Start starts a collector, which runs until the test ends. The options are those of its server, such as its certificate.
func Start(t testing.TB, options ...grpc.ServerOption) *Collector {
	t.Helper()
	on, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &Collector{Address: on.Addr().String(), server: grpc.NewServer(options...)}
	c.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector.trace.v1.TraceService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Export", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var request collector.ExportTraceServiceRequest
			if err := decode(&request); err != nil {
				return nil, err
			}
			return c.take(ctx, &request)
		}}},
	}, c)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = c.server.Serve(on)
	}()
	t.Cleanup(func() {
		c.server.Stop()
		<-served
	})
	return c
}

// Answer makes the collector answer messages with the result of a function: the number of spans that it rejects, or an error. It
// does not keep the spans.
func (c *Collector) Answer(answer func(context.Context) (rejected int64, err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

func (c *Collector) take(ctx context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	if answer != nil {
		rejected, err := answer(ctx)
		return &collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: rejected}}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers, _ = metadata.FromIncomingContext(ctx)
	c.raw = append(c.raw, []byte(request.String()))
	for _, r := range request.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			for _, one := range s.GetSpans() {
				c.spans = append(c.spans, spanOf(one))
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func spanOf(s *wire.Span) Span {
	out := Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()), Name: s.GetName(),
		Begin: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())), //nolint:gosec // of this century
		Failed: s.GetStatus().GetCode() == wire.Status_STATUS_CODE_ERROR, Texts: map[string]string{}, Numbers: map[string]int64{},
	}
	for _, a := range s.GetAttributes() {
		if text := a.GetValue().GetStringValue(); text != "" {
			out.Texts[a.GetKey()] = text
		} else {
			out.Numbers[a.GetKey()] = a.GetValue().GetIntValue()
		}
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, Link{hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId())})
	}
	return out
}

// Spans returns the spans that have come so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Headers returns the headers of the last message.
func (c *Collector) Headers() metadata.MD {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers
}

// Text returns all messages as text.
func (c *Collector) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(slices.Concat(c.raw...))
}
