package flight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/policy"
)

// TestAddedEntriesNeedTheRightOfInlineDatasets checks that the rule which lets a client read a dataset also decides which tables
// it may add to it, and that a ticket with them is redeemed.
func TestAddedEntriesNeedTheRightOfInlineDatasets(t *testing.T) {
	t.Parallel()
	s, _ := people{emails: true, foreign: true}.server(t, Options{})
	added := withPeople(`"key": {"request_id": "req"}`, "")
	salaries := `{"dataset": "people", "with": [{"table": "hr.salaries"}]}`
	for _, c := range []struct {
		who   context.Context
		query string
		code  codes.Code
	}{
		{alice(t), added, codes.OK},
		{alice(t), salaries, codes.OK},
		{bob(t), added, codes.PermissionDenied},
		{bob(t), salaries, codes.PermissionDenied},
		{carol(t), `{"dataset": "secret", "with": [{"table": "features.profiles", "key": {"request_id": "req"}}]}`, codes.PermissionDenied},
		{carol(t), added, codes.NotFound},
	} {
		described, err := s.GetFlightInfo(c.who, flighttest.Command(c.query))
		require.Equal(t, c.code, status.Code(err), "%s: %v", c.query, err)
		if err != nil {
			continue
		}
		got, err := read(c.who, s.Client, described.GetEndpoint()[0].GetTicket())
		require.NoError(t, err, c.query)
		require.NotEmpty(t, got.rows)
		_, err = read(carol(t), s.Client, described.GetEndpoint()[0].GetTicket())
		require.Error(t, err)
	}
}

// Tickets, cursors and renewals give no rights: tickets are of their subject alone, and a query that brings a cursor is checked as
// any other.
//
// spec: access-12, access-14, access-15, ticket-12
func TestTicketsAndCursorsOfOthersGiveNoRights(t *testing.T) {
	t.Parallel()
	s, _ := people{emails: true, foreign: true, filtered: true}.server(t, Options{})
	answer, err := s.GetFlightInfo(alice(t), flighttest.Command(`{"dataset": "people", "batch_rows": 20}`))
	require.NoError(t, err)
	endpoint := answer.GetEndpoint()[0]
	all, err := read(alice(t), s.Client, endpoint.GetTicket())
	require.NoError(t, err)
	var trailer metadata.MD
	for who, c := range map[string]struct {
		ctx  context.Context
		code codes.Code
		says string
	}{
		"bob":   {bob(t), codes.PermissionDenied, "for another subject"},
		"carol": {carol(t), codes.PermissionDenied, "for another subject"},
	} {
		_, err = read(c.ctx, s.Client, endpoint.GetTicket(), grpc.Trailer(&trailer))
		require.Equal(t, c.code, status.Code(err), who)
		require.ErrorContains(t, err, c.says, who)
		body, err := proto.Marshal(&arrowflight.RenewFlightEndpointRequest{Endpoint: endpoint})
		require.NoError(t, err)
		_, err = s.act(c.ctx, arrowflight.RenewFlightEndpointActionType, body)
		require.Equal(t, c.code, status.Code(err), who)
		_, err = s.GetFlightInfo(c.ctx, flighttest.Command(fmt.Sprintf(`{"dataset": "people", "batch_rows": 20, "cursor": %s}`, all.cursors[1])))
		require.Error(t, err, who)
		require.NotContains(t, err.Error(), "country", who)
	}
	listed := received(t, must(s.ListFlights(carol(t), &arrowflight.Criteria{})), nil)
	require.Contains(t, listed, "secret")
	require.NotContains(t, listed, "people")
	actions := received(t, must(s.ListActions(carol(t), &arrowflight.Empty{})), nil)
	require.NotContains(t, actions, "explain")
	require.Contains(t, actions, "manifest")
	require.False(t, s.server.guard.MayCall(&call.Call{Caller: identity.Caller{Subject: "alice"}}, ""), "no caller may call an action without a right")
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// A changed policy ends no stream, and no run of clients whose rows are the same: columns that are withheld now belong neither to
// plans nor to cursors. Rows that are withheld now do.
//
// spec: access-15, access-19
func TestChangedPolicyEndsNoRunOfOthers(t *testing.T) {
	t.Parallel()
	of := people{emails: true, foreign: true}
	var now atomic.Pointer[policy.Policy]
	set := func(limits policy.TableLimits) {
		made := of.limited()
		made.Rules[0].Tables = []policy.TableLimits{limits}
		now.Store(made)
	}
	set(policy.TableLimits{Name: "ml.people"})
	s, _ := of.server(t, Options{Policy: now.Load})
	const query = `{"dataset": "people", "batch_rows": 20, "columns": ["item"]`
	ticket := func(query string) (*arrowflight.Ticket, error) {
		answer, err := s.GetFlightInfo(bob(t), flighttest.Command(query))
		if err != nil {
			return nil, err
		}
		return answer.GetEndpoint()[0].GetTicket(), nil
	}
	first, err := ticket(query + "}")
	require.NoError(t, err)
	whole, err := read(bob(t), s.Client, first)
	require.NoError(t, err)
	open, err := s.DoGet(bob(t), first)
	require.NoError(t, err)
	_, err = open.Recv()
	require.NoError(t, err)

	set(policy.TableLimits{Name: "ml.people", Withheld: []string{"email"}})
	again, err := read(bob(t), s.Client, first)
	require.NoError(t, err, "the ticket names no withheld column")
	require.Equal(t, whole.rows, again.rows)
	rest, err := ticket(fmt.Sprintf(`%s, "cursor": %s}`, query, whole.cursors[0]))
	require.NoError(t, err)
	later, err := read(bob(t), s.Client, rest)
	require.NoError(t, err)
	require.Equal(t, whole.rows[20:], later.rows)

	set(policy.TableLimits{Name: "ml.people", Filter: datasettest.Filter("country = 'DE'")})
	_, err = ticket(fmt.Sprintf(`%s, "cursor": %s}`, query, whole.cursors[0]))
	require.Error(t, err, "the cursor is of other rows")
	_, err = read(bob(t), s.Client, first)
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	body, err := proto.Marshal(&arrowflight.RenewFlightEndpointRequest{Endpoint: &arrowflight.FlightEndpoint{Ticket: first}})
	require.NoError(t, err)
	_, err = s.act(bob(t), arrowflight.RenewFlightEndpointActionType, body)
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	for err == nil || !errors.Is(err, io.EOF) {
		if _, err = open.Recv(); err != nil {
			require.ErrorIs(t, err, io.EOF, "the open stream continues")
		}
	}
}

// Streams of clients that may read different columns of the same plan do not share batches.
//
// spec: access-16
func TestStreamsOfDifferentRightsAreApart(t *testing.T) {
	t.Parallel()
	of := people{emails: true}
	s, _ := of.server(t, Options{})
	const query = `{"dataset": "people", "batch_rows": 10}`
	texts := make([]string, 2)
	var both sync.WaitGroup
	for i, ctx := range []context.Context{alice(t), bob(t)} {
		both.Go(func() {
			for range 5 {
				texts[i] += s.answer(ctx, t, query)
			}
		})
	}
	both.Wait()
	require.Contains(t, texts[0], "e12")
	require.NotContains(t, texts[1], "email")
	require.NotContains(t, texts[1], "e12")
	id := regexp.MustCompile(`"plan":"[0-9a-f]+"`)
	require.NotEmpty(t, id.FindString(texts[0]))
	require.Equal(t, id.FindString(texts[0]), id.FindString(texts[1]), "columns do not belong to a plan")
}
