package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/plantest"
	"github.com/penstock/penstock/loader/resolve"
)

// TestReads checks that the catalog is asked about everything that is read, and for the
// value ranges of columns in filters of all tables, of keys that no bucket narrows, and
// of times.
func TestReads(t *testing.T) {
	t.Parallel()
	tables, _ := plantest.Mixed()
	e := plantest.Entry()
	e.Filter = datasettest.Filter("age > 1")
	bind := func(q dataset.Query) (*plan.Bound, error) {
		r, err := resolve.Bind(plantest.Homefeed(e).Defaults(), tables[0], tables[1:])
		require.NoError(t, err)
		return plan.Bind(r, q.Rows)
	}
	b, err := bind(dataset.Query{Rows: dataset.Rows{Filter: datasettest.Filter("day = 1 AND age = 2")}})
	require.NoError(t, err)
	require.Equal(t, plan.Columns{Training: []int{1, 2}, Staging: [][]int{{1, 3}}}, b.ValueRanges())
	_, err = bind(dataset.Query{Rows: dataset.Rows{Filter: datasettest.Filter("dya = 1")}})
	require.ErrorContains(t, err, `did you mean "day"?`)
	e.PointInTime = &dataset.PointInTime{Training: "day", Staging: "day", Tolerance: dataset.Lag{Count: 24}}
	for strategy, want := range map[rule.Strategy]plan.Columns{
		rule.StrategyAuto:      {Training: []int{1, 2}, Staging: [][]int{{1, 2, 3}}},
		rule.StrategyBroadcast: {Training: []int{}, Staging: [][]int{{3}}},
	} {
		e.Strategy = strategy
		b, err = bind(dataset.Query{})
		require.NoError(t, err)
		require.ElementsMatch(t, want.Training, b.ValueRanges().Training, strategy)
		require.Equal(t, want.Staging, b.ValueRanges().Staging, strategy)
	}
	e = plantest.Entry()
	for query, want := range map[*dataset.Query]plan.Columns{
		{}: {Training: []int{1}, Staging: [][]int{nil}},
		{Rows: dataset.Rows{Filter: datasettest.Filter("day = 1")}}:                                    {Training: []int{1, 2}, Staging: [][]int{nil}},
		{Rows: dataset.Rows{Filter: datasettest.Filter("age = 1")}}:                                    {Training: []int{1}, Staging: [][]int{{1, 3}}},
		{Rows: dataset.Rows{Filter: datasettest.Filter("day = 1 OR age = 1")}}:                         {Training: []int{1, 2}, Staging: [][]int{{1, 3}}},
		{Rows: dataset.Rows{Sample: &dataset.Sample{Rate: 0.5, Where: datasettest.Filter("day = 1")}}}: {Training: []int{1, 2}, Staging: [][]int{nil}},
	} {
		b, err = bind(*query)
		require.NoError(t, err)
		require.Equal(t, want, b.Reads(nil), "%+v", query)
		outputs, err := b.Relation.Select([]dataset.Column{{Column: "day"}, {Column: "age"}})
		require.NoError(t, err)
		require.Equal(t, plan.Columns{Training: []int{1, 2}, Staging: [][]int{{1, 3}}}, b.Reads(outputs))
	}
}
