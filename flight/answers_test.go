package flight

import (
	"context"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	flightgen "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/ticket/tickettest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
)

// manyShards is a query whose answer takes more than a client's gRPC reads ahead.
const manyShards = `{"dataset":"homefeed","lanes":768,"shard":{"of":768}}`

// ignore makes a call whose answer the client does not read.
func ignore(t testing.TB, s *served, method string, request any) grpc.ClientStream {
	t.Helper()
	call, err := openCall(t.Context(), s.connect(t), method)
	require.NoError(t, err)
	require.NoError(t, call.SendMsg(request))
	require.NoError(t, call.CloseSend())
	return call
}

// requireNoAnswers requires that nothing is charged for answers in the end.
func (s *served) requireNoAnswers(t testing.TB, of *budget.Budget) {
	t.Helper()
	require.Eventually(t, func() bool {
		streams, bytes := s.server.answers.inflight.Counts()
		return of.Used() == 0 && bytes == 0 && streams == 0 && s.server.answers.unreserved.Load() == 0
	}, 10*time.Second, time.Millisecond)
}

// answersInFlight returns the bytes of answers that clients have not read.
func (s *served) answersInFlight() int64 {
	_, bytes := s.server.answers.inflight.Counts()
	return bytes
}

// TestAnswersThatAreNotRead: answers that clients do not read are charged, and lose their connections when others need the
// memory, whatever the call. Other clients get theirs.
//
// spec: wire-46
func TestAnswersThatAreNotRead(t *testing.T) {
	t.Parallel()
	for method, request := range map[string]any{
		"GetFlightInfo": flighttest.Command(manyShards),
		"DoAction": &arrowflight.Action{Type: arrowflight.RenewFlightEndpointActionType, Body: func() []byte {
			s := serveWorld(t, Options{})
			ticket := &arrowflight.FlightEndpoint{Ticket: &arrowflight.Ticket{Ticket: s.ticket(t, `{"dataset":"homefeed"}`).GetTicket()}, AppMetadata: make([]byte, 400_000)}
			body, err := proto.Marshal(&arrowflight.RenewFlightEndpointRequest{Endpoint: ticket})
			require.NoError(t, err)
			return body
		}()},
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			b := budget.New(64 << 20)
			s := serveWorld(t, Options{Ticks: time.Now, Budget: b, MaxTransit: 1 << 20})
			s.server.answers.inflight.Limit = 1 << 20
			var calls []grpc.ClientStream
			for range 12 {
				calls = append(calls, ignore(t, s, method, request))
			}
			require.Eventually(t, func() bool { return s.answersInFlight() > 512<<10 }, time.Minute, time.Millisecond)
			require.Positive(t, b.Used())
			_, err := s.GetFlightInfo(t.Context(), flighttest.Command(manyShards))
			require.NoError(t, err)
			require.LessOrEqual(t, s.answersInFlight(), int64(1<<20))
			lost := 0
			for _, call := range calls {
				if err := call.RecvMsg(&flightgen.FlightInfo{}); err != nil {
					lost++
				}
			}
			require.Positive(t, lost)
			s.requireNoAnswers(t, b)
		})
	}
}

// TestAnswersAreChargedOnce: what was read is no longer charged, of short answers and of streams of them.
//
// spec: wire-46
func TestAnswersAreChargedOnce(t *testing.T) {
	t.Parallel()
	b := budget.New(64 << 20)
	s := serveWorld(t, Options{Budget: b, MaxTransit: 1 << 20})
	conn := s.connect(t)
	_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	list, err := s.ListFlights(t.Context(), &arrowflight.Criteria{})
	require.NoError(t, err)
	for range 2 {
		_, err := list.Recv()
		require.NoError(t, err)
	}
	s.readAll(t, `{"dataset":"homefeed"}`)
	s.requireNoAnswers(t, b)
}

