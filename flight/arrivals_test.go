package flight

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
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

	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/flight/rawclient"
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

// connectFrom connects from an address of the loopback.
func (s *served) connectFrom(t testing.TB, host string) *grpc.ClientConn {
	t.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return from.DialContext(ctx, "tcp", to) }))
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

// arrivingCalls returns how many calls have not arrived.
func (s *served) arrivingCalls() int {
	s.server.arrivals.mu.Lock()
	defer s.server.arrivals.mu.Unlock()
	return s.server.arrivals.calls.Len()
}

// requireNoneArriving requires that in the end no call counts any more.
func (s *served) requireNoneArriving(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { return s.arrivingCalls() == 0 }, 10*time.Second, time.Millisecond)
	a := s.server.arrivals
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Zero(t, a.received)
	require.Zero(t, a.calls.Len())
	require.Empty(t, a.senders)
}

// TestCallsThatDoNotArrive: open calls whose requests have not arrived are limited, whatever their method: a new one ends the
// oldest of the host with the most. Calls that have arrived or ended leave room.
//
// spec: wire-45
func TestCallsThatDoNotArrive(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	s := serveWorld(t, Options{Ticks: func() time.Time { return noon().Add(time.Duration(later.Load())) }})
	s.server.arrivals.calls = limits.NewRoom[*arrivingCall](4, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conns := map[string]*grpc.ClientConn{"127.0.0.1": s.connect(t), "127.0.0.2": s.connectFrom(t, "127.0.0.2")}
	var open []grpc.ClientStream
	for i, of := range []struct{ host, method string }{
		{"127.0.0.2", "DoGet"}, {"127.0.0.1", "GetFlightInfo"}, {"127.0.0.1", "DoGet"}, {"127.0.0.1", "GetSchema"},
	} {
		one, err := openCall(ctx, conns[of.host], of.method)
		require.NoError(t, err)
		open = append(open, one)
		require.Eventually(t, func() bool { return s.arrivingCalls() == i+1 }, 10*time.Second, time.Millisecond)
	}
	_, err := s.GetFlightInfo(t.Context(), command(`{"dataset":"homefeed"}`))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "too many calls wait for their requests; try again")
	require.NoError(t, conns["127.0.0.2"].Invoke(t.Context(), "/"+flightgen.FlightService_ServiceDesc.ServiceName+"/GetFlightInfo", command(`{"dataset":"homefeed"}`), &flightgen.FlightInfo{}))
	err = open[1].RecvMsg(&flightgen.FlightInfo{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "too many calls wait for their requests")
	open[1], err = openCall(ctx, conns["127.0.0.1"], "GetSchema")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.arrivingCalls() == 4 }, 10*time.Second, time.Millisecond)
	later.Store(int64(arrivalGrace))
	_, err = s.GetFlightInfo(t.Context(), command(`{"dataset":"homefeed"}`))
	require.NoError(t, err)
	require.Equal(t, codes.Unavailable, status.Code(open[2].RecvMsg(&flightgen.FlightData{})))
	require.Eventually(t, func() bool { return s.arrivingCalls() == 3 }, 10*time.Second, time.Millisecond)

	require.NoError(t, open[1].SendMsg(command(`{"dataset":"homefeed"}`)))
	require.NoError(t, open[1].CloseSend())
	require.NoError(t, open[1].RecvMsg(&flightgen.SchemaResult{}))
	require.Eventually(t, func() bool { return s.arrivingCalls() == 2 }, 10*time.Second, time.Millisecond)
	cancel()
	s.requireNoneArriving(t)
	require.Error(t, conns["127.0.0.1"].Invoke(t.Context(), "/of.another/Service", command("{}"), &flightgen.FlightInfo{}))
	s.requireNoneArriving(t)
}

