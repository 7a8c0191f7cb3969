package stream_test

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan/explain"
)

// grouped returns a case of two staging tables: one joined by the key of requests, one
// by the item.
func grouped() *scenario.Case {
	keys := func(training, staging string) []dataset.KeyPair {
		return []dataset.KeyPair{{Training: training, Staging: staging}}
	}
	return &scenario.Case{
		Name: "d", ScanRows: 2, Layouts: scenario.Coverage{},
		Training: scenario.Table{
			Name: "ml.train", Header: "request_id:long item:long! user:string score:float", Specs: []string{"bucket(1,request_id)"},
			Commits: []scenario.Commit{{Lines: []string{
				"1 10 u1 0.5", "1 11 u1 -", "1 12 u1 1.5", "2 10 - 2.5", "- 11 u3 3.5", "- 11 u4 4.5", "3 13 u5 -",
			}}},
		},
		Staging: []scenario.Table{
			{Name: "f.history", Header: "req:long pins:list<long> country:string", Specs: []string{"bucket(1,req)"}, Commits: []scenario.Commit{{Lines: []string{"1 [7,8] at", "2 - ch"}}}},
			{Name: "f.items", Header: "id:long price:long", Specs: []string{"bucket(1,id)"}, Commits: []scenario.Commit{{Lines: []string{"10 100", "11 110", "12 -"}}}},
		},
		Dataset: dataset.Dataset{
			Name: "d", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.train", RequestLevel: []string{"user"}},
			Staging: []dataset.Staging{
				{Table: "f.history", Name: "history", Key: keys("request_id", "req"), Join: rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError},
				{Table: "f.items", Name: "items", Key: keys("item", "id"), Join: rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError},
			},
		},
		Query: dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 1}, Reading: dataset.Reading{BatchRequests: 2, Wire: dataset.WireGrouped}},
	}
}

// asSent reads the first shard of a query and returns the values of its batches as
// sent.
func asSent(t *testing.T, l *loader.Loader, q dataset.Query) (scenario.Shard, error) {
	t.Helper()
	q.Shard = dataset.Shard{Of: 1}
	p, err := l.Plan(t.Context(), q)
	require.NoError(t, err)
	s, err := l.Open(t.Context(), p, loader.StreamOptions{})
	require.NoError(t, err)
	defer s.Release()
	out := scenario.Shard{Schema: s.Schema()}
	for s.Next() {
		out.Batches = append(out.Batches, scenario.Values(s.RecordBatch()))
	}
	out.Report = s.Report()
	return out, s.Err()
}

