package flight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// bySplit returns the endpoints of a query's splits.
func (s *served) bySplit(t testing.TB, query string) (*arrowflight.FlightInfo, []partSummary) {
	answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(`{"dataset": "homefeed", "endpoints": "splits"`+query+`}`))
	require.NoError(t, err)
	var parts []partSummary
	for _, e := range answer.GetEndpoint() {
		var part partSummary
		require.NoError(t, json.Unmarshal(e.GetAppMetadata(), &part))
		require.Equal(t, 1, part.V)
		parts = append(parts, part)
	}
	return answer, parts
}

// Each endpoint names its split and its rows, and its ticket gives exactly these, in any order
// and from any server with the same keys.
//
// spec: endpoint-1, endpoint-3, endpoint-4, endpoint-5, endpoint-6
func TestEndpointsOfSplits(t *testing.T) {
	w := newWorld(t)
	s, other := serve(t, Options{Loader: w.loader()}), serve(t, Options{Loader: w.loader()})
	p, err := w.loader().Plan(context.Background(), dataset.Query{Rows: dataset.Rows{Dataset: "homefeed"}})
	require.NoError(t, err)
	want := s.readAll(t, `{"dataset": "homefeed"}`)[0]
	answer, parts := s.bySplit(t, "")
	require.True(t, answer.GetOrdered())
	require.EqualValues(t, trainingRows, answer.GetTotalRecords())
	require.Len(t, parts, 4)
	rows := make([][][]any, 4)
	for i := range slices.Backward(parts) {
		joins := &joinedFiles{Index: p.Splits[i].Bucket.ID % 2, Of: 2} // of 6 staging buckets, as gcd(4, 6) = 2
		require.Equal(t, partSummary{V: 1, Splits: []string{p.Splits[i].ID}, Files: joins, Rows: p.Splits[i].Rows, Batches: 1}, parts[i])
		g, err := read(context.Background(), other.Client, answer.GetEndpoint()[i].GetTicket())
		require.NoError(t, err)
		require.Len(t, g.rows, int(parts[i].Rows))
		require.Equal(t, g.report.Rows, parts[i].Rows)
		rows[i] = g.rows
	}
	require.Equal(t, want.rows, slices.Concat(rows...))
	again, same := other.bySplit(t, "")
	require.Equal(t, parts, same)
	for i, e := range again.GetEndpoint() {
		require.Equal(t, e.GetTicket().GetTicket(), answer.GetEndpoint()[i].GetTicket().GetTicket())
	}

	_, filtered := s.bySplit(t, `, "filter": "item > 3"`)
	require.EqualValues(t, -1, filtered[0].Rows)
	require.Equal(t, parts[1].Splits, filtered[1].Splits)
	_, alone := s.bySplit(t, `, "columns": ["item"]`)
	require.Nil(t, alone[0].Files, "the splits join nothing")
	_, shuffled := s.bySplit(t, `, "order": "shuffled", "shuffle": "splits", "seed": 3`)
	require.ElementsMatch(t, parts, shuffled, "the same splits in another order")
}

// With a cursor, the first endpoint begins there, and the others do not change.
//
// spec: endpoint-7, endpoint-9
func TestEndpointsFromACursor(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	want := s.readAll(t, `{"dataset": "homefeed"}`)[0]
	answer, parts := s.bySplit(t, `, "batch_rows": 100`)
	before := parts[0].Rows
	second, err := read(context.Background(), s.Client, answer.GetEndpoint()[1].GetTicket())
	require.NoError(t, err)
	cursor := string(second.cursors[0])

	rest, left := s.bySplit(t, `, "batch_rows": 100, "cursor": `+cursor)
	require.Equal(t, trainingRows-before-100, rest.GetTotalRecords())
	require.Len(t, left, 3)
	require.Equal(t, partSummary{V: 1, Splits: parts[1].Splits, Files: parts[1].Files, At: json.RawMessage(`{"lane":0,"split":1,"row":100}`), Rows: parts[1].Rows - 100, Batches: parts[1].Batches - 1}, left[0])
	require.Equal(t, (parts[1].Rows+99)/100, parts[1].Batches)
	require.Len(t, second.sizes, int(parts[1].Batches))
	require.Equal(t, parts[2:], left[1:])
	var rows [][]any
	for _, e := range rest.GetEndpoint() {
		g, err := read(context.Background(), s.Client, e.GetTicket())
		require.NoError(t, err)
		rows = append(rows, g.rows...)
	}
	require.Equal(t, want.rows[before+100:], rows)
	plain := s.readAll(t, `{"dataset": "homefeed", "cursor": `+cursor+`}`)
	require.Equal(t, want.rows[before+100:], plain[0].rows, "a plain query continues to the end of the plan")

	shuffled := s.readAll(t, `{"dataset": "homefeed", "endpoints": "splits", "order": "shuffled", "shuffle": "splits", "batch_rows": 100}`)
	_, left = s.bySplit(t, `, "cursor": `+string(shuffled[1].cursors[0]))
	require.JSONEq(t, `{"lane":0,"split":1,"row":100}`, string(left[0].At))
	require.EqualValues(t, len(shuffled[1].rows)-100, left[0].Rows)

	last := s.readAll(t, `{"dataset": "homefeed", "endpoints": "splits"}`)[3]
	end, none := s.bySplit(t, `, "cursor": `+string(last.cursors[len(last.cursors)-1]))
	require.Equal(t, []partSummary{{V: 1, Splits: []string{}}}, none)
	g, err := read(context.Background(), s.Client, end.GetEndpoint()[0].GetTicket())
	require.NoError(t, err)
	require.Empty(t, g.rows)
	require.True(t, want.schema.Equal(g.schema))
	require.Zero(t, g.report.Rows)
}

