package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/penstock/penstock/cmd/penstock/auth"
	"github.com/penstock/penstock/cmd/penstock/webserver"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/telemetry"
)

// httpConnections is the maximum number of connections to an address of HTTP.
const httpConnections = 64

// httpServer serves HTTP beside the server of streams: metrics, or the health for probes.
type httpServer struct {
	setting string // the setting that has the address
	on      net.Listener
	server  *http.Server
}

// listenHTTP binds the addresses of metrics and of probes, if they are set.
func listenHTTP(ctx context.Context, entry *auth.Guard, metrics *telemetry.Metrics, log *slog.Logger) ([]httpServer, error) {
	var all []httpServer
	add := func(setting string, on net.Listener, handler http.Handler) {
		if on != nil {
			all = append(all, httpServer{setting, on, webserver.New(handler, httpConnections, log)})
		}
	}
	on, handler, err := entry.ListenMetrics(ctx, metrics)
	if err != nil {
		return nil, err
	}
	add("metrics", on, handler)
	if on, err = entry.ListenHealth(ctx); err != nil {
		return nil, err
	}
	add("health", on, metrics.HealthHandler())
	return all, nil
}

// serve serves until the server is closed. Requests end with ctx.
func (s httpServer) serve(ctx context.Context) error {
	s.server.BaseContext = func(net.Listener) context.Context { return ctx }
	if err := s.server.Serve(s.on); !errors.Is(err, http.ErrServerClosed) {
		return fault.New(fault.Unavailable, "serve %s: %w", s.setting, err)
	}
	return nil
}
