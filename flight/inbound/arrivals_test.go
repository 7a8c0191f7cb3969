package inbound

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	flightgen "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/flight/rawclient"
)

// arrivingCalls returns how many calls have not arrived.
func (s *served) arrivingCalls() int {
	s.arrivals.mu.Lock()
	defer s.arrivals.mu.Unlock()
	return s.arrivals.calls.Len()
}

// requireNoneArriving requires that in the end no call counts any more.
func (s *served) requireNoneArriving(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { return s.arrivingCalls() == 0 }, 10*time.Second, time.Millisecond)
	a := s.arrivals
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
	s := serve(t, Options{Ticks: func() time.Time { return noon().Add(time.Duration(later.Load())) }}, func() {})
	s.arrivals.calls = limits.NewRoom[*Arrival](4, 100)
	s.arrivals.timeout = time.Hour // so that none ends by itself
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conns := map[string]*grpc.ClientConn{"127.0.0.1": s.connectFrom(t, "127.0.0.1"), "127.0.0.2": s.connectFrom(t, "127.0.0.2")}
	var open []grpc.ClientStream
	for i, of := range []struct{ host, method string }{
		{"127.0.0.2", "DoGet"}, {"127.0.0.1", "GetFlightInfo"}, {"127.0.0.1", "DoGet"}, {"127.0.0.1", "GetSchema"},
	} {
		one, err := openCall(ctx, conns[of.host], of.method)
		require.NoError(t, err)
		open = append(open, one)
		require.Eventually(t, func() bool { return s.arrivingCalls() == i+1 }, 10*time.Second, time.Millisecond)
	}
	_, err := s.GetFlightInfo(t.Context(), request())
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "too many calls wait for their requests; try again")
	require.NoError(t, conns["127.0.0.2"].Invoke(t.Context(), method("GetFlightInfo"), request(), &flightgen.FlightInfo{}))
	err = open[1].RecvMsg(&flightgen.FlightInfo{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "too many calls wait for their requests")
	open[1], err = openCall(ctx, conns["127.0.0.1"], "GetSchema")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.arrivingCalls() == 4 }, 10*time.Second, time.Millisecond)
	later.Store(int64(arrivalGrace))
	_, err = s.GetFlightInfo(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, codes.Unavailable, status.Code(open[2].RecvMsg(&flightgen.FlightData{})))
	require.Eventually(t, func() bool { return s.arrivingCalls() == 3 }, 10*time.Second, time.Millisecond)

	require.NoError(t, open[1].SendMsg(request()))
	require.NoError(t, open[1].CloseSend())
	require.NoError(t, open[1].RecvMsg(&flightgen.SchemaResult{}))
	require.Eventually(t, func() bool { return s.arrivingCalls() == 2 }, 10*time.Second, time.Millisecond)
	cancel()
	s.requireNoneArriving(t)
	require.Error(t, conns["127.0.0.1"].Invoke(t.Context(), "/of.another/Service", request(), &flightgen.FlightInfo{}))
	s.requireNoneArriving(t)
}

// TestHalfSentRequests: what has come of requests that have not arrived is limited. The connection that has sent most loses
// its calls.
//
// spec: wire-45
func TestHalfSentRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, func() {})
	s.arrivals.bytes = 256 << 10
	s.arrivals.timeout = time.Hour
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
		s.arrivals.mu.Lock()
		defer s.arrivals.mu.Unlock()
		return s.arrivals.received
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
	_, err := s.GetFlightInfo(t.Context(), request())
	require.NoError(t, err)
}

// TestRunningCallsHaveArrived: a call whose request has arrived does not count, however long it runs.
//
// spec: wire-45
func TestRunningCallsHaveArrived(t *testing.T) {
	t.Parallel()
	running, run := make(chan struct{}), make(chan struct{})
	s := serve(t, Options{}, func() {
		running <- struct{}{}
		<-run
	})
	done := make(chan error, 1)
	go func() {
		_, err := s.GetFlightInfo(t.Context(), request())
		done <- err
	}()
	select {
	case <-running:
	case err := <-done:
		require.NoError(t, err)
	}
	require.Zero(t, s.arrivingCalls())
	require.Equal(t, proto.Size(request()), <-s.sizes)
	s.connections.mu.Lock()
	conn := s.connections.accepted.Of("127.0.0.1")[0]
	s.connections.mu.Unlock()
	require.EqualValues(t, 1, conn.calls.Load(), "a connection with a running call keeps its place")
	close(run)
	require.NoError(t, <-done)
	require.Eventually(t, func() bool { return conn.calls.Load() == 0 }, 10*time.Second, time.Millisecond)
}

// TestRequestsArriveInTime: a call ends if its request does not arrive in time.
//
// spec: wire-45
func TestRequestsArriveInTime(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, func() {})
	s.arrivals.timeout = 20 * time.Millisecond
	for _, method := range []string{"GetFlightInfo", "DoGet", "DoAction"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		call, err := openCall(ctx, s.connectFrom(t, "127.0.0.1"), method)
		require.NoError(t, err)
		err = call.RecvMsg(&flightgen.FlightInfo{})
		require.Equal(t, codes.InvalidArgument, status.Code(err), method)
		require.ErrorContains(t, err, "the request did not arrive within 20ms")
	}
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
	require.True(t, a.enter(&Arrival{at: noon()}))
	conn := &closing{closed: make(chan struct{})}
	client := &Connection{conn: conn}
	of := t.Context()
	timed, cancel := context.WithTimeout(of, time.Hour)
	defer cancel()
	refuse := func(ctx context.Context, calls int) {
		for range calls {
			_, err := a.admit(context.WithValue(ctx, connectionKey{}, client), "")
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