// TestGrouped checks that each request is one row, with the values that it has once as
// scalars and the others as lists.
//
// spec: wire-34, wire-35, wire-36, wire-38
func TestGrouped(t *testing.T) {
	t.Parallel()
	c := grouped()
	m := loadertest.Made(t, c)
	q := c.Query
	q.Dense = []dataset.Dense{{Name: "packed", Columns: []dataset.Column{{Column: "price"}, {Column: "score"}}, Fill: new(float32(-1))}}
	sent, err := asSent(t, m.Loader(), q)
	require.NoError(t, err)
	item := func(dt arrow.DataType, null bool) arrow.DataType {
		return arrow.ListOfField(arrow.Field{Name: "element", Type: dt, Nullable: null})
	}
	require.Equal(t, arrow.NewSchema([]arrow.Field{
		{Name: "request_id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "item", Type: item(arrow.PrimitiveTypes.Int64, false)},
		{Name: "user", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "packed", Type: item(arrow.FixedSizeListOfField(2, arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32}), false)},
		{Name: "pins", Type: item(arrow.PrimitiveTypes.Int64, true), Nullable: true},
		{Name: "country", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil).String(), sent.Schema.String())
	list := func(values ...any) []any { return values }
	require.Equal(t, [][][]any{{
		{int64(1), list(int64(10), int64(11), int64(12)), "u1", list(list(100., 0.5), list(110., -1.), list(-1., 1.5)), list(int64(7), int64(8)), "at"},
		{int64(2), list(int64(10)), nil, list(list(100., 2.5)), nil, "ch"},
	}, {
		{int64(3), list(int64(13)), "u5", list(list(-1., -1.)), nil, nil},
		{nil, list(int64(11)), "u3", list(list(110., 3.5)), nil, nil}, // the null bucket comes last
	}, {
		{nil, list(int64(11)), "u4", list(list(110., 4.5)), nil, nil},
	}}, sent.Batches)
	require.EqualValues(t, 7, sent.Report.Rows)
	require.EqualValues(t, 5, sent.Report.Requests)

	q.Cursor = dataset.Cursors{sent.Report.Cursor}
	rest, err := asSent(t, m.Loader(), q)
	require.NoError(t, err)
	require.Empty(t, rest.Batches)
	p, err := m.Loader().Plan(t.Context(), q)
	require.NoError(t, err)
	require.Contains(t, explain.Text(p.Plan, dataset.Query{}, nil), "  request-level user, constant in rows with equal request_id\n")
	require.Contains(t, explain.Text(p.Plan, dataset.Query{}, nil), "  each gives equal requests in a step: rows that follow each other with equal request_id. No bucket is cut\n")
	q.BatchRequests, q.Cursor = 0, nil
	_, err = m.Loader().Plan(t.Context(), q)
	require.ErrorContains(t, err, "wire: grouped sends one row per request")
}

// TestColumnsThatRequestsHaveOnce checks that columns are lists if rows of one request may
// match different staging rows.
//
// spec: wire-35
func TestColumnsThatRequestsHaveOnce(t *testing.T) {
	t.Parallel()
	country := func(change func(c *scenario.Case)) string {
		c := grouped()
		change(c)
		m := loadertest.Made(t, c)
		p, err := m.Loader().Plan(t.Context(), c.Query)
		require.NoError(t, err)
		schema, err := p.Schema(c.Query.Selection(), dataset.WireGrouped)
		require.NoError(t, err)
		f, _ := schema.FieldsByName("country")
		return f[0].Type.String()
	}
	require.Equal(t, "utf8", country(func(*scenario.Case) {}))
	require.Equal(t, "list<element: utf8, nullable>", country(func(c *scenario.Case) { c.Dataset.Staging[0].Duplicates = rule.DuplicatesAll }))
	require.Equal(t, "list<element: utf8, nullable>", country(func(c *scenario.Case) { c.Dataset.Staging[0].Key[0].Training = "item" }))
	require.Equal(t, "list<element: utf8, nullable>", country(func(c *scenario.Case) {
		c.Dataset.Staging[0].PointInTime = &dataset.PointInTime{Training: "item", Staging: "at", Tolerance: dataset.Lag{Count: 1 << 40}, Exact: true}
		c.Staging[0].Header = "req:long at:long country:string"
		c.Staging[0].Commits[0].Lines = []string{"1 3 at"}
	}))
	c := grouped()
	c.Query.Dense = []dataset.Dense{{Name: "both", Columns: []dataset.Column{{Column: "request_id"}, {Column: "item"}}}, {Name: "one", Columns: []dataset.Column{{Column: "request_id"}}, Fill: new(float32)}}
	p, err := loadertest.Made(t, c).Loader().Plan(t.Context(), c.Query)
	require.NoError(t, err)
	schema, err := p.Schema(c.Query.Selection(), dataset.WireGrouped)
	require.NoError(t, err)
	for name, lists := range map[string]arrow.Type{"both": arrow.LIST, "one": arrow.FIXED_SIZE_LIST} {
		f, _ := schema.FieldsByName(name)
		require.Equal(t, lists, f[0].Type.ID(), name)
	}
}

// TestRowsOfARequestThatDiffer checks that values sent once per request are compared in
// every row, both the values themselves and those of the matched staging rows.
//
// spec: wire-37
func TestRowsOfARequestThatDiffer(t *testing.T) {
	t.Parallel()
	outcomes := map[bool]int{}
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 80, 400), func(c *scenario.Case) {
		loadertest.Whole(c)
		c.Query.Dense, c.Query.Columns, c.Dataset.Training.RequestLevel = nil, nil, nil
		c.Query.Order, c.Query.Shuffle, c.Query.ShuffleWindow = "", "", 0
		c.Query.Wire, c.Query.Lanes, c.Query.BatchRows, c.Query.BatchRequests = dataset.WirePlain, 1, 0, 1 // a batch is a request
	}) {
		plain, err := scenario.Read(context.Background(), loadertest.Made(t, c).Loader(), c.Query)
		require.NoError(t, err, c.Name)
		for _, name := range []string{"p0", "p1", "p2", "tags", "score", "region"} {
			if overlaid(c, name) {
				continue
			}
			d := c.Clone()
			d.Dataset.Training.RequestLevel = []string{name}
			d.Query.Wire, d.Query.BatchRequests = dataset.WireGrouped, 8
			_, err := scenario.Read(context.Background(), loadertest.Made(t, d).Loader(), d.Query)
			same := constant(plain, append([]string{name}, c.Dataset.Key...))
			outcomes[same]++
			if same {
				require.NoError(t, err, "%s: %s", c.Name, name)
				continue
			}
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %s", c.Name, name)
			require.ErrorContains(t, err, "is sent once for a request, but the rows of request "+c.Dataset.Key[0]+" = ")
		}
	}
	require.Greater(t, outcomes[true], 10/share)
	require.Greater(t, outcomes[false], 10/share)

	c := grouped()
	c.Dataset.Training.RequestLevel = []string{"user"}
	c.Training.Commits[0].Lines[0] = "1 10 u2 0.5"                                      // read with the second row, but not with the third
	c.Dataset.Staging[0].Key[0] = dataset.KeyPair{Training: "user", Staging: "country"} // its column is not requested
	c.Staging[0].Commits[0].Lines = []string{"1 [7,8] u1"}
	c.Query.Columns = []dataset.Column{{Column: "item"}, {Column: "pins"}}
	_, err := asSent(t, loadertest.Made(t, c).Loader(), c.Query)
	require.ErrorContains(t, err, "column pins is sent once for a request, but the rows of request request_id = 1 have different values")
	require.Contains(t, fault.As(err).Remedy, "remove the columns that are not constant")
}