// TestHalfSentRequests: what has come of requests that have not arrived is limited. The connection that has sent most loses
// its calls.
//
// spec: wire-45
func TestHalfSentRequests(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{})
	s.server.arrivals.bytes = 256 << 10
	half := func(n int) (*rawclient.Conn, chan error) {
		conn, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		c, err := rawclient.New(conn)
		require.NoError(t, err)
		stream, err := c.Open("GetFlightInfo")
		require.NoError(t, err)
		require.NoError(t, c.Begin(stream, 1<<20, 0))
		require.NoError(t, c.AwaitWindow(stream))
		require.NoError(t, c.More(stream, n))
		ended := make(chan error, 1)
		go func() {
			_, err := c.AwaitReset()
			ended <- err
		}()
		return c, ended
	}
	received := func() int64 {
		s.server.arrivals.mu.Lock()
		defer s.server.arrivals.mu.Unlock()
		return s.server.arrivals.received
	}
	_, small := half(50 << 10)
	require.Eventually(t, func() bool { return received() >= 50<<10 }, 10*time.Second, time.Millisecond)
	large, lost := half(150 << 10)
	require.Eventually(t, func() bool { return received() >= 200<<10 }, 10*time.Second, time.Millisecond)
	require.Empty(t, lost)
	require.NoError(t, large.More(1, 100<<10))
	require.NoError(t, <-lost)
	require.Empty(t, small)
	require.Eventually(t, func() bool { return s.arrivingCalls() == 1 }, 10*time.Second, time.Millisecond)
	require.Less(t, received(), int64(64<<10))
	_, err := s.GetFlightInfo(t.Context(), command(`{"dataset":"homefeed"}`))
	require.NoError(t, err)
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
	require.Zero(t, s.arrivingCalls())
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
	accepted := func(host byte) bool {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
		c, err := from.Dial("tcp", s.address)
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		n, _ := c.Read(make([]byte, 1))
		open = append(open, c)
		return n > 0
	}
	for i := range 5 {
		require.Equal(t, i < 4, accepted(2))
	}
	for range 3 { // each takes the place of another host's
		require.True(t, accepted(3))
	}
	require.False(t, accepted(3), "no host has more")
	conns := func(host string) (of []*countedConn) {
		s.server.connections.mu.Lock()
		defer s.server.connections.mu.Unlock()
		return slices.Clone(s.server.connections.accepted.Of(host))
	}
	var counts []int
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
		of := conns(host)
		counts = append(counts, len(of))
		for _, c := range of {
			c.calls.Add(1)
		}
	}
	require.Equal(t, 3, counts[2])
	require.ElementsMatch(t, []int{2, 3}, counts[:2], "of hosts with equally many, any one gives up a connection")
	busy := conns("127.0.0.3")
	require.False(t, accepted(4), "all have calls")
	busy[0].calls.Add(-1)
	require.True(t, accepted(4))
	require.Len(t, conns("127.0.0.3"), 2)
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
	require.Zero(t, s.server.connections.accepted.Len())
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
		s.server.connections.mu.Lock()
		defer s.server.connections.mu.Unlock()
		return s.server.connections.accepted.Len() == 0
	}, 10*time.Second, time.Millisecond)
	s.server.connections.mu.Lock()
	defer s.server.connections.mu.Unlock()
	require.Empty(t, s.server.connections.open)
}

// closing is a connection that records whether it was closed.
type closing struct {
	net.Conn
	closed chan struct{}
}

func (c *closing) Close() error {
	close(c.closed)
	return nil
}

// TestDeadlinesOfRefusedCallsAreLimited: gRPC keeps the deadline of a refused call until it has passed, or the connection has
// ended. So a connection is closed when too many of its calls with a deadline were refused.
//
// spec: wire-45
func TestDeadlinesOfRefusedCallsAreLimited(t *testing.T) {
	t.Parallel()
	a := newArrivals(1, noon)
	require.True(t, a.enter(&arrivingCall{at: noon()}))
	conn := &closing{closed: make(chan struct{})}
	client := &connection{conn: conn}
	of := t.Context()
	timed, cancel := context.WithTimeout(of, time.Hour)
	defer cancel()
	refuse := func(ctx context.Context, calls int) {
		for range calls {
			require.Equal(t, codes.Unavailable, status.Code(a.admit(ctx, &call{connection: client})))
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
