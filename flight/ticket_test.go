package flight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/flight/ticket/tickettest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan"
)

// TestTicketsOnlyHaveTheirOwnLanes checks that a ticket only has the positions of its own
// lanes, however many lanes there are.
//
// spec: ticket-8
func TestTicketsOnlyHaveTheirOwnLanes(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	var cursors []json.RawMessage
	for _, g := range s.readAll(t, `{"dataset": "homefeed", "lanes": 32, "shard": {"of": 32}, "batch_rows": 2}`) {
		cursors = append(cursors, g.cursors[0])
	}
	list, err := json.Marshal(cursors)
	require.NoError(t, err)
	answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(fmt.Sprintf(`{"dataset": "homefeed", "shard": {"of": 16}, "cursor": %s}`, list)))
	require.NoError(t, err)
	require.Len(t, answer.GetEndpoint(), 16)
	for _, e := range answer.GetEndpoint() {
		require.Less(t, len(e.GetTicket().GetTicket()), 700)
	}
}

// TestTicketsOfChangedDatasets checks that a ticket is refused if its dataset was changed,
// or if planning again results in a different plan.
//
// spec: ticket-9, ticket-10
func TestTicketsOfChangedDatasets(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	made := s.ticket(t, `{"dataset": "homefeed"}`)
	w.datasets = slices.Clone(w.datasets)
	w.datasets[0].Staging = slices.Clone(w.datasets[0].Staging)
	w.datasets[0].Staging[0].Join = rule.Inner
	changed := serve(t, Options{Loader: w.loader()})
	_, code, d := changed.getFailure(t, made)
	require.Equal(t, codes.FailedPrecondition, code)
	require.Equal(t, "expired", d.Kind)
	require.Contains(t, d.Message, `the configuration of dataset "homefeed" has changed`)
	require.Contains(t, d.Remedy, "GetFlightInfo")

	c, err := tickettest.Keys(t).Open(made.GetTicket(), noon())
	require.NoError(t, err)
	redeemed := func(c ticket.Content) (codes.Code, failure.Details) {
		sealed, err := tickettest.Keys(t).Seal(c, noon().Add(time.Hour))
		require.NoError(t, err)
		_, code, d := s.getFailure(t, &arrowflight.Ticket{Ticket: sealed})
		return code, d
	}
	other := c
	other.Plan = "ffff"
	code, d = redeemed(other)
	require.Equal(t, codes.Internal, code)
	require.Contains(t, d.Message, "it was ffff")
	other = c
	other.Files = "eeee"
	code, d = redeemed(other)
	require.Equal(t, codes.Internal, code, "the same rows of other staging files")
	require.Contains(t, d.Message, "with files eeee")
}

// TestTicketsThatWaitWhileTheirDatasetChanges checks that a ticket is expired if its dataset changes between the first look at
// it and its plan, and that a ticket with added entries is redeemed while its dataset is the same.
//
// spec: ticket-16
func TestTicketsThatWaitWhileTheirDatasetChanges(t *testing.T) {
	w := newWorld(t)
	l := w.loader()
	var change func(d *dataset.Dataset)
	s := serve(t, Options{Loader: altered{Loader: l, plan: func(q dataset.Query) (loader.Planned, error) {
		if change != nil {
			datasets := slices.Clone(w.datasets)
			datasets[0].Staging = slices.Clone(datasets[0].Staging)
			change(&datasets[0])
			l.SetDatasets(datasets)
		}
		return l.Plan(t.Context(), q)
	}}})
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	more := s.ticket(t, fmt.Sprintf(`{"dataset": "homefeed", "with": [{"table": %q, "key": {"request_id": "req"}, "name": "again", "prefix": "again_"}]}`, w.datasets[0].Staging[0].Table))
	for _, one := range []*arrowflight.Ticket{ticket, more} {
		g, err := read(t.Context(), s.Client, one)
		require.NoError(t, err)
		require.Len(t, g.rows, trainingRows)
	}
	for _, change = range []func(*dataset.Dataset){
		func(d *dataset.Dataset) { d.Staging[0].MinMatch = 0.01 },
		func(d *dataset.Dataset) { d.Staging = nil }, // which the ticket pins
		promoteEntry,
	} {
		for _, one := range []*arrowflight.Ticket{ticket, more} {
			l.SetDatasets(w.datasets)
			_, code, d := s.getFailure(t, one)
			require.Equal(t, codes.FailedPrecondition, code)
			require.Contains(t, d.Message, `the configuration of dataset "homefeed" has changed`)
		}
	}
}

