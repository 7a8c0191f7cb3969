package flight

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/inbound"
	"github.com/penstock/penstock/internal/fault"
)

// VersionKey is the header of a response that carries the server's version, which a client of
// another version puts into its errors.
const VersionKey = "penstock-version"

// tap is called with the headers of each call, before gRPC allocates anything for the call. It must
// not block. It authenticates the call first, so that the limits count the call against its
// subject.
func (s *Server) tap(ctx context.Context, of *tap.Info) (context.Context, error) {
	c := s.newCall(ctx, of)
	var err error
	if c.Arrival, err = s.inbound.Admit(ctx, c.Client()); err != nil {
		return nil, err
	}
	return call.With(ctx, c), nil
}

// newCall returns a call with its subject, or with the error that refuses it. The handler returns
// that error, because gRPC sends the details of an error only if a handler returns it. Checks of
// health need no credentials.
func (s *Server) newCall(ctx context.Context, of *tap.Info) *call.Call {
	c := &call.Call{Connection: inbound.ConnectionOf(ctx)}
	if p, ok := peer.FromContext(ctx); ok {
		c.Peer, c.Host = p.Addr.String(), inbound.HostOf(p.Addr)
	}
	if !strings.HasPrefix(of.FullMethodName, "/grpc.") {
		c.Caller, c.Refusal = s.callerOf(of.Header)
	}
	return c
}

// stream intercepts every call, before its request is received.
func (s *Server) stream(service any, stream grpc.ServerStream, of *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	c := call.Of(stream.Context())
	c.Slot = &call.Slot{Calls: s.callSlots, Plans: s.planSlots, Client: c.Client()}
	if path.Base(of.FullMethod) == "DoGet" {
		c.Slot.Plans = s.redeemSlots
	}
	defer c.Slot.Leave()
	stream, finish := s.inbound.Receive(stream, c.Arrival, func(bytes int) { c.Slot.Bytes = int64(bytes) })
	defer finish()
	stream, done := s.answers.charged(stream, c)
	defer done()
	if strings.HasPrefix(of.FullMethod, "/grpc.") {
		return s.ended(stream, failure.EndingOf(stream.Context(), s.checkHealth(service, stream, of, next)))
	}
	began := s.options.Clock()
	end := s.watch(stream.Context(), c, of.FullMethod, func() error {
		if s.isDraining() {
			return shuttingDown()
		}
		if c.Refusal != nil {
			return c.Refusal
		}
		// This fails only if the call has ended.
		_ = stream.SetHeader(metadata.Pairs(VersionKey, s.options.Version))
		return s.guard.DisclosedName(c, next(service, stream))
	})
	if line, ok := c.Line(path.Base(of.FullMethod), end.Label, s.options.Clock().Sub(began)); ok && s.options.Audit != nil {
		s.options.Audit.Add(line)
	}
	return s.ended(stream, end)
}

// ended sends how a call ends, with its details.
func (s *Server) ended(stream grpc.ServerStream, end failure.Ending) error {
	if end.Status == nil {
		return nil
	}
	stream.SetTrailer(end.Trailer(s.options.MaxDetails))
	return end.Status.Err()
}

// checkHealth answers a call of the health service. Calls that watch it end when the server shuts down.
func (s *Server) checkHealth(service any, stream grpc.ServerStream, of *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if of.FullMethod == grpc_health_v1.Health_Watch_FullMethodName {
		leave, ok := call.Of(stream.Context()).Connection.Watch()
		if !ok {
			return fault.New(fault.Exhausted, "too many calls of this connection watch the health of the server").WithRemedy("watch it with one call, or check it")
		}
		defer leave()
	}
	ctx, leave := s.untilDrain(stream.Context())
	defer leave()
	return next(service, inContext{stream, ctx})
}

// inContext replaces the context of a stream.
type inContext struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // gRPC streams carry theirs
}

// Context implements grpc.ServerStream.
func (s inContext) Context() context.Context { return s.ctx }

// watch runs a call, reports to the log and the observer how the call ended, and returns its
// ending. A panic counts as a failure.
func (s *Server) watch(ctx context.Context, c *call.Call, method string, run func() error) failure.Ending {
	method = path.Base(method)
	began := s.options.Clock()
	err := guarded(method, run)
	end := failure.EndingOf(ctx, err)
	took := s.options.Clock().Sub(began)
	s.options.Observer.CallEnded(method, end.Label, took)
	level := slog.LevelDebug
	if end.Label == fault.Internal.String() {
		level = slog.LevelError
	}
	attributes := []slog.Attr{slog.String("method", method), slog.String("end", end.Label), slog.Duration("took", took)}
	attributes = append(attributes, c.Attributes()...)
	if err != nil {
		attributes = append(attributes, slog.Any("error", err))
	}
	if crash := (fault.Crash{}); errors.As(err, &crash) {
		attributes = append(attributes, slog.String("stack", string(crash.Stack)))
	}
	s.options.Logger.LogAttrs(ctx, level, "call", attributes...)
	return end
}

// guarded runs a call and returns a panic as an error, so that it does not end other calls.
func guarded(method string, run func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fault.Crashed(method, value)
		}
	}()
	return run()
}
