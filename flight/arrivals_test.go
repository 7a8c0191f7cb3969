package flight

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	flightgen "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// connect connects to a server without the Flight client.
func (s *served) connect(t testing.TB) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// openCall sends the headers of a call, without its request.
func openCall(ctx context.Context, conn *grpc.ClientConn, method string) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+flightgen.FlightService_ServiceDesc.ServiceName+"/"+method)
}

// serveWorld serves tables in memory.
func serveWorld(t testing.TB, options Options) *served {
	t.Helper()
	w := newWorld(t)
	options.Loader = w.loader()
	return serve(t, options)
}

// TestCallsThatDoNotArrive: open calls whose requests have not arrived are limited, in all and for each host, whatever their
// method; calls that have arrived or ended leave room.
//
// spec: wire-45
func TestCallsThatDoNotArrive(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{PeerShare: 50})
	s.server.arrivals.counts.limit = 6
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conn := s.connect(t)
	var open []grpc.ClientStream
	for _, method := range []string{"GetFlightInfo", "DoGet", "GetSchema"} {
		one, err := openCall(ctx, conn, method)
		require.NoError(t, err)
		open = append(open, one)
	}
	count := func() int {
		s.server.arrivals.counts.mu.Lock()
		defer s.server.arrivals.counts.mu.Unlock()
		return s.server.arrivals.counts.total
	}
	require.Eventually(t, func() bool { return count() == 3 }, 10*time.Second, time.Millisecond)
	_, err := s.GetFlightInfo(t.Context(), command(`{"dataset":"homefeed"}`))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "too many calls wait for their requests")

	require.NoError(t, open[0].SendMsg(command(`{"dataset":"homefeed"}`)))
	require.NoError(t, open[0].CloseSend())
	require.NoError(t, open[0].RecvMsg(&flightgen.FlightInfo{}))
	require.ErrorIs(t, open[0].RecvMsg(&flightgen.FlightInfo{}), io.EOF)
	require.Eventually(t, func() bool { return count() == 2 }, 10*time.Second, time.Millisecond)
	_, err = s.GetFlightInfo(t.Context(), command(`{"dataset":"homefeed"}`))
	require.NoError(t, err)
	cancel()
	require.Eventually(t, func() bool { return count() == 0 }, 10*time.Second, time.Millisecond)
	require.Empty(t, s.server.arrivals.counts.hosts)
	require.Error(t, conn.Invoke(t.Context(), "/of.another/Service", command("{}"), &flightgen.FlightInfo{}))
	require.Eventually(t, func() bool { return count() == 0 }, 10*time.Second, time.Millisecond)
}

// TestRunningCallsHaveArrived: a call whose request has arrived does not count, however long it runs.
//
// spec: wire-45
func TestRunningCallsHaveArrived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	planning, plan := make(chan struct{}), make(chan struct{})
	s := serve(t, Options{Loader: altered{Loader: w.loader(), plan: func(q dataset.Query) (loader.Planned, error) {
		planning <- struct{}{}
		<-plan
		return w.loader().Plan(t.Context(), q)
	}}})
	done := make(chan error)
	go func() {
		_, err := s.GetFlightInfo(t.Context(), command(`{"dataset":"homefeed"}`))
		done <- err
	}()
	<-planning
	s.server.arrivals.counts.mu.Lock()
	require.Zero(t, s.server.arrivals.counts.total)
	s.server.arrivals.counts.mu.Unlock()
	close(plan)
	require.NoError(t, <-done)
}

// TestRequestsArriveInTime: a call ends if its request does not arrive in time.
//
// spec: wire-45
func TestRequestsArriveInTime(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{})
	s.server.arrivals.timeout = 20 * time.Millisecond
	for _, method := range []string{"GetFlightInfo", "DoGet", "DoAction"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		call, err := openCall(ctx, s.connect(t), method)
		require.NoError(t, err)
		err = call.RecvMsg(&flightgen.FlightInfo{})
		require.Equal(t, codes.InvalidArgument, status.Code(err), method)
		require.ErrorContains(t, err, "the request did not arrive within 20ms")
	}
}

