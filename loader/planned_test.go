package loader_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
)

// late creates a table with a required column that was added after its rows were
// written.
func late(t *testing.T, w *scenario.World, name string) {
	t.Helper()
	loadertest.Rows(name, "id:long "+name[3:]+"_v:long", "bucket(2,id)", 6, func(int) string { return "1 2" }).In(t, w)
	fields, err := scenario.Fields("id:long " + name[3:] + "_v:long " + name[3:] + "_new:long")
	require.NoError(t, err)
	fields[2].Required = true
	_, err = w.Alter(name, fields)
	require.NoError(t, err)
}

// TestColumnsThatOnlyARuleReads checks that the catalog is asked about every column
// that is read, even if no output contains it.
//
// spec: resolve-73
func TestColumnsThatOnlyARuleReads(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	late(t, w, "ml.t")
	late(t, w, "ml.s")
	for name, c := range map[string]struct {
		change func(d *dataset.Dataset, s *dataset.Staging, q *dataset.Query)
		column string // the column that is refused; "" if none is
	}{
		"nothing": {func(*dataset.Dataset, *dataset.Staging, *dataset.Query) {}, ""},
		"the query's filter": {func(_ *dataset.Dataset, _ *dataset.Staging, q *dataset.Query) {
			q.Filter = datasettest.Filter("t_new = 1")
		}, "t_new"},
		"its filter after the joins": {func(_ *dataset.Dataset, _ *dataset.Staging, q *dataset.Query) {
			q.Filter = datasettest.Filter("s_new IS NULL")
		}, "s_new"},
		"a condition over both tables": {func(_ *dataset.Dataset, _ *dataset.Staging, q *dataset.Query) {
			q.Filter = datasettest.Filter("t_new = 1 OR s_v = 2")
		}, "t_new"},
		"sample.where": {func(_ *dataset.Dataset, _ *dataset.Staging, q *dataset.Query) {
			q.Sample = &dataset.Sample{Rate: 0.5, Where: datasettest.Filter("t_new = 1")}
		}, "t_new"},
		"the training table's filter": {func(d *dataset.Dataset, _ *dataset.Staging, _ *dataset.Query) {
			d.Training.Filter = datasettest.Filter("t_new = 1")
		}, "t_new"},
		"a staging table's filter": {func(_ *dataset.Dataset, s *dataset.Staging, _ *dataset.Query) {
			s.Filter = datasettest.Filter("s_new = 1")
		}, "s_new"},
		"order_by": {func(_ *dataset.Dataset, s *dataset.Staging, _ *dataset.Query) {
			s.OrderBy = []dataset.OrderBy{{Column: "s_new"}}
		}, "s_new"},
		"a key": {func(_ *dataset.Dataset, s *dataset.Staging, q *dataset.Query) {
			q.Columns, s.Join = q.Columns[:1], rule.Inner
			s.Key = []dataset.KeyPair{{Training: "id", Staging: "id"}, {Training: "t_new", Staging: "s_v"}}
		}, "t_new"},
		"a key of an entry of which no value is asked for": {func(_ *dataset.Dataset, s *dataset.Staging, q *dataset.Query) {
			q.Columns = q.Columns[:1]
			s.Key = []dataset.KeyPair{{Training: "id", Staging: "id"}, {Training: "t_new", Staging: "s_v"}}
		}, ""},
		"distinct": {func(d *dataset.Dataset, _ *dataset.Staging, _ *dataset.Query) {
			d.Training.Distinct = &dataset.Distinct{By: []string{"id"}, OrderBy: []dataset.OrderBy{{Column: "t_new"}}}
		}, "t_new"},
		"an overlay": {func(_ *dataset.Dataset, s *dataset.Staging, q *dataset.Query) {
			s.Join, s.Columns = rule.Overlay, []dataset.Column{{Column: "s_new", Name: "t_v"}}
			q.Columns = []dataset.Column{{Column: "t_v"}}
		}, "s_new"},
		"a time": {func(_ *dataset.Dataset, s *dataset.Staging, _ *dataset.Query) {
			s.PointInTime = &dataset.PointInTime{Training: "t_v", Staging: "s_new", Tolerance: dataset.Lag{Count: 5}}
		}, "s_new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.t"}}
			s := dataset.Staging{Table: "ml.s", Duplicates: rule.DuplicatesFirst}
			q := loadertest.OneShard(1, 8)
			q.Columns = []dataset.Column{{Column: "id"}, {Column: "s_v"}}
			c.change(&d, &s, &q)
			d.Staging = []dataset.Staging{s}
			l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
			_, err := l.Plan(t.Context(), q)
			if c.column == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, fault.Corrupt, fault.KindOf(err))
			require.ErrorContains(t, err, `was written before column "`+c.column+`"`)
		})
	}
}

// TestOpenReadsPlannedColumnsAlone checks that a plan covers only the columns that it
// was made for.
//
// spec: resolve-43
func TestOpenReadsPlannedColumnsAlone(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	late(t, w, "ml.t")
	late(t, w, "ml.s")
	d := dataset.Dataset{
		Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.t"},
		Staging: []dataset.Staging{{Table: "ml.s", Duplicates: rule.DuplicatesFirst}},
	}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	q := loadertest.OneShard(1, 8)
	q.Columns = []dataset.Column{{Column: "id"}, {Column: "s_v"}}
	p, err := l.Plan(t.Context(), q)
	require.NoError(t, err)
	for _, column := range []string{"t_new", "s_new"} {
		more := p
		more.Outputs, err = p.Relation.Choose(dataset.Selection{Columns: []dataset.Column{{Column: "id"}, {Column: column}}})
		require.NoError(t, err)
		_, err = l.Open(t.Context(), more, loader.StreamOptions{})
		require.Equal(t, fault.Internal, fault.KindOf(err))
		require.ErrorContains(t, err, "column "+column+" of table")
	}
}
