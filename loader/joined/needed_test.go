package joined_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
)

// plainly makes a case read all columns of all rows on the plain wire, in batches whose size no
// column affects.
func plainly(c *scenario.Case) {
	loadertest.Whole(c)
	q := &c.Query
	q.BatchRows, q.Wire, q.Columns, q.Dense = max(4, q.BatchRows), dataset.WirePlain, nil, nil
	q.BatchRows -= q.BatchRows % max(1, q.Lanes)
	if q.BatchRows == 0 {
		q.BatchRows = max(1, q.Lanes)
	}
	c.Drops, c.Workers, q.Tail, q.Every = false, 0, "", dataset.Every{}
}

// someColumns draws columns of a row, in their order.
func someColumns(r *rand.Rand, names []string) []dataset.Column {
	var columns []dataset.Column
	drawn := r.Perm(len(names))[:1+r.IntN(min(3, len(names)))]
	slices.Sort(drawn)
	for _, at := range drawn {
		columns = append(columns, dataset.Column{Column: names[at]})
	}
	return columns
}

// columnsOf returns columns of rows, by name.
func columnsOf(names []string, rows [][]any, columns []dataset.Column) []string {
	var picked [][]any
	for _, row := range rows {
		var values []any
		for _, c := range columns {
			values = append(values, row[slices.Index(names, c.Column)])
		}
		picked = append(picked, values)
	}
	return scenario.Texts(picked)
}

// TestAnyColumnsGiveTheSameRows reads random columns of random cases, with every rule. Their rows,
// order and cursors are those of all columns, and a stream of them resumes where another one of
// other columns has stopped. Left and overlay entries refuse duplicate keys: the oracle decides
// for which columns a stream fails.
//
// spec: resolve-87, resolve-88
func TestAnyColumnsGiveTheSameRows(t *testing.T) {
	t.Parallel()
	unread, failed := 0, 0
	for number, c := range loadertest.Generated(t, loadertest.Cases(share, 24, 400), plainly) {
		r := rand.New(rand.NewPCG(uint64(number), 34))
		all := readShards(t, c)
		var names []string
		for _, f := range all[0].Schema.Fields() {
			names = append(names, f.Name)
		}
		strict := c.Clone()
		for i := range strict.Dataset.Staging {
			if s := &strict.Dataset.Staging[i]; s.Join.KeepsAll() && s.Join.Adds() && !s.Duplicates.Multiply() {
				s.Duplicates, s.OrderBy = rule.DuplicatesError, nil
			}
		}
		for range 4 {
			strict.Query.Columns = someColumns(r, names)
			want := strict.Expect(loadertest.Made(t, strict).World)
			if want.Fails != "" {
				failed++
				continue // TestOracle compares errors
			}
			if unread += len(want.Unread); len(want.Unread) == 0 {
				continue
			}
			some := readShards(t, strict)
			require.Len(t, some, len(all), c.Name)
			for i := range some {
				require.Equal(t, columnsOf(names, all[i].Rows(), strict.Query.Columns), scenario.Texts(some[i].Rows()), "%s: %v", c.Name, strict.Query.Columns)
				require.Equal(t, all[i].Cursors, some[i].Cursors, c.Name)
				require.Equal(t, want.Unread, some[i].Report.Unread, c.Name)
			}
			goOn(t, strict, names, all)
		}
	}
	require.Positive(t, unread)
	require.Positive(t, failed)
}

// readShards reads a case.
func readShards(t *testing.T, c *scenario.Case) []scenario.Shard {
	t.Helper()
	shards, err := scenario.Read(t.Context(), loadertest.Made(t, c).Loader(), c.Query)
	require.NoError(t, err, c.Name)
	require.NotEmpty(t, shards)
	return shards
}

// goOn resumes a case, with its columns, in the middle of streams of all columns.
func goOn(t *testing.T, c *scenario.Case, names []string, all []scenario.Shard) {
	t.Helper()
	step := len(all[0].Cursors) / 2
	if step == 0 || slices.ContainsFunc(all, func(s scenario.Shard) bool { return len(s.Cursors) < step }) {
		return
	}
	resumed := c.Clone()
	resumed.Query.Cursor = nil
	for _, s := range all {
		resumed.Query.Cursor = append(resumed.Query.Cursor, s.Cursors[step-1])
	}
	for i, s := range readShards(t, resumed) {
		var rest [][]any
		for _, b := range all[i].Batches[step:] {
			rest = append(rest, b...)
		}
		require.Equal(t, columnsOf(names, rest, c.Query.Columns), scenario.Texts(s.Rows()), "%s from step %d: %v", c.Name, step, c.Query.Columns)
	}
}

