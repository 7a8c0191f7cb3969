package engine

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/penstock/penstock/cmd/penstock/socket"
	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/segment"
	"github.com/penstock/penstock/internal/telemetry"
)

// MappedMemory delivers batches in mapped memory to clients on the same machine. If `local_socket`
// is not set, the zero value is used, which delivers nothing.
type MappedMemory struct {
	Sessions *local.Sessions
	listener net.Listener
	Path     string // the absolute path of the socket
}

// ListenLocal binds the socket that `local_socket` names, if it is set. The caller closes the
// result.
func (e *Engine) ListenLocal(ctx context.Context, s config.Server, log *slog.Logger) (MappedMemory, error) {
	if s.LocalSocket == "" {
		return MappedMemory{}, nil
	}
	path, err := filepath.Abs(s.LocalSocket)
	if err != nil {
		return MappedMemory{}, fault.New(fault.Invalid, "local_socket %s: %w", s.LocalSocket, err)
	}
	if err := socket.PrivateFolder(filepath.Dir(path)); err != nil {
		return MappedMemory{}, fault.Op(err, "local_socket %s", path)
	}
	listener, err := socket.Listen(ctx, socket.Packets, path)
	if err != nil {
		return MappedMemory{}, fault.Op(err, "local_socket")
	}
	lender := segment.NewLender(e.Budget, s.MappedBytes())
	e.pools = append(e.pools, lender)
	e.closers = append(e.closers, lender.Close)
	return MappedMemory{Sessions: local.New(lender, clock.Now, log), listener: listener, Path: path}, nil
}

// Observe adds metrics of the open sessions.
func (m MappedMemory) Observe(metrics *telemetry.Metrics) {
	if m.Sessions != nil {
		metrics.Mapped(m.Sessions.Stats)
	}
}

// Serve accepts sessions until Close.
func (m MappedMemory) Serve() error {
	if m.Sessions == nil {
		return nil
	}
	return m.Sessions.Serve(m.listener)
}

// Close ends all sessions, and removes the socket. Clients can still use the batches that they have
// received.
func (m MappedMemory) Close() {
	if m.Sessions != nil {
		_ = m.listener.Close() // it may be closed already
		m.Sessions.Close()
	}
}