// promoteEntry adds an entry to a dataset with the name, and not the fields, of the one that queries with "again" add.
func promoteEntry(d *dataset.Dataset) {
	again := d.Staging[0]
	again.Name, again.Prefix = "again", "more_"
	d.Staging = append(d.Staging, again)
}

// TestTicketsWithEntriesThatTheDatasetHasNow checks that a ticket is expired, and not invalid, if an entry that its query adds can
// no longer be added, since the dataset now has one of that name.
//
// spec: ticket-9, ticket-16
func TestTicketsWithEntriesThatTheDatasetHasNow(t *testing.T) {
	w := newWorld(t)
	l := w.loader()
	s := serve(t, Options{Loader: l})
	e := s.endpointFor(t.Context(), t, fmt.Sprintf(`{"dataset": "homefeed", "with": [{"table": %q, "key": {"request_id": "req"}, "name": "again", "prefix": "again_"}]}`, w.datasets[0].Staging[0].Table))
	datasets := slices.Clone(w.datasets)
	datasets[0].Staging = slices.Clone(datasets[0].Staging)
	promoteEntry(&datasets[0])
	l.SetDatasets(datasets)
	d := s.refusedTo(t.Context(), t, e, codes.FailedPrecondition)
	require.Contains(t, d.Message, `the configuration of dataset "homefeed" has changed since the ticket was made`)
	require.Contains(t, d.Message, `already has an entry "again"`)
	l.SetDatasets(w.datasets)
	_, err := s.renewFor(t.Context(), t, e)
	require.NoError(t, err)
}

// TestTicketsOfOtherAlgorithms checks that a ticket of another algorithm is expired, and
// never returns other rows.
//
// spec: ticket-9
func TestTicketsOfOtherAlgorithms(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	query := dataset.Query{Rows: dataset.Rows{Dataset: "homefeed"}, Reading: dataset.Reading{BatchRows: 100, Shard: dataset.Shard{Of: 1}}}
	p, err := w.loader().Plan(t.Context(), query)
	require.NoError(t, err)
	for _, algorithm := range []int{-1, 0, plan.Algorithm + 1, 99} {
		c := ticket.New(query.Defaults(), p.Plan)
		c.Algorithm = algorithm
		sealed, err := tickettest.Keys(t).Seal(c, noon().Add(time.Hour))
		require.NoError(t, err)
		_, code, d := s.getFailure(t, &arrowflight.Ticket{Ticket: sealed})
		require.Equal(t, codes.FailedPrecondition, code)
		require.Equal(t, "expired", d.Kind)
		require.Contains(t, d.Message, fmt.Sprintf("algorithm %d, this one plans by at most %d", algorithm, plan.Algorithm))
		require.Equal(t, ticket.PlanAgain, d.Remedy)
	}
}

