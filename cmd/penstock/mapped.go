package main

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/cmd/penstock/socket"
	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/segment"
	"github.com/penstock/penstock/internal/telemetry"
)

// mappedMemory delivers batches in mapped memory to clients on the same machine. The zero value, without
// the setting local_socket, delivers none.
type mappedMemory struct {
	sessions *local.Sessions
	listener net.Listener
	path     string // of the socket, absolute
}

// listenLocal binds the socket of the setting local_socket, if it is set. The caller closes what it
// returns.
func (e *engine) listenLocal(ctx context.Context, s config.Server, log *slog.Logger) (mappedMemory, error) {
	if s.LocalSocket == "" {
		return mappedMemory{}, nil
	}
	path, err := filepath.Abs(s.LocalSocket)
	if err != nil {
		return mappedMemory{}, fault.New(fault.Invalid, "local_socket %s: %w", s.LocalSocket, err)
	}
	if err := socket.PrivateFolder(filepath.Dir(path)); err != nil {
		return mappedMemory{}, fault.Op(err, "local_socket %s", path)
	}
	listener, err := socket.Listen(ctx, socket.Packets, path)
	if err != nil {
		return mappedMemory{}, fault.Op(err, "local_socket")
	}
	lender := segment.NewLender(e.budget, s.MappedBytes())
	e.pools = append(e.pools, lender)
	e.closers = append(e.closers, lender.Close)
	return mappedMemory{sessions: local.New(lender, time.Now, log), listener: listener, path: path}, nil
}

// observe adds metrics of the sessions.
func (m mappedMemory) observe(metrics *telemetry.Metrics) {
	if m.sessions != nil {
		metrics.Mapped(m.sessions.Stats)
	}
}

// serve accepts sessions until Close.
func (m mappedMemory) serve() error {
	if m.sessions == nil {
		return nil
	}
	return m.sessions.Serve(m.listener)
}

// Close ends all sessions, and removes the socket. Clients keep what they have.
func (m mappedMemory) Close() {
	if m.sessions != nil {
		_ = m.listener.Close() // it may be closed already
		m.sessions.Close()
	}
}