// TestRequestsAndHeadersAreLimited: a large request and large headers are refused, whatever the headers repeat.
//
// spec: wire-45
func TestRequestsAndHeadersAreLimited(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{})
	_, err := s.GetFlightInfo(t.Context(), command(`{"dataset":"`+strings.Repeat("x", maxReceived)+`"}`))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	large := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", maxHeaderBytes))
	_, err = s.GetFlightInfo(large, command(`{"dataset":"homefeed"}`))
	require.Error(t, err)
	many := metadata.MD{}
	for range 200 {
		many.Append("y", strings.Repeat("y", 100))
	}
	_, err = s.GetFlightInfo(metadata.NewOutgoingContext(t.Context(), many), command(`{"dataset":"homefeed"}`))
	require.Error(t, err)
	_, err = s.GetFlightInfo(t.Context(), command(`{"dataset":"homefeed"}`))
	require.NoError(t, err)
}

// TestConnectionsAreLimited: connections beyond the limits are closed at once, and are logged; those that end leave room.
//
// spec: wire-45
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := serveWorld(t, Options{MaxConnections: 8, PeerShare: 50, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	open := make([]net.Conn, 4)
	for i := range open {
		var err error
		open[i], err = net.Dial("tcp", s.address)
		require.NoError(t, err)
	}
	refused := func() bool {
		c, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		defer c.Close() //nolint:errcheck // of a test
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		n, _ := c.Read(make([]byte, 1)) // the server's settings come first
		return n == 0
	}
	require.True(t, refused())
	require.True(t, refused())
	for i := range 5 { // of another host
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i/4))}}
		c, err := from.Dial("tcp", s.address)
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		n, _ := c.Read(make([]byte, 1))
		require.Equal(t, i < 4, n > 0)
		open = append(open, c)
	}
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { return !refused() }, 10*time.Second, time.Millisecond)
	_, err := s.GetFlightInfo(t.Context(), command(`{"dataset":"homefeed"}`))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, s.server.Shutdown(ctx))
	require.Equal(t, 1, strings.Count(log.String(), "connections refused"))
	require.Contains(t, log.String(), "refused=1 host=127.0.0.1")
	require.Empty(t, s.server.connections.counts.hosts)
}

// TestConnectionsThatFailAreForgotten: nothing is kept of a connection that ends before its client has spoken HTTP/2, as
// those of load balancers that probe the port.
func TestConnectionsThatFailAreForgotten(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{})
	for range 3 {
		c, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1)) // the server's settings: the connection was accepted
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool {
		s.server.connections.counts.mu.Lock()
		defer s.server.connections.counts.mu.Unlock()
		return s.server.connections.counts.total == 0
	}, 10*time.Second, time.Millisecond)
	s.server.connections.mu.Lock()
	defer s.server.connections.mu.Unlock()
	require.Empty(t, s.server.connections.open)
}

// TestDeadlinesOfRefusedCallsAreLimited: gRPC keeps the deadline of a refused call until it has passed, or the connection has
// ended. So a connection is closed when too many of its calls with a deadline were refused.
//
// spec: wire-45
func TestDeadlinesOfRefusedCallsAreLimited(t *testing.T) {
	t.Parallel()
	a := newArrivals(100)
	a.counts.limit = 1
	require.True(t, a.counts.enter(""))
	conn := &closing{closed: make(chan struct{})}
	client := &connection{conn: conn}
	of := context.WithValue(t.Context(), connectionKey{}, client)
	timed, cancel := context.WithTimeout(of, time.Hour)
	defer cancel()
	refuse := func(ctx context.Context, calls int) {
		for range calls {
			_, err := a.tap(ctx, nil)
			require.Equal(t, codes.Unavailable, status.Code(err))
		}
	}
	refuse(of, maxRefused+1)
	refuse(timed, maxRefused)
	require.EqualValues(t, maxRefused, client.kept.Load())
	refuse(timed, 2)
	require.Eventually(t, func() bool {
		select {
		case <-conn.closed: // once
			return true
		default:
			return false
		}
	}, 10*time.Second, time.Millisecond)
}

// TestDeadlinesEndWithTheConnection: the contexts of a connection's calls end with it.
func TestDeadlinesEndWithTheConnection(t *testing.T) {
	t.Parallel()
	c := newConnections(0, 100, func(*connection) {}, func(string) {})
	of := c.TagConn(t.Context(), &stats.ConnTagInfo{})
	call, cancel := context.WithTimeout(of, time.Hour)
	defer cancel()
	require.NoError(t, call.Err())
	c.HandleConn(of, &stats.ConnEnd{})
	require.Error(t, call.Err())
}
