package flight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/explain"
)

func summaryOf(t *testing.T, answer *arrowflight.FlightInfo) PlanSummary {
	var s PlanSummary
	require.NoError(t, json.Unmarshal(answer.GetAppMetadata(), &s))
	return s
}

// TestFlightInfo requests FlightInfo by path and by query.
func TestFlightInfo(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader(), Lifetime: time.Hour})
	byPath, err := s.GetFlightInfo(context.Background(), &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorPATH, Path: []string{"homefeed"}})
	require.NoError(t, err)
	require.Len(t, byPath.GetEndpoint(), 1)
	require.True(t, byPath.GetOrdered())
	require.EqualValues(t, trainingRows, byPath.GetTotalRecords())
	require.EqualValues(t, -1, byPath.GetTotalBytes())
	require.Empty(t, byPath.GetEndpoint()[0].GetLocation())
	require.Equal(t, noon().Add(time.Hour), byPath.GetEndpoint()[0].GetExpirationTime().AsTime())

	query := flighttest.Command(`{"dataset": "homefeed", "columns": ["country", "item"], "lanes": 4, "shard": {"of": 4}, "batch_rows": 8}`)
	byQuery, err := s.GetFlightInfo(context.Background(), query)
	require.NoError(t, err)
	require.Len(t, byQuery.GetEndpoint(), 4)
	require.False(t, byQuery.GetOrdered())
	require.True(t, proto.Equal(query, byQuery.GetFlightDescriptor()))
	schema, err := arrowflight.DeserializeSchema(byQuery.GetSchema(), memory.DefaultAllocator)
	require.NoError(t, err)
	p, err := w.loader().Plan(context.Background(), dataset.Query{Rows: dataset.Rows{Dataset: "homefeed", Lanes: 4}, Reading: dataset.Reading{Shard: dataset.Shard{Index: dataset.AllShards, Of: 4}}})
	require.NoError(t, err)
	want, err := p.Schema(dataset.Selection{Columns: []dataset.Column{{Column: "country"}, {Column: "item"}}}, dataset.WirePlain)
	require.NoError(t, err)
	require.True(t, want.Equal(schema), schema)
	alone, err := s.GetSchema(context.Background(), query)
	require.NoError(t, err)
	require.Equal(t, byQuery.GetSchema(), alone.GetSchema())
	require.Equal(t, PlanSummary{
		V: 1, Plan: p.ID, Pin: p.Rows.Pin, Lanes: 4, Shards: 4, BatchRows: 8, Rows: trainingRows, Steps: (trainingRows/4 + 8) / 8, Splits: len(p.Splits),
	}, summaryOf(t, byQuery))
}

// TestPlanAndReportHaveTheSample checks that clients get the sample before the first row and
// after the last, so that a trainer can weight its rows.
//
// spec: join-86
func TestPlanAndReportHaveTheSample(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	for sample, want := range map[string]string{
		`{"rate": 0.5, "where": "score>1"}`:            `{"rate":0.5,"where":"score > 1"}`,
		`{"hash": [0, 0.5], "by": "key"}`:              `{"hash":[0,0.5],"by":"key"}`,
		`{"hash": [0.5, 0], "rate": 0.25}`:             `{"hash":[0.5,0],"rate":0.25}`,
		`{"by": "request", "hash": [0, 1], "rate": 1}`: `{"hash":[0,1]}`,
	} {
		query := `{"dataset": "homefeed", "sample": ` + sample + `}`
		answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(query))
		require.NoError(t, err)
		require.Equal(t, want, string(summaryOf(t, answer).Sample))
		g, err := read(context.Background(), s.Client, answer.GetEndpoint()[0].GetTicket())
		require.NoError(t, err)
		require.Equal(t, want, string(g.report.Sample))
	}
	answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(`{"dataset": "homefeed"}`))
	require.NoError(t, err)
	require.NotContains(t, string(answer.GetAppMetadata()), "sample")
}