// Tickets of splits carry the counts of the plan, even with a cursor, so that no server refuses
// them.
//
// spec: endpoint-3, endpoint-7, step-9
func TestCountedSplits(t *testing.T) {
	w := newWorld(t)
	asked, none := 0, 0
	s := serve(t, Options{Loader: counts(w.loader(), &asked)})
	other := serve(t, Options{Loader: counts(w.loader(), &none)})
	const filter = `, "batch_rows": 20, "filter": "item > 3"`
	want := s.readAll(t, `{"dataset": "homefeed"`+filter+`}`)[0]
	all := func(query string) (rows [][]any, parts []got) {
		answer, _ := s.bySplit(t, query)
		require.Equal(t, 1, asked)
		for _, e := range answer.GetEndpoint() {
			g, err := read(context.Background(), other.Client, e.GetTicket())
			require.NoError(t, err)
			rows, parts = append(rows, g.rows...), append(parts, g)
		}
		return rows, parts
	}
	rows, parts := all(filter + `, "count": "exact"`)
	require.Equal(t, want.rows, rows)
	for name, from := range map[string]struct {
		cursor []byte
		given  int
	}{
		"in the first":     {parts[0].cursors[0], 20},
		"in a later one":   {parts[1].cursors[0], len(parts[0].rows) + 20},
		"of a plain query": {want.cursors[1], 40},
	} {
		rows, _ := all(filter + `, "count": "exact", "cursor": ` + string(from.cursor))
		require.Equal(t, want.rows[from.given:], rows, name)
	}
	require.Zero(t, none)
}

// Tickets of splits that were changed, are of another plan, or have no part are refused. A
// renewed ticket is for the same splits.
//
// spec: endpoint-5, ticket-3, ticket-10
func TestTicketsOfSplits(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader(), Lifetime: time.Hour})
	answer, parts := s.bySplit(t, "")
	signed := answer.GetEndpoint()[2].GetTicket().GetTicket()
	for i := range signed {
		changed := slices.Clone(signed)
		changed[i] ^= 1
		_, _, err := s.server.openTicket(&call.Call{}, changed)
		require.Error(t, err, i)
	}
	c, _, err := s.server.openTicket(&call.Call{}, signed)
	require.NoError(t, err)
	for name, change := range map[string]func(*ticket.Content){
		"no part": func(c *ticket.Content) { c.Part = nil },
		"beyond":  func(c *ticket.Content) { c.Part = &plan.Part{From: 2, To: 9} },
		"of shards": func(c *ticket.Content) {
			c.Query = json.RawMessage(strings.Replace(string(c.Query), `,"endpoints":"splits"`, "", 1))
		},
		"another plan": func(c *ticket.Content) { c.Plan = "0123" },
		"another order": func(c *ticket.Content) {
			c.Query = json.RawMessage(strings.Replace(string(c.Query), `"endpoints"`, `"order":"shuffled","shuffle":"splits","endpoints"`, 1))
		},
	} {
		forged := c
		change(&forged)
		require.NotEqual(t, c, forged, name)
		sealed, err := s.server.options.Keys().Seal(forged, noon().Add(time.Hour))
		require.NoError(t, err)
		_, code, _ := s.getFailure(t, &arrowflight.Ticket{Ticket: sealed})
		require.Equal(t, codes.Internal, code, name)
	}
	body, err := proto.Marshal(&arrowflight.RenewFlightEndpointRequest{Endpoint: answer.GetEndpoint()[2]})
	require.NoError(t, err)
	text, err := (&service{Server: s.server}).renew(context.Background(), &call.Call{}, body)
	require.NoError(t, err)
	var renewed arrowflight.FlightEndpoint
	require.NoError(t, proto.Unmarshal(text, &renewed))
	require.Equal(t, answer.GetEndpoint()[2].GetAppMetadata(), renewed.GetAppMetadata())
	g, err := read(context.Background(), s.Client, renewed.GetTicket())
	require.NoError(t, err)
	require.Len(t, g.rows, int(parts[2].Rows))
}

