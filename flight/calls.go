package flight

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/penstock/penstock/internal/fault"
)

// stream intercepts every call, before its request is received.
func (s *Server) stream(service any, stream grpc.ServerStream, of *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	slot := &planSlot{calls: s.callSlots, plans: s.planSlots, host: clientOf(stream.Context())}
	if path.Base(of.FullMethod) == "DoGet" {
		slot.plans = s.redeemSlots
	}
	defer slot.leave()
	note := &auditNote{}
	stream = inContext{stream, context.WithValue(context.WithValue(stream.Context(), planSlotKey{}, slot), auditKey{}, note)}
	arriving := s.arrivals.arriving(stream, slot)
	defer arriving.done()
	stream, done := s.answers.answering(arriving)
	defer done()
	if strings.HasPrefix(of.FullMethod, "/grpc.") {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(s.draining, cancel)()
		return next(service, inContext{stream, ctx})
	}
	note.began = s.options.Clock()
	end := s.watch(stream.Context(), of.FullMethod, func() error {
		if err := refusal(stream.Context()); err != nil {
			return err
		}
		// This fails only if the call has ended.
		_ = stream.SetHeader(metadata.Pairs(VersionKey, s.options.Version))
		return next(service, stream)
	})
	s.audited(stream.Context(), path.Base(of.FullMethod), note, end)
	if end.status == nil {
		return nil
	}
	stream.SetTrailer(end.trailer(s.options.MaxDetails))
	return end.status.Err()
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
func (s *Server) watch(ctx context.Context, method string, call func() error) ending {
	method = path.Base(method)
	began := s.options.Clock()
	err := guarded(method, call)
	end := endingOf(ctx, err)
	took := s.options.Clock().Sub(began)
	s.options.Observer.CallEnded(method, end.label, took)
	level := slog.LevelDebug
	if end.label == fault.Internal.String() {
		level = slog.LevelError
	}
	attributes := []slog.Attr{slog.String("method", method), slog.String("end", end.label), slog.Duration("took", took)}
	attributes = append(attributes, callerAttributes(ctx)...)
	if err != nil {
		attributes = append(attributes, slog.Any("error", err))
	}
	if c := (fault.Crash{}); errors.As(err, &c) {
		attributes = append(attributes, slog.String("stack", string(c.Stack)))
	}
	s.options.Logger.LogAttrs(ctx, level, "call", attributes...)
	return end
}

// guarded runs a call and returns a panic as an error, so that it does not end other calls.
func guarded(method string, call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fault.Crashed(method, value)
		}
	}()
	return call()
}

// hostOf returns the host of the client; "" for Unix domain sockets.
func hostOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return hostOfAddr(p.Addr)
	}
	return ""
}

// hostOfAddr returns the host of an address; "" for Unix domain sockets.
func hostOfAddr(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return ""
	}
	return host
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}
