package flight

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/dataset"
)

// ways are calls by which a client may try to learn of a column or of rows: queries, the query of an inline dataset without its
// closing brace, and actions with a query after a colon.
func ways() []string {
	key := `, "key": {"request_id": "req"}`
	queries := []string{
		`{"dataset": "people"}`,
		`{"dataset": "people", "count": "exact"}`,
		`{"dataset": "people", "count": "exact", "tail": "drop", "batch_rows": 7}`,
		`{"dataset": "people", "wire": "indexed"}`,
		`{"dataset": "people", "wire": "grouped"}`,
		`{"dataset": "people", "batch_requests": 2}`,
		`{"dataset": "people", "order": "shuffled", "seed": 3, "columns": ["item"], "limit": 0}`,
		`{"dataset": "people", "columns": ["email"]}`,
		`{"dataset": "people", "columns": ["item", {"column": "email", "as": "category"}]}`,
		`{"dataset": "people", "columns": [{"column": "email", "name": "item"}]}`,
		`{"dataset": "people", "columns": ["emial"]}`,
		`{"dataset": "people", "columns": ["p_email"]}`,
		`{"dataset": "people", "columns": ["profiles.email"]}`,
		`{"dataset": "people", "dense": {"d": ["email"]}}`,
		`{"dataset": "people", "dense": {"email": ["item"]}}`,
		`{"dataset": "people", "filter": "email = 'e1'"}`,
		`{"dataset": "people", "filter": "email = 1"}`,
		`{"dataset": "people", "filter": "item > 3 OR p_email IS NULL"}`,
		`{"dataset": "people", "filter": "emial = 'e1'"}`,
		`{"dataset": "people", "filter": "country = 'US'"}`,
		`{"dataset": "people", "filter": "country <> 'DE' OR country = 'DE'"}`,
		`{"dataset": "people", "filter": "country = 'US'", "count": "exact"}`,
		`{"dataset": "people", "filter": "p_country = 'US'"}`,
		`{"dataset": "people", "filter": "item = 1", "count": "exact"}`,
		`{"dataset": "people", "sample": {"rate": 0.5, "where": "email = 'e1'"}}`,
		`{"dataset": "people", "sample": {"rate": 0.5, "where": "country = 'US'"}}`,
		`{"dataset": "people", "filter": "10 / (item - 1) <> 3"}`, // which fails for a row that may be withheld
		`{"dataset": "people", "filter": "length(replace(country, 'US', '` + strings.Repeat("x", 20_000) + `')) > 1 OR length(replace(replace(country, 'US', '` + strings.Repeat("x", 9_000) + `'), 'x', '` + strings.Repeat("y", 9_000) + `')) > 1"}`,
		`{"dataset": "people", "sample": {"rate": 0.5, "where": "10 / (item - 1) > 1000"}}`,
		`{"dataset": "people", "columns": [{"column": "x", "expr": "10 / (item - 1)"}]}`,
		`{"dataset": "people", "sample": {"hash": [0, 0.5], "by": "email"}}`,
		`{"dataset": "people", "sample": {"hash": [0, 0.5]}}`,
		`{"dataset": "people", "endpoints": "splits"}`,
		`{"dataset": "people", "since": 1}`,
		`{"dataset": "people", "snapshots": {"training": {"snapshot": 77}}}`,
		`{"dataset": "people", "lanes": 4096, "shard": {"of": 4096, "index": 4095}}`,
		`{"dataset": "people", "batch_rows": 16000000}`,
		`{"dataset": "secret"}`,
		`{"dataset": "secrets"}`,
		`{"dataset": "peoples"}`,
		inlinePeople("", key) + "}",
		inlinePeople(`, "filter": "email = 'e1'"`, key) + "}",
		inlinePeople(`, "filter": "country = 'US'"`, key) + `, "count": "exact"}`,
		inlinePeople(`, "filter": "item = 1 OR item = 2"`, key) + `, "count": "exact"}`,
		inlinePeople(`, "filter": "10 / (item - 1) <> 3"`, key) + `, "count": "exact"}`,
		inlinePeople("", key+`, "filter": "10 / length(replace(country, 'US', '')) > 1"`) + "}",
		inlinePeople(`, "request_level": ["email"]`, key) + "}",
		inlinePeople(`, "distinct": {"by": ["request_id", "email"]}`, key) + "}",
		inlinePeople(`, "distinct": {"by": ["request_id"], "order_by": ["email"]}`, key) + "}",
		inlinePeople("", `, "key": {"email": "req"}`) + "}",
		inlinePeople("", `, "key": {"emial": "req"}`) + "}",
		inlinePeople("", `, "key": {"request_id": "email"}`) + "}",
		inlinePeople("", `, "key": {"request_id": "emial"}`) + "}",
		inlinePeople("", key+`, "columns": ["email"]`) + "}",
		inlinePeople("", key+`, "columns": [{"column": "email", "as": "int"}]`) + "}",
		inlinePeople("", key+`, "filter": "email LIKE 'e%'"`) + "}",
		inlinePeople("", key+`, "filter": "country = 'US'", "join": "inner"`) + `, "count": "exact"}`,
		inlinePeople("", key+`, "join": "anti"`) + `, "count": "exact"}`,
		inlinePeople("", key+`, "join": "semi"`) + `, "count": "exact"}`,
		inlinePeople("", key+`, "min_match": 0.9`) + "}",
		inlinePeople("", key+`, "missing": "error"`) + "}",
		inlinePeople("", key+`, "missing": {"default": {"p_email": "x"}}`) + "}",
		inlinePeople("", key+`, "missing": {"default": {"p_country": "x"}}`) + "}",
		inlinePeople("", key+`, "matched_as": "email"`) + "}",
		inlinePeople("", key+`, "matched_as": "p_email"`) + "}",
		inlinePeople("", key+`, "duplicates": "first", "order_by": ["email"]`) + "}",
		inlinePeople("", key+`, "duplicates": "all"`) + `, "count": "exact"}`,
		inlinePeople("", key+`, "point_in_time": {"training": "email"}`) + "}",
		inlinePeople("", key+`, "point_in_time": {"training": "item", "staging": "email"}`) + "}",
		inlinePeople("", key+`, "align": {"training": "email", "staging": "email"}`) + "}",
		inlinePeople("", key+`, "prefix": "", "join": "overlay", "columns": [{"column": "country", "name": "email"}]`) + "}",
		strings.Replace(inlinePeople("", key), `"key": ["request_id"]`, `"key": ["email"]`, 1) + "}",
		withPeople(`"key": {"request_id": "req"}`, ""),
		withPeople(`"key": {"request_id": "req"}`, `, "count": "exact", "filter": "a_country = 'US'"`),
		withPeople(`"key": {"request_id": "req"}, "columns": ["email"]`, ""),
		withPeople(`"key": {"request_id": "req"}, "filter": "email = 'e1'"`, ""),
		withPeople(`"key": {"request_id": "req"}, "filter": "country = 'US'", "join": "inner"`, `, "count": "exact"`),
		withPeople(`"key": {"request_id": "req"}, "join": "anti"`, `, "count": "exact"`),
		withPeople(`"key": {"email": "req"}`, ""),
		withPeople(`"key": {"request_id": "email"}`, ""),
		withPeople(`"key": {"request_id": "req"}`, `, "columns": ["a_email"]`),
		`{"dataset": "people", "with": [{"table": "hr.salaries"}]}`,
		`{"dataset": "people", "with": [{"table": "hr.nothing"}]}`,
		`{"dataset": "people", "with": [{"table": "features.profiles"}]}`,
		`{"dataset": "secret", "with": [{"table": "features.profiles"}]}`,
		`{"dataset": {"training": {"table": "hr.salaries"}}}`,
		`{"dataset": {"training": {"table": "hr.nothing"}}}`,
		`{"dataset": {"training": {"table": "ml.peoples"}}}`,
	}
	all := queries
	for _, action := range []string{"explain", "explain_splits", "explain_shape", "explain_coverage", "manifest", "verify", "verify_progress"} {
		for _, q := range []string{queries[0], queries[7], `{"dataset": "secret"}`, inlinePeople("", key) + "}"} {
			all = append(all, action+":"+q)
		}
	}
	for _, q := range []string{queries[0], queries[7], `{"dataset": "secret"}`, inlinePeople("", key) + "}"} {
		all = append(all, `explain_scale:{"scale": "trainers=1,step=1s,rows=8", "query": `+q+"}")
	}
	return append(all, "list:", "actions:", `stall:{"dataset": "secret"}`, `stall:{"dataset": "secrets"}`)
}

