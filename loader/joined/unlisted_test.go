package joined_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan/explain"
)

// listingCatalog counts the listings of each table.
type listingCatalog struct {
	catalog.Catalog
	mu     sync.Mutex
	listed map[string]int
}

// Files implements catalog.Catalog.
func (c *listingCatalog) Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error) {
	c.mu.Lock()
	c.listed[t.Name]++
	c.mu.Unlock()
	return c.Catalog.Files(ctx, t, columns, bounds)
}

// take returns the tables that were listed since the last call.
func (c *listingCatalog) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name := range c.listed {
		names = append(names, name)
	}
	clear(c.listed)
	slices.Sort(names)
	return names
}

// TestFilesOfUnreadEntriesAreNotListed plans queries of several columns of one dataset: only the files of tables that their
// streams read are listed. Their plans have the same id and the same state of all tables, and streams of them may share batches.
//
// spec: resolve-88, resolve-118
func TestFilesOfUnreadEntriesAreNotListed(t *testing.T) {
	t.Parallel()
	f := newFeatureFiles(t)
	tables := &listingCatalog{Catalog: f.tables, listed: map[string]int{}}
	every := []string{"ml.train"}
	var all []int
	for i := range featureTables {
		all, every = append(all, i), append(every, fmt.Sprintf("features.f%d", i))
	}
	slices.Sort(every)
	plans, err := loader.NewPlans(1 << 20)
	require.NoError(t, err)
	t.Cleanup(plans.Close)
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{f.dataset(all...)}, Catalog: tables, Plans: plans})
	planned := func(columns ...string) loader.Planned {
		q := loadertest.OneShard(2, 500)
		for _, name := range columns {
			q.Columns = append(q.Columns, dataset.Column{Column: name})
		}
		p, err := l.Plan(t.Context(), q)
		require.NoError(t, err)
		return p
	}
	none := planned("item")
	require.Equal(t, []string{"ml.train"}, tables.take())
	some := planned("item", "v7")
	require.Equal(t, []string{"features.f7", "ml.train"}, tables.take())
	whole := planned()
	require.Equal(t, every, tables.take())
	for _, p := range []loader.Planned{some, whole} {
		require.Equal(t, none.ID, p.ID)
		require.Equal(t, none.TablesID, p.TablesID)
		require.NotEqual(t, none.FilesID, p.FilesID, "a ticket covers what its stream reads")
		require.Equal(t, none.Lanes, p.Lanes)
		require.Equal(t, none.Cursor(), p.Cursor())
		require.Equal(t, none.BatchRows, p.BatchRows)
	}
	require.NotEqual(t, some.FilesID, whole.FilesID)
	for i, s := range some.Staging {
		require.Equal(t, i != 7, s.Unread)
		require.Equal(t, i == 7, len(s.Groups) > 0)
	}
	text := explain.Text(some.Plan, some.Query, nil)
	require.Contains(t, text, "; f7 file group 0, 1 file")
	require.NotContains(t, text, "f8 none")
	require.NotContains(t, text, "f8 file group")
}

// TestUnreadEntriesAreVerified verifies a query of training columns: the files of all tables are listed for it, and its plan is
// not taken for one of a stream, or the other way round.
//
// spec: join-107
func TestUnreadEntriesAreVerified(t *testing.T) {
	t.Parallel()
	c := repeated(t)
	tables := &listingCatalog{Catalog: c.World, listed: map[string]int{}}
	plans, err := loader.NewPlans(1 << 20)
	require.NoError(t, err)
	t.Cleanup(plans.Close)
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: tables, Scan: c.Scan, Budget: budget.New(loadertest.Plenty), Plans: plans})
	q := loadertest.OneShard(1, 8)
	q.Columns = []dataset.Column{{Column: "item"}}
	for range 2 {
		p, err := l.Plan(t.Context(), q)
		require.NoError(t, err)
		require.True(t, p.Staging[1].Unread)
		tables.take()
		found, err := l.Verify(t.Context(), loader.PlanRequest{Query: q}, nil)
		require.NoError(t, err)
		require.Len(t, found.Findings, 2, "%v", found.Findings)
		require.Equal(t, []string{"features.s0", "features.s1", "ml.train"}, tables.take())
	}
}

// TestALayoutIsJudgedWhereItIsRead has an entry whose partitions cannot be aligned with those of the training table. Queries that
// ask for none of its values are planned and read.
//
// spec: resolve-118
func TestALayoutIsJudgedWhereItIsRead(t *testing.T) {
	t.Parallel()
	c := repeated(t)
	c.Dataset.Staging[1].Align = &dataset.Align{Training: "item", Staging: "s1_u", Rule: dataset.AlignSame}
	c.Dataset = c.Dataset.Defaults()
	q := loadertest.OneShard(1, 8)
	q.Columns = []dataset.Column{{Column: "item"}}
	shards, err := scenario.Read(t.Context(), c.Loader(), q)
	require.NoError(t, err)
	require.Len(t, shards[0].Rows(), 4)
	for name, change := range map[string]func(*dataset.Query, *dataset.Staging){
		"a column":       func(q *dataset.Query, _ *dataset.Staging) { q.Columns = []dataset.Column{{Column: "s1_u"}} },
		"a rule":         func(_ *dataset.Query, s *dataset.Staging) { s.Missing = rule.MissingError },
		"an inner join":  func(_ *dataset.Query, s *dataset.Staging) { s.Join = rule.Inner },
		"a filter of it": func(q *dataset.Query, _ *dataset.Staging) { q.Filter = datasettest.Filter("s1_u > 0") },
	} {
		asked, d := q, c.Dataset
		d.Staging = slices.Clone(d.Staging)
		change(&asked, &d.Staging[1])
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: c.World, Scan: c.Scan})
		_, err := l.Plan(t.Context(), asked)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
		require.ErrorContains(t, err, "cannot be aligned", name)
	}
}

// TestUnlistedTablesAreNotJoined opens a stream of columns that its plan was not made for: it fails, and its rows are not taken
// for ones without a match.
func TestUnlistedTablesAreNotJoined(t *testing.T) {
	t.Parallel()
	c := repeated(t)
	l := c.Loader()
	q := loadertest.OneShard(1, 8)
	q.Columns = []dataset.Column{{Column: "item"}}
	p, err := l.Plan(t.Context(), q)
	require.NoError(t, err)
	p.Outputs = p.Relation.Outputs
	s, err := l.Open(t.Context(), p, loader.StreamOptions{})
	if err == nil {
		defer s.Release()
		require.False(t, s.Next())
		err = s.Err()
	}
	require.Equal(t, fault.Internal, fault.KindOf(err))
	require.ErrorContains(t, err, "staging table s0 is read, but planning did not list its files")
}