// TestAnswersAreChargedUntilTheyAreWritten: gRPC may write an answer, however short, long after the call that sent it.
//
// spec: wire-46
func TestAnswersAreChargedUntilTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int{1, 100_000} {
		b := budget.New(1 << 20)
		answer, lease, err := newAnswers(b, 1<<20, time.Now).encode(&arrowflight.Result{Body: make([]byte, bytes)}, nil)
		require.NoError(t, err)
		parts := answer.Marshal()
		lease.Release()
		require.Greater(t, b.Used(), int64(bytes), "gRPC has not written the answer")
		parts.Free()
		require.Zero(t, b.Used())
	}
}

// TestAnswersBeyondTheBudget: while streams use the whole budget, clients can still plan: small answers need no room in it, and
// large ones are refused.
//
// spec: wire-46
func TestAnswersBeyondTheBudget(t *testing.T) {
	t.Parallel()
	b := budget.New(1 << 20)
	held, err := b.Reserve("a stream", 1<<20)
	require.NoError(t, err)
	s := serveWorld(t, Options{Budget: b, MaxTransit: 1 << 20})
	_, err = s.GetFlightInfo(t.Context(), flighttest.Command(manyShards))
	require.NoError(t, err)
	require.Zero(t, s.server.answers.unreserved.Load())
	s.server.answers.unreserved.Store(maxUnreserved)
	_, err = s.GetFlightInfo(t.Context(), flighttest.Command(manyShards))
	code, d := flighttest.FailureOf(t, err, nil)
	require.Equal(t, codes.ResourceExhausted, code)
	require.Contains(t, d.Message+err.Error(), "an answer")
	s.server.answers.unreserved.Store(0)
	held.Release()
	s.requireNoAnswers(t, b)
}

// TestStalledAnswersEnd: an answer that is not read ends its connection after the stall timeout, and sooner if memory is short.
//
// spec: wire-46
func TestStalledAnswersEnd(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{Ticks: time.Now, StallTimeout: time.Second})
	call := ignore(t, s, "GetFlightInfo", flighttest.Command(manyShards))
	require.Eventually(t, func() bool { return s.answersInFlight() > 0 }, 10*time.Second, time.Millisecond)
	s.requireNoAnswers(t, nil)
	require.Error(t, call.RecvMsg(&flightgen.FlightInfo{}))
}

// TestRenewalsEchoLittle: a renewal does not repeat more than an endpoint of a server can have.
//
// spec: wire-46
func TestRenewalsEchoLittle(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{})
	body, err := proto.Marshal(&arrowflight.RenewFlightEndpointRequest{Endpoint: &arrowflight.FlightEndpoint{
		Ticket: s.ticket(t, `{"dataset":"homefeed"}`), AppMetadata: make([]byte, maxEcho+1),
	}})
	require.NoError(t, err)
	results, err := s.DoAction(t.Context(), &arrowflight.Action{Type: arrowflight.RenewFlightEndpointActionType, Body: body})
	require.NoError(t, err)
	_, err = results.Recv()
	code, d := flighttest.FailureOf(t, err, results.Trailer())
	require.Equal(t, codes.InvalidArgument, code)
	require.Equal(t, "endpoint.app_metadata", d.Faults[0].Field)
}

// TestContentsOfTickets: a text that takes little room in a ticket, and much while tickets are made, is refused.
//
// spec: wire-46
func TestContentsOfTickets(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{})
	limited, made := tickettest.Keys(t).Sealer(maxTickets, 64<<10), 0
	var err error
	for err == nil && made < 1000 {
		_, err = limited(tickettest.Golden(), noon())
		made++
	}
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "the contents of the tickets of all endpoints take more than 65536 bytes")
	require.Equal(t, 64<<10/len(jsontext.Of(tickettest.Golden()))+1, made)
	ctx, cancel := context.WithCancel(t.Context())
	seal, release := s.server.tickets.sealer(ctx, &call.Call{})
	defer release()
	_, err = seal(tickettest.Golden(), noon())
	require.NoError(t, err)
	cancel()
	_, err = seal(tickettest.Golden(), noon())
	require.ErrorIs(t, err, context.Canceled, "the client has gone")
}