// TestEveryFieldOfATicketRoundTrips checks that a ticket encodes each field of a query, of
// an inline dataset and of the ticket itself. It finds fields by reflection, so a forgotten
// field fails by name. The algorithm is a field of the ticket, and not of the ticket's query.
func TestEveryFieldOfATicketRoundTrips(t *testing.T) {
	s := New(Options{Keys: keysOf(t), Clock: noon, Loader: newWorld(t).loader()})
	pin := dataset.Pin{Training: dataset.TablePin{UUID: "u", Snapshot: 7}, Staging: map[string]dataset.TablePin{}}
	datasettest.EachField(t, func(t *testing.T, what string, q dataset.Query) {
		t.Helper()
		want := q.Defaults()
		planned := &plan.Plan{Bound: plan.Bound{Algorithm: q.Algorithm, Rows: dataset.Rows{Pin: pin}}}
		if !want.Pin.IsZero() && want.Pin.Whole() {
			planned.Rows.Pin = want.Pin
		}
		want.Pin = planned.Rows.Pin
		content := ticket.New(q, planned)
		text, err := decode.Query(content.Query)
		require.NoError(t, err, what)
		require.Zero(t, text.Algorithm, "the release before refuses queries with this field")
		sealed, err := s.options.Keys().Seal(content, noon().Add(time.Hour))
		require.NoError(t, err, what)
		opened, err := s.tickets.open(&call.Call{}, sealed)
		require.NoError(t, err, what)
		got, err := opened.Asked()
		require.NoError(t, err, what)
		datasettest.Equal(t, want, got, what)
	})
	var full ticket.Content
	datasettest.Fill(t, &full)
	sealed, err := s.options.Keys().Seal(full, noon().Add(time.Hour))
	require.NoError(t, err)
	opened, err := s.options.Keys().Open(sealed, noon())
	require.NoError(t, err)
	datasettest.Equal(t, full, opened, "a ticket")
}

// TestTicketsIgnoreLaterCommits checks that commits after a ticket was made do not change
// what it returns.
//
// spec: ticket-2
func TestTicketsIgnoreLaterCommits(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	before, err := read(context.Background(), s.Client, ticket)
	require.NoError(t, err)
	w.add(t, "ml.impressions", []string{"r1 5000 1", "r2 5001 2"})
	w.add(t, "features.history", []string{"r95 c9 [1]"})
	now, err := s.GetFlightInfo(context.Background(), flighttest.Command(`{"dataset": "homefeed"}`))
	require.NoError(t, err)
	require.EqualValues(t, trainingRows+2, now.GetTotalRecords())
	for range 2 {
		after, err := read(context.Background(), s.Client, ticket)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
}

// renewedFor opens a ticket for the subject of a call, and renews it.
func renewedFor(of *call.Call, s *Server, sealed []byte) ([]byte, time.Time, error) {
	c, err := s.tickets.open(of, sealed)
	if err != nil {
		return nil, time.Time{}, err
	}
	return s.tickets.renewed(c, ticket.ExpiryOf(sealed))
}

// spec: ticket-11
func TestRenewalEnds(t *testing.T) {
	now := noon()
	s := New(Options{Keys: keysOf(t), Clock: func() time.Time { return now }, Lifetime: time.Hour, Renewal: 150 * time.Minute})
	first, err := s.options.Keys().Seal(tickettest.Golden(), noon().Add(time.Hour))
	require.NoError(t, err)
	same, _, err := renewedFor(&call.Call{}, s, first)
	require.NoError(t, err)
	require.Equal(t, first, same, "no time has passed")

	ticket := first
	for _, c := range []struct{ at, until int }{{50, 110}, {100, 160}, {150, 210}} { // minutes
		now = noon().Add(time.Duration(c.at) * time.Minute)
		renewed, expires, err := renewedFor(&call.Call{}, s, ticket)
		require.NoError(t, err)
		require.Equal(t, noon().Add(time.Duration(c.until)*time.Minute), expires.UTC())
		opened, err := s.options.Keys().Open(renewed, expires.Add(-time.Second))
		require.NoError(t, err)
		opened.First = 0
		require.Equal(t, tickettest.Golden(), opened, "the content is the same")
		ticket = renewed
	}
	now = noon().Add(200 * time.Minute)
	_, _, err = renewedFor(&call.Call{}, s, ticket)
	require.ErrorContains(t, err, "cannot be renewed any more: it was first good until 2026-10-01T13:00:00Z")
	require.Equal(t, fault.Expired, fault.KindOf(err))
}