// repeated returns a case with two left entries, both of which have duplicate keys and refuse them.
// A key is missing in both.
func repeated(t *testing.T) *scenario.Made {
	t.Helper()
	c := &scenario.Case{
		Name: "d", Dataset: dataset.Dataset{Name: "d", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.train"}},
		Training: scenario.Table{
			Name: "ml.train", Header: "request_id:long item:long! score:float tags:string", Specs: []string{"bucket(4,request_id)"},
			Commits: []scenario.Commit{{Lines: []string{"1 1 0.5 a", "2 2 0.5 b", "1 3 0.5 c", "3 4 0.5 d"}}},
		},
	}
	for _, name := range []string{"s0", "s1"} {
		c.Staging = append(c.Staging, scenario.Table{
			Name: "features." + name, Header: "req:long " + name + "_u:long " + name + "_tags:string", Specs: []string{"bucket(2,req)"},
			Commits: []scenario.Commit{{Lines: []string{"1 10 x", "1 11 y", "2 20 z"}}},
		})
		c.Dataset.Staging = append(c.Dataset.Staging, dataset.Staging{
			Table: "features." + name, Name: name, Key: []dataset.KeyPair{{Training: "request_id", Staging: "req"}},
			Join: rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError,
		})
	}
	return loadertest.Made(t, c)
}

// TestDuplicateKeysOfUnreadEntries has duplicate keys in two entries that refuse them. Which values
// a query asks for decides whether its stream fails; joins that drop rows are read, and keep
// each row once.
//
// spec: resolve-16, resolve-87, join-14, join-106
func TestDuplicateKeysOfUnreadEntries(t *testing.T) {
	t.Parallel()
	c := repeated(t)
	strict := c.Dataset.Staging
	change := func(change func(*dataset.Staging)) []dataset.Staging {
		all := slices.Clone(strict)
		change(&all[1])
		return all
	}
	for name, test := range map[string]struct {
		staging []dataset.Staging
		columns []string
		filter  string
		fails   string
		unread  []string
	}{
		"training columns":         {columns: []string{"item"}, unread: []string{"s0", "s1"}},
		"its key":                  {columns: []string{"request_id"}, unread: []string{"s0", "s1"}},
		"a column":                 {columns: []string{"s1_u"}, fails: "several rows of s1"},
		"a column for a filter":    {columns: []string{"item"}, filter: "s1_u > 0 OR s1_u IS NULL", fails: "several rows of s1"},
		"whether rows match":       {staging: change(func(s *dataset.Staging) { s.MatchedAs = "found" }), columns: []string{"found"}, fails: "several rows of s1"},
		"not whether rows match":   {staging: change(func(s *dataset.Staging) { s.MatchedAs = "found" }), columns: []string{"item"}, unread: []string{"s0", "s1"}},
		"an inner join":            {staging: change(func(s *dataset.Staging) { s.Join = rule.Inner }), columns: []string{"item"}, unread: []string{"s0"}},
		"a column of an inner one": {staging: change(func(s *dataset.Staging) { s.Join = rule.Inner }), columns: []string{"s1_u"}, fails: "several rows of s1"},
		"a minimum of matches":     {staging: change(func(s *dataset.Staging) { s.MinMatch = 0.01 }), columns: []string{"item"}, unread: []string{"s0"}},
		"a missing key":            {staging: change(func(s *dataset.Staging) { s.Missing = rule.MissingError }), columns: []string{"item"}, fails: "s1"},
		"a repeated row":           {staging: change(func(s *dataset.Staging) { s.Duplicates = rule.DuplicatesAll }), columns: []string{"item"}, unread: []string{"s0"}},
		"a column that it overlays": {
			staging: change(func(s *dataset.Staging) {
				s.Join, s.Columns = rule.Overlay, []dataset.Column{{Column: "s1_tags", Name: "tags"}}
			}),
			columns: []string{"tags"}, fails: "several rows of s1",
		},
		"a column that it does not overlay": {
			staging: change(func(s *dataset.Staging) {
				s.Join, s.Columns = rule.Overlay, []dataset.Column{{Column: "s1_tags", Name: "tags"}}
			}),
			columns: []string{"item", "score"}, unread: []string{"s0", "s1"},
		},
	} {
		c.Dataset.Staging = strict
		if test.staging != nil {
			c.Dataset.Staging = test.staging
		}
		q := loadertest.OneShard(1, 8)
		for _, name := range test.columns {
			q.Columns = append(q.Columns, dataset.Column{Column: name})
		}
		if test.filter != "" {
			q.Filter = datasettest.Filter(test.filter)
		}
		shards, err := scenario.Read(t.Context(), c.Loader(), q)
		if test.fails != "" {
			require.Equal(t, fault.Invalid, fault.KindOf(err), name)
			require.ErrorContains(t, err, test.fails, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, test.unread, shards[0].Report.Unread, name)
		for _, entry := range test.unread {
			require.NotContains(t, shards[0].Report.Staging, entry, name)
		}
	}
}

// TestVerifyJudgesUnreadEntries verifies a query that asks for no staging column: duplicate keys
// are found all the same.
//
// spec: join-107
func TestVerifyJudgesUnreadEntries(t *testing.T) {
	t.Parallel()
	c := repeated(t)
	q := loadertest.OneShard(1, 8)
	q.Columns = []dataset.Column{{Column: "item"}}
	for _, missing := range []rule.Missing{rule.MissingNull, rule.MissingError} {
		c.Dataset.Staging[0].Missing = missing
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan, Budget: budget.New(loadertest.Plenty)})
		found, err := l.Verify(t.Context(), loader.PlanRequest{Query: q}, nil)
		require.NoError(t, err)
		var kinds []string
		for _, f := range found.Findings {
			kinds = append(kinds, f.Table+" "+string(f.Kind))
		}
		require.Contains(t, kinds, "s0 duplicates")
		require.Contains(t, kinds, "s1 duplicates")
		require.Equal(t, missing.Fail(), slices.Contains(kinds, "s0 missing"), strings.Join(kinds, ", "))
	}
}
