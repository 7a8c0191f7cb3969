// Package flighttest runs Flight servers on the loopback and calls them, for tests of package flight and of the packages below it.
package flighttest

import (
	"context"
	"encoding/json"
	"net"
	"sync"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/failure"
)

// Server is a flight.Server. The tests of package flight import this package, so it cannot import flight.
type Server interface {
	Serve(listener net.Listener) error
	Shutdown(ctx context.Context) error
}

// Serve runs a server on the loopback until the test ends, and returns its address.
func Serve(t testing.TB, server Server) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() { require.NoError(t, server.Serve(listener)) })
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ctx)
		running.Wait()
	})
	return listener.Addr().String()
}

// Dial returns a client of a server, which is closed when the test ends.
func Dial(t testing.TB, address string, options ...grpc.DialOption) arrowflight.Client {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	client, err := arrowflight.NewClientWithMiddleware(address, nil, nil, options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Command returns a descriptor that carries a command: a query, or a change of a table.
func Command(text string) *arrowflight.FlightDescriptor {
	return &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: []byte(text)}
}

// FailureOf returns the code and the details of an error, as a client decodes them.
func FailureOf(t testing.TB, err error, trailer metadata.MD) (codes.Code, failure.Details) {
	t.Helper()
	require.Error(t, err)
	var d failure.Details
	if text := trailer.Get(failure.TrailerKey); len(text) > 0 {
		require.Len(t, text, 1)
		require.NoError(t, json.Unmarshal([]byte(text[0]), &d))
	}
	return status.Code(err), d
}
