package flight

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/inbound"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/stream"
)

// endless returns a stream without an end. It holds a reservation until it is released, as
// build sides do. If turn is not nil, each batch waits for a receive from it.
func endless(ctx context.Context, b *budget.Budget, rows int, turn <-chan struct{}) *canned {
	held, err := b.Reserve("staging rows", 1<<19)
	batch := numbers(rows)
	return &canned{
		released: held.Release,
		next: func(int) (arrow.RecordBatch, error) {
			if err != nil {
				return nil, err
			}
			if turn != nil {
				select {
				case <-turn:
				case <-ctx.Done():
				}
			}
			return batch, ctx.Err()
		},
	}
}

// When a client cancels or its connection is cut, while the server sends or waits for a batch,
// the stream ends and releases its memory.
func TestStreamEndsWhenItsClientGoesAway(t *testing.T) {
	waiting := make(chan struct{})
	for name, c := range map[string]struct {
		rows int
		turn chan struct{}
	}{
		"while it is sent to": {1 << 16, nil},
		"while it waits":      {10, waiting},
	} {
		for how, leave := range map[string]func(cancel func(), cut func()){
			"cancelled": func(cancel, _ func()) { cancel() },
			"cut off":   func(_, cut func()) { cut() },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				w := newWorld(t)
				s := serve(t, Options{Loader: opens(w.loader(), func(ctx context.Context) *canned {
					return endless(ctx, w.budget, c.rows, c.turn)
				})})
				wire := make(chan net.Conn, 1)
				connection, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
						conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
						if err == nil {
							wire <- conn
						}
						return conn, err
					}))
				require.NoError(t, err)
				defer func() { _ = connection.Close() }()
				client := arrowflight.NewClientFromConn(connection, nil)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				stream, err := client.DoGet(ctx, s.ticket(t, `{"dataset": "homefeed"}`))
				require.NoError(t, err)
				_, err = stream.Recv()
				require.NoError(t, err)
				if c.turn != nil {
					c.turn <- struct{}{}
				}
				_, err = stream.Recv()
				require.NoError(t, err)
				require.EqualValues(t, 1<<19, w.budget.Used())
				require.Equal(t, 1, s.server.Streams())
				leave(cancel, func() { require.NoError(t, (<-wire).Close()) })
				require.Equal(t, "cancelled", (<-s.ended).End)
				require.Zero(t, w.budget.Used())
			})
		}
	}
}

// A stream of the real loader is cancelled after one batch.
func TestCancelledStreamReleasesItsMemory(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := s.DoGet(ctx, s.ticket(t, `{"dataset": "homefeed", "batch_rows": 1}`))
	require.NoError(t, err)
	for range 2 {
		_, err = stream.Recv()
		require.NoError(t, err)
	}
	cancel()
	<-s.ended
	require.Zero(t, w.budget.Used())
}

func TestStreamsBeyondTheLimitFail(t *testing.T) {
	w := newWorld(t)
	turn := make(chan struct{})
	s := serve(t, Options{MaxStreams: 1, Loader: opens(w.loader(), func(ctx context.Context) *canned {
		return endless(ctx, w.budget, 1, turn)
	})})
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := s.DoGet(ctx, ticket)
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	s.fillQueue(ctx, t, ticket)
	_, code, d := s.getFailure(t, ticket)
	require.Equal(t, codes.ResourceExhausted, code)
	require.Equal(t, "exhausted", d.Kind)
	require.EqualValues(t, 30_000, d.RetryAfterMS)
	cancel()
	<-s.ended
}

func TestTooLargeMessageFails(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{MaxMessage: 4096, Loader: opens(w.loader(), func(ctx context.Context) *canned {
		return endless(ctx, w.budget, 10000, nil)
	})})
	_, code, d := s.getFailure(t, s.ticket(t, `{"dataset": "homefeed"}`))
	require.Equal(t, codes.ResourceExhausted, code)
	require.Contains(t, d.Remedy, "batch_rows")
}

// Shutdown accepts no new calls, and the running stream ends with its report.
func TestShutdownLetsStreamsFinish(t *testing.T) {
	w := newWorld(t)
	turn := make(chan struct{})
	s := serve(t, Options{Loader: opens(w.loader(), func(ctx context.Context) *canned {
		c := endless(ctx, w.budget, 5, turn)
		next := c.next
		c.next = func(n int) (arrow.RecordBatch, error) {
			if n == 3 {
				return nil, nil //nolint:nilnil // the end
			}
			return next(n)
		}
		return c
	})})
	stream, err := s.DoGet(context.Background(), s.ticket(t, `{"dataset": "homefeed"}`))
	require.NoError(t, err)
	g := got{}
	_, err = peeled{stream, &g}.Recv()
	require.NoError(t, err)
	var shut sync.WaitGroup
	shut.Go(func() { require.NoError(t, s.server.Shutdown(context.Background())) })
	<-s.server.draining
	for range 3 {
		turn <- struct{}{}
	}
	for err == nil {
		_, err = peeled{stream, &g}.Recv()
	}
	require.ErrorIs(t, err, io.EOF)
	require.EqualValues(t, 15, g.report.Rows)
	shut.Wait()
	_, err = s.GetFlightInfo(context.Background(), flighttest.Command(`{"dataset": "homefeed"}`))
	require.Equal(t, codes.Unavailable, status.Code(err))
}