// TestTotalRecords checks that total_records are those of the listed endpoints, and that no
// row is estimated.
func TestTotalRecords(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	whole := s.readAll(t, `{"dataset": "homefeed", "lanes": 4, "shard": {"of": 4}, "batch_rows": 100}`)
	cursors := func(step int) string {
		var list []json.RawMessage
		for _, g := range whole {
			list = append(list, g.cursors[step-1])
		}
		text, err := json.Marshal(list)
		require.NoError(t, err)
		return string(text)
	}
	for query, why := range map[string]string{
		`"lanes": 4, "shard": {"of": 2}`:                                                             "",
		`"lanes": 4, "shard": {"index": 1, "of": 4}`:                                                 "",
		`"lanes": 4, "shard": {"index": 0, "of": 2}, "batch_rows": 100, "tail": "drop"`:              "",
		`"lanes": 4, "shard": {"of": 1}, "batch_rows": 400, "tail": "drop", "cursor": ` + cursors(1): "",
		`"shard": {"of": 2}, "cursor": ` + cursors(2):                                                "",
		`"shard": {"of": 4}, "cursor": ` + cursors(3):                                                "",
		`"filter": "item >= 100"`:                                                                    "a filter drops rows: item >= 100",
	} {
		t.Run(query[:min(60, len(query))], func(t *testing.T) {
			query := `{"dataset": "homefeed", ` + query + `}`
			answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(query))
			require.NoError(t, err)
			rows := 0
			for _, g := range s.readAll(t, query) {
				rows += len(g.rows)
			}
			got := summaryOf(t, answer)
			require.Equal(t, why, got.RowsUnknown)
			if why != "" {
				require.EqualValues(t, -1, answer.GetTotalRecords())
				require.EqualValues(t, -1, got.Rows)
				require.EqualValues(t, -1, got.Steps)
				return
			}
			require.EqualValues(t, rows, answer.GetTotalRecords())
			require.EqualValues(t, trainingRows, got.Rows)
		})
	}
}

func TestAdvertise(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader(), Advertise: []string{"grpc://a:1", "grpc://b:1"}})
	answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(`{"dataset": "homefeed"}`))
	require.NoError(t, err)
	locations := answer.GetEndpoint()[0].GetLocation()
	require.Len(t, locations, 2)
	require.Equal(t, "grpc://b:1", locations[1].GetUri())
}

// TestListFlights checks that datasets that can be read and those that cannot are listed.
func TestListFlights(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	stream, err := s.ListFlights(context.Background(), &arrowflight.Criteria{})
	require.NoError(t, err)
	good, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, []string{"homefeed"}, good.GetFlightDescriptor().GetPath())
	require.Empty(t, good.GetEndpoint())
	require.EqualValues(t, trainingRows, good.GetTotalRecords())
	require.NotEmpty(t, summaryOf(t, good).Plan)
	bad, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, []string{"gone"}, bad.GetFlightDescriptor().GetPath())
	require.EqualValues(t, -1, bad.GetTotalRecords())
	schema, err := arrowflight.DeserializeSchema(bad.GetSchema(), memory.DefaultAllocator)
	require.NoError(t, err)
	require.Zero(t, schema.NumFields())
	var why broken
	require.NoError(t, json.Unmarshal(bad.GetAppMetadata(), &why))
	require.Equal(t, "not found", why.Error.Kind)
	require.Contains(t, why.Error.Message, "ml.gone")
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)

	stream, err = s.ListFlights(context.Background(), &arrowflight.Criteria{Expression: []byte("home*")})
	require.NoError(t, err)
	_, err = stream.Recv()
	code, _ := flighttest.FailureOf(t, err, nil)
	require.Equal(t, codes.InvalidArgument, code)
}

