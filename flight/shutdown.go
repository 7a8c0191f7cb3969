package flight

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/internal/fault"
)

// isDraining reports whether Shutdown has begun.
func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// reportReady makes health checks report that the server serves, once it is ready. It returns when the server ends.
func (s *Server) reportReady(over <-chan struct{}) {
	select {
	case <-s.options.Ready:
		s.health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING) // no effect after Shutdown
	case <-over:
	}
}

// within derives a context from that of a call, which also ends on another event. leave frees it.
type within func(call context.Context) (ctx context.Context, leave func())

// until returns a within whose contexts also end when the context over ends, with its cause.
func until(over context.Context) within {
	return func(call context.Context) (context.Context, func()) {
		ctx, cancel := context.WithCancelCause(call)
		stop := context.AfterFunc(over, func() { cancel(context.Cause(over)) })
		return ctx, func() {
			stop()
			cancel(nil)
		}
	}
}

// ErrCallsAbandoned is wrapped by the error that Shutdown returns if it abandoned calls.
var ErrCallsAbandoned = errors.New("calls that did not end were abandoned")

// Shutdown stops accepting connections and calls, and waits for running calls to finish. If
// ctx ends first, the remaining streams end as unavailable, and the error has their number.
// Shutdown returns within 5 seconds after the end of ctx: calls that have not ended by then
// keep running, and the error wraps ErrCallsAbandoned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.Shutdown()
	s.drain()
	s.admission.Shutdown()
	quiet := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(quiet)
	}()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
	}
	left := s.Streams()
	s.end(failure.ByServer(fault.New(fault.Unavailable, "the server is shutting down").
		WithRemedy("resume from the cursor of the last batch, here after the restart or on another server")))
	// A stream whose client does not read cannot send its status: it ends with its connection.
	if !closedIn(quiet, statusGrace) {
		go s.grpc.Stop()
		if !closedIn(quiet, s.callGrace) {
			s.abandon()
			return fault.New(fault.Unavailable, "%s ended early, and %w", fault.Count(left, "stream"), ErrCallsAbandoned)
		}
	}
	if left == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "%s ended early", fault.Count(left, "stream"))
}

// closedIn reports whether a channel is closed within a time.
func closedIn(closed <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-closed:
		return true
	case <-timer.C:
		return false
	}
}

// enter counts a stream until leave is called, which may be called more than once. The context
// ends with the call, and when Shutdown stops waiting for streams.
func (s *Server) enter(call context.Context) (ctx context.Context, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams++
	ctx, end := s.untilEnd(call)
	return ctx, sync.OnceFunc(func() {
		end()
		s.mu.Lock()
		s.streams--
		s.mu.Unlock()
	})
}