// After its limit, Shutdown ends streams as unavailable, whether their clients read or not.
func TestShutdownEndsStreams(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: opens(w.loader(), func(ctx context.Context) *canned {
		return endless(ctx, budget.New(1<<30), 1<<16, nil)
	})})
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	var trailer metadata.MD
	reading, err := s.DoGet(context.Background(), ticket, grpc.Trailer(&trailer))
	require.NoError(t, err)
	idle, err := dial(t, s.address).DoGet(context.Background(), ticket)
	require.NoError(t, err)
	for _, stream := range []arrowflight.FlightService_DoGetClient{reading, idle} {
		_, err = stream.Recv()
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var shut sync.WaitGroup
	shut.Go(func() {
		err := s.server.Shutdown(ctx)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.ErrorContains(t, err, "2 streams ended")
	})
	for err == nil {
		_, err = reading.Recv()
	}
	code, d := flighttest.FailureOf(t, err, trailer)
	require.Equal(t, codes.Unavailable, code)
	require.Equal(t, "the server is shutting down", d.Message)
	require.Contains(t, d.Remedy, "cursor")
	shut.Wait()
	require.Zero(t, s.server.Streams())
	err = nil
	for err == nil {
		_, err = idle.Recv()
	}
	require.Equal(t, codes.Unavailable, status.Code(err))
	for range 2 {
		require.Equal(t, "unavailable", (<-s.ended).End)
	}
}

// stubborn is a loader whose plans wait for the gate and ignore their context.
type stubborn struct {
	Loader
	asked chan struct{}
	gate  chan struct{}
}

func (l stubborn) PlanFor(ctx context.Context, request loader.PlanRequest) (loader.Planned, error) {
	close(l.asked)
	<-l.gate
	return l.Loader.PlanFor(ctx, request)
}

// Shutdown and Serve return although a call does not end, and Shutdown reports it.
func TestShutdownLeavesCallsBehind(t *testing.T) {
	w := newWorld(t)
	l := stubborn{w.loader(), make(chan struct{}), make(chan struct{})}
	s := New(Options{Loader: l, Keys: keysOf(t), Clock: noon})
	s.callGrace = time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	failed := make(chan error, 1)
	client := dial(t, listener.Addr().String())
	go func() {
		_, err := client.GetFlightInfo(context.Background(), flighttest.Command(`{"dataset": "homefeed"}`))
		failed <- err
	}()
	<-l.asked
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = s.Shutdown(ctx)
	require.ErrorIs(t, err, ErrCallsAbandoned)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.NoError(t, <-served)
	require.Equal(t, codes.Unavailable, status.Code(<-failed))
	close(l.gate)
}

// TestHealth checks the health service on the server's own port. A watch is notified of the
// shutdown and does not delay it.
func TestHealth(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	connection, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = connection.Close() }()
	client := grpc_health_v1.NewHealthClient(connection)
	answer, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, answer.GetStatus())
	_, err = client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{Service: "nobody"})
	require.Equal(t, codes.NotFound, status.Code(err))
	watch, err := client.Watch(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	answer, err = watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, answer.GetStatus())
	require.NoError(t, s.server.Shutdown(context.Background()))
	for answer, err = watch.Recv(); err == nil; answer, err = watch.Recv() {
		require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, answer.GetStatus())
	}
	require.Equal(t, codes.Canceled, status.Code(err), "Shutdown ends the stream")
}

// Health checks report that a server serves once it is ready, and never after it was told to stop. Calls do not wait.
//
// spec: status-14
func TestHealthIsReadiness(t *testing.T) {
	for _, stops := range []bool{false, true} {
		ready := make(chan struct{})
		s := serve(t, Options{Loader: newWorld(t).loader(), Ready: ready})
		watch, err := grpc_health_v1.NewHealthClient(s.connect(t)).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
		next := func() (grpc_health_v1.HealthCheckResponse_ServingStatus, codes.Code) {
			answer, err := watch.Recv()
			return answer.GetStatus(), status.Code(err)
		}
		got, _ := next()
		require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, got)
		s.ticket(t, `{"dataset": "homefeed"}`)
		if stops {
			require.NoError(t, s.server.Shutdown(context.Background()))
			close(ready)
			_, code := next()
			require.Equal(t, codes.Canceled, code)
			continue
		}
		close(ready)
		got, _ = next()
		require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, got)
	}
}

