package flight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
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
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/policy"
)

// people is a world with secrets: a column email in both tables, and rows of other countries than DE.
type people struct {
	emails  bool // whether the tables have the column
	foreign bool // whether they have the rows
	// filtered: bob gets only the other rows. In any case, he does not get the column note, which the table always has.
	filtered bool
	computed bool // whether the filters are computed
}

// world makes the tables, and the datasets people, of both, and secret, of a table that has no rule.
func (p people) world(t testing.TB) *world {
	t.Helper()
	w := &world{World: scenario.NewWorld(), budget: budget.New(8 << 20), tables: map[string]*catalog.Table{}}
	t.Cleanup(w.Release)
	header, email := "request_id:string item:long! country:string note:string", func(int) string { return "" }
	profile := "req:string country:string"
	if p.emails {
		header, profile = header+" email:string", profile+" email:string"
		email = func(i int) string { return fmt.Sprintf(" e%d", i%13) }
	}
	var rows, profiles []string
	for i := range 300 {
		country := "DE"
		if i%3 > 0 {
			country = "US"
		}
		if i%3 == 0 || p.foreign {
			rows = append(rows, fmt.Sprintf("r%d %d %s n%s", i%50, i, country, email(i)))
		}
		if i < 50 {
			if i%5 > 0 || p.foreign {
				profiles = append(profiles, fmt.Sprintf("r%d %s%s", i, map[bool]string{true: "DE", false: "US"}[i%5 > 0], email(i)))
			}
		}
	}
	w.table(t, "ml.people", header, "bucket(4,request_id)", rows)
	w.table(t, "features.profiles", profile, "bucket(4,req)", profiles)
	w.table(t, "hr.salaries", "request_id:string pay:long", "", []string{"r1 100"})
	w.datasets = []dataset.Dataset{
		{
			Name: "people", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.people"},
			Staging: []dataset.Staging{{
				Table: "features.profiles", Name: "profiles", Key: []dataset.KeyPair{{Training: "request_id", Staging: "req"}}, Prefix: "p_",
				Join: rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError,
			}},
		},
		{Name: "secret", Key: []string{"request_id"}, Training: dataset.Training{Table: "hr.salaries"}},
	}
	return w
}

// limited is the policy by which bob reads what is no secret, and alice everything.
func (p people) limited() *policy.Policy {
	tables := []policy.TableLimits{{Name: "ml.people", Withheld: []string{"note"}}, {Name: "features.profiles"}}
	for i := range tables {
		if p.emails {
			tables[i].Withheld = append(tables[i].Withheld, "email")
		}
		if p.filtered {
			tables[i].Filter = datasettest.Filter("country = 'DE'")
		}
		if p.filtered && p.computed {
			tables[i].Filter = datasettest.Filter("lower(country) = 'de'")
		}
	}
	return &policy.Policy{Rules: []policy.AccessRule{
		{Subjects: []string{"bob"}, Read: []string{"people"}, Inline: []string{"ml.*", "features.*"}, Allow: policy.Actions(), Tables: tables},
		{Subjects: []string{"alice"}, Read: []string{"*"}, Inline: []string{"*"}, Allow: policy.Actions()},
		{Subjects: []string{"carol"}, Read: []string{"secret"}},
	}}
}

// server serves the world by the policy, with caches of plans, kept build sides and shared streams.
func (p people) server(t testing.TB, options Options) (*served, *world) {
	t.Helper()
	w := p.world(t)
	plans, err := loader.NewPlans(1 << 20)
	require.NoError(t, err)
	t.Cleanup(plans.Close)
	l := loader.New(loader.Options{
		Datasets: w.datasets, Catalog: w.World, Scan: w.Scan, Budget: w.budget, Memory: batch.NewAllocator(), Plans: plans, KeepBuildSides: 1 << 20,
	})
	options.Loader, options.Verifier, options.Authenticate = fanout.New(fanout.Options{Window: 1 << 20, Budget: w.budget}).Over(l), l, known
	options.Observer.StreamEnded = func(StreamEnd) {} // more than the kit has room for
	if options.Policy == nil {
		options.Policy = p.limited
	}
	return serve(t, options), w
}

// alice, bob and carol are the contexts of their calls.
func alice(t testing.TB) context.Context { return as(t.Context(), "Bearer a") }
func bob(t testing.TB) context.Context   { return as(t.Context(), "Bearer b") }
func carol(t testing.TB) context.Context { return as(t.Context(), "Bearer d") }

// inlinePeople is the dataset people as a client sends it, with more in its fields.
func inlinePeople(training, staging string) string {
	return fmt.Sprintf(`{"dataset": {"training": {"table": "ml.people"%s}, "key": ["request_id"], "staging": [{"table": "features.profiles", "name": "profiles", "prefix": "p_"%s}]}`,
		training, staging)
}

// withPeople is the dataset people with another entry of its staging table.
func withPeople(entry, more string) string {
	return fmt.Sprintf(`{"dataset": "people", "with": [{"table": "features.profiles", "name": "again", "prefix": "a_", %s}]%s}`, entry, more)
}

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

// answer returns everything that one of the ways tells, as text.
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

// TestNoWayTellsOfWithheldColumnsAndRows: a client gets the same answers as if the columns and rows that it may not read did not
// exist, whichever way it asks, and although another client has read everything before, so that plans and build sides of all rows
// are in memory.
//
// spec: access-14, access-15, access-16, access-17
func TestNoWayTellsOfWithheldColumnsAndRows(t *testing.T) {
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
