package flight

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	flightgen "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/inbound"
	"github.com/penstock/penstock/internal/certtest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/loader"
)

// known accepts the tokens "a" and "b", of the subjects alice and bob.
func known(token string) (identity.Caller, error) {
	if subject, ok := map[string]string{"a": "alice", "b": "bob", "d": "carol"}[token]; ok {
		return identity.Caller{Subject: subject}, nil
	}
	return identity.Caller{}, fault.New(fault.Unauthenticated, "the token is unknown to the server").WithRemedy("get one")
}

// as returns the context of calls with values of the header authorization.
func as(ctx context.Context, values ...string) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.MD{"authorization": values})
}

// TestEveryCallNeedsCredentials: a call without credentials ends before its request is received, whatever its method; checks of
// health need none.
//
// spec: access-5
func TestEveryCallNeedsCredentials(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := serveWorld(t, Options{Authenticate: known, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	conn := s.connect(t)
	methods := []string{}
	for _, m := range flightgen.FlightService_ServiceDesc.Methods {
		methods = append(methods, m.MethodName)
	}
	for _, m := range flightgen.FlightService_ServiceDesc.Streams {
		methods = append(methods, m.StreamName)
	}
	require.Contains(t, methods, "Handshake")
	for _, method := range methods {
		for name, values := range map[string][]string{
			"none": nil, "unknown": {"Bearer c"}, "two": {"Bearer a", "Bearer a"}, "empty": {""}, "no scheme": {"a"}, "another scheme": {"Digest a"},
			"no token": {"Bearer "}, "a space more": {"Bearer  a"}, "a list": {"Bearer a, Bearer a"},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			call, err := openCall(as(ctx, values...), conn, method)
			require.NoError(t, err)
			err = call.RecvMsg(&flightgen.FlightData{}) // although nothing was sent
			require.Equal(t, codes.Unauthenticated, status.Code(err), "%s %s: %v", method, name, err)
			require.Contains(t, call.Trailer().Get(failure.TrailerKey)[0], `"kind":"unauthenticated"`, method)
			cancel()
		}
	}
	require.Contains(t, log.String(), "end=unauthenticated")
	for _, scheme := range []string{"Bearer", "bearer"} {
		_, err := s.GetFlightInfo(as(t.Context(), scheme+" a"), flighttest.Command(`{"dataset":"homefeed"}`))
		require.NoError(t, err)
	}
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, answer.GetStatus())
}

// spec: access-6
func TestTokenThatTheServerDoesNotCheckIsRefused(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{})
	_, err := s.GetFlightInfo(as(t.Context(), "Bearer a"), flighttest.Command(`{"dataset":"homefeed"}`))
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "has none configured")
	_, err = s.GetFlightInfo(t.Context(), flighttest.Command(`{"dataset":"homefeed"}`))
	require.NoError(t, err)
}

// TestSubjectsHaveShares: streams and arriving calls of two subjects on one host count apart, and the log has the subject.
//
// spec: access-8
func TestSubjectsHaveShares(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	peers := make(chan string, 8)
	subjects := make(chan string, 8)
	w := newWorld(t)
	s := serve(t, Options{
		Authenticate: known, PeerShare: 50, MaxStreams: 4, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Loader: altered{Loader: w.loader(), open: func(ctx context.Context, p loader.Planned, o loader.StreamOptions) (loader.Stream, error) {
			subjects <- call.Of(ctx).Caller.Subject
			peers <- o.Peer
			return w.loader().Open(ctx, p, o)
		}},
	})
	for _, c := range []struct{ token, subject string }{{"a", "alice"}, {"b", "bob"}} {
		ctx := as(t.Context(), "Bearer "+c.token)
		found, err := s.GetFlightInfo(ctx, flighttest.Command(`{"dataset":"homefeed"}`))
		require.NoError(t, err)
		rows, err := s.DoGet(ctx, found.GetEndpoint()[0].GetTicket())
		require.NoError(t, err)
		for err == nil {
			_, err = rows.Recv()
		}
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, c.subject, <-subjects)
		require.Equal(t, "subject "+c.subject, <-peers)
		<-s.ended
	}
	require.Contains(t, log.String(), "subject=alice")
	require.Contains(t, log.String(), "subject=bob")

	// The subject is known when a call begins to count, before its request has arrived.
	for header, client := range map[string]string{"Bearer a": "subject alice", "Bearer c": "127.0.0.1", "": "127.0.0.1"} {
		call := &tap.Info{FullMethodName: "/arrow.flight.protocol.FlightService/DoGet", Header: metadata.Pairs("authorization", header)}
		from := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}})
		require.Equal(t, client, s.server.newCall(from, call).Client(), header)
	}
}

// TestHandshakesCountAndEnd: a connection counts before its handshake, which must end in time.
//
// spec: access-1
func TestHandshakesCountAndEnd(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, certtest.Make(folder, []string{"localhost", "127.0.0.1"}, time.Now(), time.Hour))
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, certtest.ServerCert), filepath.Join(folder, certtest.ServerKey))
	require.NoError(t, err)
	s := serveWorld(t, Options{MaxConnections: 2, TLS: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}})
	silent := make([]net.Conn, 2)
	for i := range silent {
		silent[i], err = net.Dial("tcp", s.address)
		require.NoError(t, err)
		defer silent[i].Close() //nolint:errcheck // the server may have closed it
	}
	third, err := net.Dial("tcp", s.address)
	require.NoError(t, err)
	defer third.Close()                          //nolint:errcheck // the server has closed it
	for _, conn := range append(silent, third) { // one at once, and the others when their handshakes take too long
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
}

// TestConnectionsAreKnownOverTLS: the connection of a call is known over TLS too, so that it can be cut.
func TestConnectionsAreKnownOverTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, certtest.Make(folder, []string{"localhost", "127.0.0.1"}, time.Now(), time.Hour))
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, certtest.ServerCert), filepath.Join(folder, certtest.ServerKey))
	require.NoError(t, err)
	w := newWorld(t)
	found := make(chan *inbound.Connection, 1)
	s := serve(t, Options{
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13},
		Loader: altered{Loader: w.loader(), open: func(ctx context.Context, p loader.Planned, o loader.StreamOptions) (loader.Stream, error) {
			found <- call.Of(ctx).Connection
			return w.loader().Open(ctx, p, o)
		}},
	})
	trusted := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
	client, err := arrowflight.NewClientWithMiddleware(s.address, nil, nil, grpc.WithTransportCredentials(trusted))
	require.NoError(t, err)
	defer client.Close() //nolint:errcheck // a test
	plan, err := client.GetFlightInfo(t.Context(), flighttest.Command(`{"dataset":"homefeed"}`))
	require.NoError(t, err)
	rows, err := client.DoGet(t.Context(), plan.GetEndpoint()[0].GetTicket())
	require.NoError(t, err)
	for err == nil {
		_, err = rows.Recv()
	}
	require.ErrorIs(t, err, io.EOF)
	require.NotNil(t, (<-found).Client().Cut)
}
