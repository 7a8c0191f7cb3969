package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math"

	"google.golang.org/grpc/test/bufconn"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/telemetry"
)

// Sizes of the server in this process, in bytes.
const (
	localBuffer  = 1 << 20       // of the connection, in each direction
	localMessage = math.MaxInt32 // the maximum of gRPC: memory is the limit here
	localDetails = 1 << 20       // of a failure: the header limits of other clients do not apply
)

// openLocal serves a config file to a client in this process, over a connection in memory:
// its answers are those of a server. No port is opened.
func (p process) openLocal(ctx context.Context, file string) (*client.Client, error) {
	c, err := p.load(file, nil)
	if err != nil {
		return nil, err
	}
	keys, err := ticket.RandomKeys(rand.Reader)
	if err != nil {
		return nil, err
	}
	e, err := engine.Assemble(ctx, c)
	if err != nil {
		return nil, err
	}
	tables := e.TableWriter(1)
	server := flight.New(flight.Options{ //nolint:contextcheck // calls have their own contexts
		Loader: e.Loader, Verifier: e.Loader, ColumnSizes: e.Loader.ColumnSizes, Cache: e.CacheAdmin(), Keys: func() *ticket.Keys { return keys }, Clock: p.clock, MaxMessage: localMessage, MaxDetails: localDetails, Version: version(),
		Budget: e.Budget, History: e.TableHistory(), Tables: tables, Maintenance: tables, Promoter: e.Promoter(), MaxStages: 1,
		// Only bugs: the client reports other failures.
		Logger: telemetry.NewLogger(p.stderr, slog.LevelError, "text"),
	})
	listener := bufconn.Listen(localBuffer)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	end := func() error {
		// The client has closed its connection, so all calls end soon.
		err := server.Shutdown(context.WithoutCancel(ctx))
		err = errors.Join(err, <-served)
		e.Close()
		return err
	}
	return client.Local(listener.DialContext, localMessage, end)
}
