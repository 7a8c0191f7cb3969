package flight

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/inbound"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
)

// VersionKey is the header of an answered call that carries the version of the server, for errors of clients of another version.
const VersionKey = "penstock-version"

// call is one call of a client, from its headers to its end. tap makes it, and the methods of service take it from their context
// once: everything below them gets it as an argument. It belongs to the goroutine of the call.
type call struct {
	caller     identity.Caller // zero: the client sent no credentials, and needs none
	refusal    error           // why the call's credentials are not accepted; nil: they are
	peer       string          // address of the client
	host       string          // of the client; "" for Unix domain sockets
	connection *inbound.Connection
	arrival    *inbound.Arrival
	slot       *planSlot
	note       auditNote
}

// callKey is the key of a context's call.
type callKey struct{}

// callOf returns the call of a context that gRPC passes to a handler.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// tap is called with the headers of each call, before gRPC keeps anything of it. It must not block. The subject is known before
// the call counts, so that it counts against its subject.
func (s *Server) tap(ctx context.Context, of *tap.Info) (context.Context, error) {
	c := s.newCall(ctx, of)
	var err error
	if c.arrival, err = s.inbound.Admit(ctx, c.client()); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, callKey{}, c), nil
}

// newCall returns a call with its subject, or with its refusal: only the answer of a handler has details. Checks of health need no
// credentials.
func (s *Server) newCall(ctx context.Context, of *tap.Info) *call {
	c := &call{connection: inbound.ConnectionOf(ctx)}
	if p, ok := peer.FromContext(ctx); ok {
		c.peer, c.host = p.Addr.String(), inbound.HostOf(p.Addr)
	}
	if !strings.HasPrefix(of.FullMethodName, "/grpc.") {
		c.caller, c.refusal = s.callerOf(of.Header)
	}
	return c
}

// client returns what the call counts against: its subject, or else its host. It is "" for Unix domain sockets without credentials,
// which have no share.
func (c *call) client() string {
	if c.caller.Subject != "" {
		return "subject " + c.caller.Subject // no host has a space
	}
	return c.host
}

// attributes returns what the log has of the caller.
func (c *call) attributes() []slog.Attr {
	out := []slog.Attr{slog.String("peer", c.peer)}
	if c.caller.Subject != "" {
		out = append(out, slog.String("subject", c.caller.Subject))
	}
	return out
}

// stream intercepts every call, before its request is received.
func (s *Server) stream(service any, stream grpc.ServerStream, of *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	c := callOf(stream.Context())
	c.slot = &planSlot{calls: s.callSlots, plans: s.planSlots, client: c.client()}
	if path.Base(of.FullMethod) == "DoGet" {
		c.slot.plans = s.redeemSlots
	}
	defer c.slot.leave()
	stream, finish := s.inbound.Receive(stream, c.arrival, func(bytes int) { c.slot.bytes = int64(bytes) })
	defer finish()
	stream, done := s.answers.charged(stream, c)
	defer done()
	if strings.HasPrefix(of.FullMethod, "/grpc.") {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(s.draining, cancel)()
		return next(service, inContext{stream, ctx})
	}
	c.note.began = s.options.Clock()
	end := s.watch(stream.Context(), c, of.FullMethod, func() error {
		if c.refusal != nil {
			return c.refusal
		}
		// This fails only if the call has ended.
		_ = stream.SetHeader(metadata.Pairs(VersionKey, s.options.Version))
		return next(service, stream)
	})
	s.audited(c, path.Base(of.FullMethod), end)
	if end.Status == nil {
		return nil
	}
	stream.SetTrailer(end.Trailer(s.options.MaxDetails))
	return end.Status.Err()
}

// inContext replaces the context of a stream.
type inContext struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // gRPC streams carry theirs
}

// Context implements grpc.ServerStream.
func (s inContext) Context() context.Context { return s.ctx }

// watch runs a call, reports how it ended to the log and the observer, and returns its ending.
// A panic is a failure.
func (s *Server) watch(ctx context.Context, c *call, method string, run func() error) failure.Ending {
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
	attributes = append(attributes, c.attributes()...)
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