// TestBadQueries checks that errors name the mistakes in a query.
func TestBadQueries(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	other := s.readAll(t, `{"dataset": "homefeed", "order": "shuffled", "seed": 3}`)[0].cursors[0]
	foreign := strings.Replace(string(other), `"dataset":"`, `"dataset":"0`, 1)
	damaged := strings.Replace(foreign, `"plan":"`, `"plan":"0`, 1)
	foreign = datasettest.Summed(damaged)
	for name, c := range map[string]struct {
		descriptor *arrowflight.FlightDescriptor
		code       codes.Code
		field      string
		nearest    string
	}{
		"no descriptor":    {&arrowflight.FlightDescriptor{}, codes.InvalidArgument, "descriptor", ""},
		"a long path":      {&arrowflight.FlightDescriptor{Type: arrowflight.DescriptorPATH, Path: []string{"a", "b"}}, codes.InvalidArgument, "descriptor", ""},
		"unknown dataset":  {&arrowflight.FlightDescriptor{Type: arrowflight.DescriptorPATH, Path: []string{"homefed"}}, codes.NotFound, "dataset", "homefeed"},
		"not JSON":         {flighttest.Command("homefeed"), codes.InvalidArgument, "", ""},
		"unknown field":    {flighttest.Command(`{"dataset": "homefeed", "colums": ["item"]}`), codes.InvalidArgument, "colums", "columns"},
		"unknown column":   {flighttest.Command(`{"dataset": "homefeed", "columns": ["itme"]}`), codes.InvalidArgument, "columns[0]", "item"},
		"filter syntax":    {flighttest.Command(`{"dataset": "homefeed", "filter": "item >"}`), codes.InvalidArgument, "filter", ""},
		"shard outside":    {flighttest.Command(`{"dataset": "homefeed", "shard": {"index": 4, "of": 4}}`), codes.InvalidArgument, "shard.index", ""},
		"shards and lanes": {flighttest.Command(`{"dataset": "homefeed", "lanes": 4, "shard": {"of": 3}}`), codes.InvalidArgument, "shard.of", ""},
		"batch and lanes":  {flighttest.Command(`{"dataset": "homefeed", "lanes": 4, "shard": {"of": 1}, "batch_rows": 5}`), codes.InvalidArgument, "batch_rows", ""},
		"another seed":     {flighttest.Command(fmt.Sprintf(`{"dataset": "homefeed", "seed": 0, "cursor": %s}`, other)), codes.InvalidArgument, "seed", ""},
		"another filter":   {flighttest.Command(fmt.Sprintf(`{"dataset": "homefeed", "filter": "item > 3", "cursor": %s}`, other)), codes.InvalidArgument, "filter", ""},
		"damaged cursor":   {flighttest.Command(fmt.Sprintf(`{"dataset": "homefeed", "cursor": %s}`, damaged)), codes.InvalidArgument, "cursor.sum", ""},
		"foreign cursor":   {flighttest.Command(fmt.Sprintf(`{"dataset": "homefeed", "cursor": %s}`, foreign)), codes.InvalidArgument, "cursor[0]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, d := s.flightInfoFailure(t, c.descriptor)
			require.Equal(t, c.code, code, d)
			require.NotEmpty(t, d.Faults, d)
			require.Equal(t, c.field, d.Faults[0].Field)
			require.Equal(t, c.nearest, d.Faults[0].Nearest)
		})
	}
}