// act calls an action.
func (s *served) act(ctx context.Context, name string, body []byte, options ...grpc.CallOption) ([]byte, error) {
	stream, err := s.DoAction(ctx, &arrowflight.Action{Type: name, Body: body}, options...)
	if err != nil {
		return nil, err
	}
	result, err := stream.Recv()
	return result.GetBody(), err
}

// received returns all messages of a stream, as text.
func received[T proto.Message](t testing.TB, stream interface{ Recv() (T, error) }, err error) string {
	t.Helper()
	var out []string
	for err == nil {
		var one T
		if one, err = stream.Recv(); err == nil {
			text, failed := proto.Marshal(one)
			require.NoError(t, failed)
			out = append(out, string(text))
		}
	}
	require.ErrorIs(t, err, io.EOF)
	return strings.Join(out, "\n")
}

// answer returns everything that one of the ways returns, as text.
func (s *served) answer(ctx context.Context, t testing.TB, way string) string {
	t.Helper()
	var trailer metadata.MD
	fails := func(err error) string {
		code, detail := flighttest.FailureOf(t, err, trailer)
		return fmt.Sprintf("%s %s %s", code, err, jsontext.Of(detail))
	}
	action, body, isAction := strings.Cut(way, ":")
	switch {
	case strings.HasPrefix(way, "{") || !isAction:
	case action == "list":
		stream, err := s.ListFlights(ctx, &arrowflight.Criteria{})
		return received(t, stream, err)
	case action == "actions":
		stream, err := s.ListActions(ctx, &arrowflight.Empty{})
		return received(t, stream, err)
	default:
		text, err := s.act(ctx, action, []byte(body), grpc.Trailer(&trailer))
		if err != nil {
			return fails(err)
		}
		return string(text)
	}
	answer, err := s.GetFlightInfo(ctx, flighttest.Command(way), grpc.Trailer(&trailer))
	if err != nil {
		return fails(err)
	}
	out := fmt.Sprintf("%x %s %d %d", answer.GetSchema(), answer.GetAppMetadata(), answer.GetTotalRecords(), answer.GetTotalBytes())
	schema, err := s.GetSchema(ctx, flighttest.Command(way))
	require.NoError(t, err)
	require.Equal(t, answer.GetSchema(), schema.GetSchema())
	for _, e := range answer.GetEndpoint() {
		g, err := read(ctx, s.Client, e.GetTicket(), grpc.Trailer(&trailer))
		out += fmt.Sprintf("\n%s %v %v", e.GetAppMetadata(), g.rows, g.sizes)
		if err != nil {
			return out + "\n" + fails(err)
		}
		report := *g.report
		report.Cursor = dataset.Cursor{} // its position counts stored rows
		out += fmt.Sprintf("\n%s\n%s", g.schema, jsontext.Of(report))
	}
	return out
}

