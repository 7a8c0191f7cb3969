package flight

import (
	"context"
	"fmt"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/flight/admission"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/flight/ticket/tickettest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/internal/jsontext"
)

// endpointFor returns the one endpoint of a query, planned by a call with a context.
func (s *served) endpointFor(ctx context.Context, t *testing.T, query string) *arrowflight.FlightEndpoint {
	t.Helper()
	answer, err := s.GetFlightInfo(ctx, flighttest.Command(query))
	require.NoError(t, err)
	require.Len(t, answer.GetEndpoint(), 1)
	return answer.GetEndpoint()[0]
}

// renewFor renews an endpoint by a call with a context.
func (s *served) renewFor(ctx context.Context, t *testing.T, e *arrowflight.FlightEndpoint) (*arrowflight.FlightEndpoint, error) {
	t.Helper()
	body, err := proto.Marshal(&arrowflight.RenewFlightEndpointRequest{Endpoint: e})
	require.NoError(t, err)
	answers, err := s.DoAction(ctx, &arrowflight.Action{Type: arrowflight.RenewFlightEndpointActionType, Body: body})
	require.NoError(t, err)
	answer, err := answers.Recv()
	if err != nil {
		return nil, err
	}
	var renewed arrowflight.FlightEndpoint
	require.NoError(t, proto.Unmarshal(answer.GetBody(), &renewed))
	return &renewed, nil
}

// refusedTo checks how the redemption and the renewal of a ticket fail.
func (s *served) refusedTo(ctx context.Context, t *testing.T, e *arrowflight.FlightEndpoint, code codes.Code) failure.Details {
	t.Helper()
	stream, err := s.DoGet(ctx, e.GetTicket())
	require.NoError(t, err)
	_, err = stream.Recv()
	got, d := flighttest.FailureOf(t, err, stream.Trailer())
	require.Equal(t, code, got)
	require.NotEmpty(t, d.Remedy)
	_, err = s.renewFor(ctx, t, e)
	got, _ = flighttest.FailureOf(t, err, nil)
	require.Equal(t, code, got)
	return d
}

// TestTicketsBelongToTheirSubject: a ticket of a shard or of splits, also one that was renewed, is redeemed and renewed by the
// subject that asked for it, and by no other.
//
// spec: ticket-12
func TestTicketsBelongToTheirSubject(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{Authenticate: known})
	alice, bob := as(t.Context(), "Bearer a"), as(t.Context(), "Bearer b")
	for _, query := range []string{`{"dataset": "homefeed"}`, `{"dataset": "homefeed", "shard": {"index": 1, "of": 2}}`} {
		e := s.endpointFor(alice, t, query)
		renewed, err := s.renewFor(alice, t, e)
		require.NoError(t, err)
		for _, one := range []*arrowflight.FlightEndpoint{e, renewed} {
			d := s.refusedTo(bob, t, one, codes.PermissionDenied)
			require.Equal(t, "forbidden", d.Kind)
			require.Contains(t, d.Message, "another subject")
			require.NotContains(t, fmt.Sprint(d), "alice")
			require.NotContains(t, fmt.Sprint(d), "bob")
			_, err := read(alice, s.Client, one.GetTicket())
			require.NoError(t, err)
		}
	}
	answer, err := s.GetFlightInfo(alice, flighttest.Command(`{"dataset": "homefeed", "endpoints": "splits"}`))
	require.NoError(t, err)
	for _, e := range answer.GetEndpoint() {
		s.refusedTo(bob, t, e, codes.PermissionDenied)
	}
}

// TestTicketsOfOneSubjectAreEqual: its subject is part of a ticket's bytes, and nothing else of a call is.
//
// spec: ticket-1, ticket-12
func TestTicketsOfOneSubjectAreEqual(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{Authenticate: known})
	open := serveWorld(t, Options{})
	const query = `{"dataset": "homefeed"}`
	alice := s.endpointFor(as(t.Context(), "Bearer a"), t, query).GetTicket().GetTicket()
	require.Equal(t, alice, s.endpointFor(as(t.Context(), "bearer a"), t, query).GetTicket().GetTicket())
	require.NotEqual(t, alice, s.endpointFor(as(t.Context(), "Bearer b"), t, query).GetTicket().GetTicket())
	require.NotEqual(t, alice, open.endpointFor(t.Context(), t, query).GetTicket().GetTicket())
	c, err := tickettest.Keys(t).Open(open.endpointFor(t.Context(), t, query).GetTicket().GetTicket(), noon())
	require.NoError(t, err)
	require.NotContains(t, string(jsontext.Of(c)), "subject", "a server without credentials writes what it always wrote")
}