// A connection has at most four calls that watch the health of the server: such a call never ends by itself.
//
// spec: wire-64
func TestWatchesOfAConnectionAreLimited(t *testing.T) {
	s := serveWorld(t, Options{})
	client := grpc_health_v1.NewHealthClient(s.connect(t))
	begin := func(ctx context.Context, client grpc_health_v1.HealthClient) codes.Code {
		watch, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		return status.Code(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for range 4 {
		require.Equal(t, codes.OK, begin(ctx, client))
	}
	refused, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = refused.Recv()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Len(t, refused.Trailer().Get(failure.TrailerKey), 1)
	require.NotEmpty(t, failure.Parse([]byte(refused.Trailer().Get(failure.TrailerKey)[0])).Remedy)
	require.Equal(t, codes.OK, begin(t.Context(), grpc_health_v1.NewHealthClient(s.connect(t))), "of another connection")
	_, err = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	cancel()
	require.Eventually(t, func() bool { return begin(t.Context(), client) == codes.OK }, time.Minute, time.Millisecond)
}

// TestServeReturnsItsError checks that Serve returns the error of a listener that breaks.
func TestServeReturnsItsError(t *testing.T) {
	w := newWorld(t)
	s := New(Options{Loader: w.loader(), Keys: keysOf(t), Clock: noon})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	err = s.Serve(listener)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, listener.Addr().String())
	require.NoError(t, s.Shutdown(context.Background()))
}

// The observer sees calls, streams and batches.
//
// spec: join-68
func TestObserver(t *testing.T) {
	w := newWorld(t)
	type call struct{ method, end string }
	calls, batches, ends := make(chan call, 8), make(chan int64, 64), make(chan StreamEnd, 1)
	var began string
	var bytes int64
	clock := noon()
	s := serve(t, Options{
		Loader: w.loader(),
		Ticks:  noon,
		Clock: func() time.Time { // called by one call at a time here
			clock = clock.Add(time.Second)
			return clock
		},
		Observer: Observer{
			CallEnded:   func(method, end string, _ time.Duration) { calls <- call{method, end} },
			StreamBegan: func(dataset, _ string) { began = dataset },
			BatchSent:   func(_, _ string, rows, n, _ int64) { bytes += n; batches <- rows },
			StreamEnded: func(e StreamEnd) { ends <- e },
		},
	})
	g, err := read(context.Background(), s.Client, s.ticket(t, `{"dataset": "homefeed", "batch_rows": 1000}`))
	require.NoError(t, err)
	end := <-ends
	require.Equal(t, "homefeed", began)
	require.Equal(t, []int64{1000, 9}, []int64{<-batches, <-batches})
	require.Equal(t, call{"GetFlightInfo", "ok"}, <-calls)
	require.Equal(t, call{"DoGet", "ok"}, <-calls)
	require.Greater(t, end.Bytes, bytes) // schema and report count too
	end.Bytes = 0
	require.Positive(t, end.Took)
	end.Took = 0
	history := g.report.Staging["history"]
	missing := int64(trainingRows/101*11 + 10) // r90 to r100 of each 101, of which the rows end before the last r100
	require.Equal(t, joiner.Counts{Rows: trainingRows, Matched: trainingRows - missing, Missing: missing}, history.Counts)
	require.Positive(t, history.BytesRead)
	require.Equal(t, StreamEnd{
		Dataset: "homefeed", End: "ok", Rows: trainingRows, Batches: 2, Staging: map[string]stream.StagingReport{"history": history},
	}, end)
	s.flightInfoFailure(t, flighttest.Command(`{"dataset": "gone"}`))
	require.Equal(t, call{"GetFlightInfo", "not found"}, <-calls)
}

// The observer gets the counts of a stream that failed before its report.
//
// spec: join-68
func TestObserverOfFailedStreams(t *testing.T) {
	w := newWorld(t)
	w.datasets[0].Staging[0].Missing = rule.MissingError
	s := serve(t, Options{Loader: w.loader()})
	g, _, _ := s.getFailure(t, s.ticket(t, `{"dataset": "homefeed", "batch_rows": 8}`))
	require.Nil(t, g.report)
	end := <-s.ended
	require.Equal(t, "invalid", end.End)
	require.Positive(t, end.Staging["history"].Rows)
	require.Positive(t, end.Staging["history"].BytesRead)
	require.Equal(t, "index", end.Staging["history"].Strategy)
}

// TestRequestsAndHeadersAreLimited: a large request and large headers are refused, whatever the headers repeat.
//
// spec: wire-45
func TestRequestsAndHeadersAreLimited(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{})
	_, err := s.GetFlightInfo(t.Context(), flighttest.Command(`{"dataset":"`+strings.Repeat("x", inbound.MaxRequest)+`"}`))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	large := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", 16<<10))
	_, err = s.GetFlightInfo(large, flighttest.Command(`{"dataset":"homefeed"}`))
	require.Error(t, err)
	many := metadata.MD{}
	for range 200 {
		many.Append("y", strings.Repeat("y", 100))
	}
	_, err = s.GetFlightInfo(metadata.NewOutgoingContext(t.Context(), many), flighttest.Command(`{"dataset":"homefeed"}`))
	require.Error(t, err)
	_, err = s.GetFlightInfo(t.Context(), flighttest.Command(`{"dataset":"homefeed"}`))
	require.NoError(t, err)
}