// plain replaces what identifies plans and tables, which is a hash of everything.
func plain(text string) string {
	return regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{16,64}"|plan [0-9a-f]{32}`).ReplaceAllString(text, "ID")
}

// TestNoCallRevealsWithheldColumnsAndRows: a client gets the same answers as if the columns and rows that it may not read did not
// exist, whichever way it asks, and although another client has read everything before, so that plans and build sides of all rows
// are in memory.
//
// spec: access-14, access-15, access-16, access-17
func TestNoCallRevealsWithheldColumnsAndRows(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]people{"columns": {}, "columns and rows": {filtered: true}, "computed rows": {filtered: true, computed: true}} {
		without, _ := of.server(t, Options{})
		of.emails, of.foreign = true, of.filtered
		whole, _ := of.server(t, Options{})
		for _, way := range ways() {
			if strings.HasPrefix(way, "{") {
				whole.answer(alice(t), t, way)
			}
			got, want := plain(whole.answer(bob(t), t, way)), plain(without.answer(bob(t), t, way))
			require.Equal(t, want, got, "%s: %s", name, way)
			require.NotRegexp(t, `\be\d+\b`, got, way)
		}
		require.Contains(t, whole.answer(bob(t), t, `{"dataset": "people", "endpoints": "splits"}`), "splits would show more")
		require.NotContains(t, whole.answer(bob(t), t, `{"dataset": "people"}`), "US")
		require.Contains(t, whole.answer(alice(t), t, `{"dataset": "people"}`), "e12", "alice reads everything")
	}
}