// TestActions runs every action, and checks that unknown ones are refused.
func TestActions(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader(), Version: "1.2.3", Lifetime: time.Hour, Sharing: func(plan string) string { return "shared by " + plan }})
	act := func(name string, body []byte) ([]byte, error) {
		stream, err := s.DoAction(context.Background(), &arrowflight.Action{Type: name, Body: body})
		require.NoError(t, err)
		result, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		_, err = stream.Recv()
		require.ErrorIs(t, err, io.EOF)
		return result.GetBody(), nil
	}
	p, err := w.loader().Plan(context.Background(), dataset.Query{Rows: dataset.Rows{Dataset: "homefeed", Seed: 7, Order: dataset.Shuffled}, Reading: dataset.Reading{Columns: []dataset.Column{{Column: "item"}, {Column: "pins"}}}})
	require.NoError(t, err)
	query := `{"dataset": "homefeed", "seed": 7, "order": "shuffled", "columns": ["item", "pins"]}`

	text, err := act("explain", []byte(query))
	require.NoError(t, err)
	const more = "\nevery split and lane, and all rules in full: --splits, in Python splits=True\n"
	require.Equal(t, explain.Summary(p.Plan, p.Query, nil, 38)+"shared by "+p.TablesID+more, string(text))
	text, err = act("explain_splits", []byte(query))
	require.NoError(t, err)
	require.Equal(t, explain.Text(p.Plan, dataset.Query{}, nil)+"shared by "+p.TablesID, string(text))

	text, err = act("manifest", []byte(query))
	require.NoError(t, err)
	var m manifest
	require.NoError(t, json.Unmarshal(text, &m))
	again, err := decode.Query(m.Query)
	require.NoError(t, err)
	require.Equal(t, p.Rows.Pin, again.Pin)
	require.JSONEq(t, string(w.datasets[0].Canonical()), string(m.Dataset))
	m.Query, m.Dataset = nil, nil
	require.Equal(t, manifest{Version: "1.2.3", Pin: p.Rows.Pin, Plan: p.ID, Algorithm: p.Algorithm, Columns: []column{
		{"item", "int64", false}, {"pins", "list<element: int64, nullable>", true},
	}}, m)

	ticket := s.ticket(t, query)
	renewal, err := proto.Marshal(&arrowflight.RenewFlightEndpointRequest{Endpoint: &arrowflight.FlightEndpoint{Ticket: ticket}})
	require.NoError(t, err)
	text, err = act("RenewFlightEndpoint", renewal)
	require.NoError(t, err)
	var renewed arrowflight.FlightEndpoint
	require.NoError(t, proto.Unmarshal(text, &renewed))
	require.Equal(t, noon().Add(time.Hour), renewed.GetExpirationTime().AsTime())
	require.Equal(t, ticket.GetTicket(), renewed.GetTicket().GetTicket()) // the clock stands still
	for _, body := range [][]byte{nil, []byte("\xff"), []byte(query)} {
		_, err = act("RenewFlightEndpoint", body)
		code, _ := flighttest.FailureOf(t, err, nil)
		require.Equal(t, codes.InvalidArgument, code)
	}
	for _, name := range []string{"explain", "explain_splits", "explain_shape", "explain_coverage", "manifest"} {
		for body, want := range map[string]codes.Code{`{`: codes.InvalidArgument, `{"dataset": "gone"}`: codes.NotFound} {
			_, err = act(name, []byte(body))
			code, _ := flighttest.FailureOf(t, err, nil)
			require.Equal(t, want, code)
		}
	}

	list, err := s.ListActions(context.Background(), &arrowflight.Empty{})
	require.NoError(t, err)
	var names []string
	for a, err := list.Recv(); !errors.Is(err, io.EOF); a, err = list.Recv() {
		require.NoError(t, err)
		names = append(names, a.GetType())
	}
	require.Equal(t, []string{"explain", "explain_splits", "explain_shape", "explain_scale", "explain_coverage", "manifest", "stall", "status", "RenewFlightEndpoint"}, names)
	_, err = act("explian", nil)
	code, _ := flighttest.FailureOf(t, err, nil)
	require.Equal(t, codes.InvalidArgument, code)
	require.ErrorContains(t, err, "explain, explain_splits, explain_shape, explain_scale, explain_coverage, manifest, stall, status, RenewFlightEndpoint")
}

// What streams share and what is cached take few lines of a screen, and the full text has all of them.
//
// spec: output-8
func TestExplainIsOneScreen(t *testing.T) {
	w := newWorld(t)
	shared := "\nsharing\n" + strings.Repeat("  shard\n", 100)
	s := serve(t, Options{Loader: w.loader(), Sharing: func(string) string { return shared }, Cache: crowded{}})
	explain := func(action string) string {
		stream, err := s.DoAction(context.Background(), &arrowflight.Action{Type: action, Body: []byte(`{"dataset": "homefeed"}`)})
		require.NoError(t, err)
		result, err := stream.Recv()
		require.NoError(t, err)
		return string(result.GetBody())
	}
	text := explain("explain")
	require.LessOrEqual(t, strings.Count(text, "\n"), 40, text)
	require.Contains(t, text, "\nsharing\n  shard\n  … 99 more\ncached\n  table\n  table\n  … 8 more\n\nevery split")
	require.Contains(t, explain("explain_splits"), shared+crowded{}.Warm(nil))
}

// crowded has cached columns of many tables.
type crowded struct{ CacheAdmin }

func (crowded) Warm(*plan.Plan) string { return "cached\n" + strings.Repeat("  table\n", 10) }

// TestRefusals checks that unsupported features are refused by name.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	ctx := context.Background()
	for name, call := range map[string]func() error{
		"Handshake": func() error {
			stream, err := s.Handshake(ctx)
			require.NoError(t, err)
			_, err = stream.Recv()
			return err
		},
		"DoPut": func() error {
			stream, err := s.DoPut(ctx)
			require.NoError(t, err)
			_, err = stream.Recv()
			return err
		},
		"DoExchange": func() error {
			stream, err := s.DoExchange(ctx)
			require.NoError(t, err)
			_, err = stream.Recv()
			return err
		},
		"PollFlightInfo": func() error {
			_, err := s.PollFlightInfo(ctx, flighttest.Command(`{"dataset": "homefeed"}`))
			return err
		},
	} {
		code, _ := flighttest.FailureOf(t, call(), nil)
		require.Equal(t, codes.InvalidArgument, code)
		require.ErrorContains(t, call(), name+" is not supported by this version; ")
	}
}
