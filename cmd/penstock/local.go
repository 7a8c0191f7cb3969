package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/telemetry"
)

// Sizes of the server in this process, in bytes.
const (
	localBuffer  = 1 << 20       // on the way to the client and back
	localMessage = math.MaxInt32 // the most that gRPC takes; memory is the limit here
	localDetails = 1 << 20       // of a failure: no header of a foreign client bounds it
)

// openLocal serves a config file to a client of this process, over a
// connection in memory: what it says is what a server would say. No port is
// opened.
func (p process) openLocal(ctx context.Context, file string) (*client, error) {
	c, err := p.load(file, nil)
	if err != nil {
		return nil, err
	}
	keys, err := flight.RandomKeys(rand.Reader)
	if err != nil {
		return nil, err
	}
	e, err := assemble(ctx, c)
	if err != nil {
		return nil, err
	}
	server := flight.New(flight.Options{
		Loader: e, Verifier: e, Keys: keys, Clock: p.clock, MaxMessage: localMessage, MaxDetails: localDetails, Version: version(),
		// Of bugs alone: what else goes wrong the client tells.
		Logger: telemetry.NewLogger(p.stderr, slog.LevelError, "text"),
	})
	listener := bufconn.Listen(localBuffer)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	end := func() error {
		// The client is gone, so that nothing runs on for long.
		err := server.Shutdown(context.WithoutCancel(ctx))
		err = errors.Join(err, <-served)
		e.Close()
		return err
	}
	// The name says to gRPC that there is nothing to look up.
	s, err := connect("passthrough:///in-process", localMessage,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		return nil, errors.Join(err, end())
	}
	s.name, s.end = "the server in this process", end
	return s, nil
}