// TestTicketsAfterCredentialsChange: tickets that name no subject expire once calls have one, and the other way around; where
// calls never have one, they are redeemed.
//
// spec: ticket-13
func TestTicketsAfterCredentialsChange(t *testing.T) {
	t.Parallel()
	s, open := serveWorld(t, Options{Authenticate: known}), serveWorld(t, Options{})
	alice := as(t.Context(), "Bearer a")
	const query = `{"dataset": "homefeed"}`
	unbound, bound := open.endpointFor(t.Context(), t, query), s.endpointFor(alice, t, query)
	for _, d := range []failure.Details{
		s.refusedTo(alice, t, unbound, codes.FailedPrecondition), open.refusedTo(t.Context(), t, bound, codes.FailedPrecondition),
	} {
		require.Equal(t, "expired", d.Kind)
		require.Equal(t, ticket.PlanAgain, d.Remedy)
		require.NotContains(t, fmt.Sprint(d), "alice")
	}
	renewed, err := open.renewFor(t.Context(), t, unbound)
	require.NoError(t, err)
	_, err = read(t.Context(), open.Client, renewed.GetTicket())
	require.NoError(t, err)
}

// TestRenewalEndsForSubjects: a subject renews its ticket for as long as a client without one, and the renewals stay its own.
//
// spec: ticket-11, ticket-12
func TestRenewalEndsForSubjects(t *testing.T) {
	t.Parallel()
	now := noon()
	s := New(Options{Keys: keysOf(t), Clock: func() time.Time { return now }, Lifetime: time.Hour, Renewal: 90 * time.Minute})
	alice, bob := &call.Call{Caller: identity.Caller{Subject: "alice"}}, &call.Call{Caller: identity.Caller{Subject: "bob"}}
	seal, release := s.tickets.sealer(t.Context(), alice)
	defer release()
	ticket, err := seal(tickettest.Golden(), noon().Add(time.Hour))
	require.NoError(t, err)
	for _, minutes := range []int{50, 100} {
		now = noon().Add(time.Duration(minutes) * time.Minute)
		ticket, _, err = renewedFor(alice, s, ticket)
		require.NoError(t, err)
		_, _, err = renewedFor(bob, s, ticket)
		require.Equal(t, fault.Forbidden, fault.KindOf(err))
	}
	now = noon().Add(149 * time.Minute)
	_, _, err = renewedFor(alice, s, ticket)
	require.Equal(t, fault.Expired, fault.KindOf(err))
	require.ErrorContains(t, err, "cannot be renewed any more")
	now = noon().Add(150 * time.Minute)
	_, err = s.tickets.open(alice, ticket)
	require.Equal(t, fault.Expired, fault.KindOf(err))
}

// TestColleaguesResumeCursors: a cursor gives no right, so that any client that may read its rows resumes it.
//
// spec: ticket-15
func TestColleaguesResumeCursors(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{Authenticate: known})
	alice, bob := as(t.Context(), "Bearer a"), as(t.Context(), "Bearer b")
	const query = `{"dataset": "homefeed", "batch_rows": 100%s}`
	whole, err := read(alice, s.Client, s.endpointFor(alice, t, fmt.Sprintf(query, "")).GetTicket())
	require.NoError(t, err)
	cursor := whole.cursors[3]
	e := s.endpointFor(bob, t, fmt.Sprintf(query, `, "cursor": `+string(cursor)))
	rest, err := read(bob, s.Client, e.GetTicket())
	require.NoError(t, err)
	require.Equal(t, whole.rows[400:], rest.rows)
	s.refusedTo(alice, t, e, codes.PermissionDenied)
}

// TestKeysRotateWhileServing: a server signs by the keys that are current, and redeems and renews what older ones of them signed.
//
// spec: ticket-6, ticket-14
func TestKeysRotateWhileServing(t *testing.T) {
	t.Parallel()
	parse := func(text string) *ticket.Keys {
		keys, err := ticket.ParseKeys([]byte(text))
		require.NoError(t, err)
		return keys
	}
	const a, b = "a MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n", "b YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY=\n"
	keys := make(chan *ticket.Keys, 1)
	current := func() *ticket.Keys {
		k := <-keys
		keys <- k
		return k
	}
	use := func(k *ticket.Keys) {
		<-keys
		keys <- k
	}
	keys <- parse(a)
	s := serveWorld(t, Options{Keys: current})
	old := s.endpointFor(t.Context(), t, `{"dataset": "homefeed"}`)
	use(parse(b + a))
	_, err := read(t.Context(), s.Client, old.GetTicket())
	require.NoError(t, err)
	renewed, err := s.renewFor(t.Context(), t, old)
	require.NoError(t, err)
	made := s.endpointFor(t.Context(), t, `{"dataset": "homefeed"}`)
	use(parse(b))
	for _, e := range []*arrowflight.FlightEndpoint{renewed, made} {
		_, err = read(t.Context(), s.Client, e.GetTicket())
		require.NoError(t, err)
	}
	d := s.refusedTo(t.Context(), t, old, codes.FailedPrecondition)
	require.Contains(t, d.Message, "does not have the key")
}

// TestRefusedTicketTakesNoSlot: a ticket of another subject is refused before its stream waits for a slot.
//
// spec: ticket-12
func TestRefusedTicketTakesNoSlot(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{Authenticate: known, MaxStreams: 1})
	e := s.endpointFor(as(t.Context(), "Bearer a"), t, `{"dataset": "homefeed"}`)
	taken := s.server.admission.Of(admission.Stream{Client: "subject carol"})
	require.NoError(t, taken.Enter(t.Context()))
	defer taken.Release()
	s.refusedTo(as(t.Context(), "Bearer b"), t, e, codes.PermissionDenied)
}