// 100,000 splits make 1,024 endpoints with small tickets, in an answer that any client accepts.
// Each split is named once, in order.
//
// spec: endpoint-1, ticket-7
func TestManySplitsShareEndpoints(t *testing.T) {
	const splits = 100_000
	w := newWorld(t)
	real, err := w.loader().Plan(context.Background(), dataset.Query{Rows: dataset.Rows{Dataset: "homefeed"}})
	require.NoError(t, err)
	many := *real.Plan
	many.Splits, many.Lanes = make([]plan.Split, splits), []plan.Lane{{Rows: splits}}
	for i := range many.Splits {
		many.Splits[i] = plan.Split{ID: fmt.Sprintf("%016x", i), Rows: 1}
		many.Lanes[0].Ranges = append(many.Lanes[0].Ranges, plan.Range{Split: i, To: 1})
	}
	many.StoredRows = splits
	s := serve(t, Options{Loader: altered{Loader: w.loader(), plan: func(q dataset.Query) (loader.Planned, error) {
		return loader.Planned{Plan: &many, Query: q.Defaults(), BatchRows: real.BatchRows}, nil
	}}})
	answer, parts := s.bySplit(t, "")
	require.Len(t, parts, 1024)
	require.Less(t, proto.Size(answer), 4<<20)
	next := 0
	for i, part := range parts {
		require.Less(t, len(answer.GetEndpoint()[i].GetTicket().GetTicket()), 16<<10)
		require.EqualValues(t, len(part.Splits), part.Rows)
		for _, id := range part.Splits {
			require.Equal(t, fmt.Sprintf("%016x", next), id)
			next++
		}
	}
	require.Equal(t, splits, next)
}

// FlightInfo announces no more rows and steps than the limit lets through.
//
// spec: endpoint-14, endpoint-17, endpoint-18
func TestLimitBoundsAnnouncedRows(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	cursor := s.readAll(t, `{"dataset": "homefeed", "lanes": 4, "batch_rows": 400}`)[0].cursors[1]
	for query, want := range map[string]struct{ records, rows, steps int64 }{
		`"limit": 10, "batch_rows": 4`:                                            {10, 10, 3},
		`"limit": 1008, "batch_rows": 8, "lanes": 4`:                              {1008, 1008, 126},
		`"limit": 1009, "batch_rows": 8, "lanes": 4`:                              {1009, 1009, 127},
		`"limit": 5000, "batch_rows": 8, "lanes": 4`:                              {1009, 1009, 127},
		`"limit": 10, "filter": "item > 3", "batch_rows": 4`:                      {-1, -1, -1},
		fmt.Sprintf(`"limit": 200, "batch_rows": 400, "cursor": %s`, cursor):      {200, 200, 1},
		fmt.Sprintf(`"limit": 900, "batch_rows": 400, "cursor": %s`, cursor):      {209, 900, 3},
		`"global_batch_rows": 64, "lanes": 4, "shard": {"of": 2}`:                 {1009, 1009, 16},
		`"global_batch_rows": 64, "lanes": 4, "shard": {"of": 4}, "tail": "drop"`: {960, 1009, 15},
		`"global_batch_rows": 64, "lanes": 4, "limit": 65, "shard": {"index": 0}`: {65, 65, 2},
	} {
		answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(`{"dataset": "homefeed", `+query+`}`))
		require.NoError(t, err, query)
		endpoints, said := said(t, answer), summaryOf(t, answer)
		require.Equal(t, []int64{want.records, want.rows, want.steps}, []int64{answer.GetTotalRecords(), said.Rows, said.Steps}, query)
		if strings.Contains(query, "global") {
			require.Equal(t, 64/said.Shards, said.BatchRows)
		}
		if want.records < 0 {
			continue
		}
		rows := int64(0)
		for i, e := range answer.GetEndpoint() {
			g, err := read(context.Background(), s.Client, e.GetTicket())
			require.NoError(t, err)
			rows += int64(len(g.rows))
			require.EqualValues(t, len(g.sizes), endpoints[i].Batches, query)
		}
		require.Equal(t, want.records, rows, query)
	}
}
