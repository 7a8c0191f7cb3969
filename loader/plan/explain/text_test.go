package explain_test

import (
	"flag"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/plan/explain"
	"github.com/penstock/penstock/loader/plan/plantest"
)

var rewrite = flag.Bool("rewrite", false, "write the explain texts into testdata; review the diff")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name + ".txt"
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run with -rewrite and review the diff")
}

// TestExplainOfMixedSpecs checks the text of a table of several specs, and of one that
// names every rule.
func TestExplainOfMixedSpecs(t *testing.T) {
	t.Parallel()
	tables, files := plantest.Mixed()
	three := &dataset.Sample{Hash: &dataset.HashRange{From: 0.25, To: 1}, Rate: 1} // quarters: bucket 0 of 4, and 0 and 4 of 8, are pruned
	p, err := plantest.Joined(plantest.Homefeed(plantest.Entry()), tables, files, dataset.Query{Rows: dataset.Rows{Lanes: 2, Sample: three}})
	require.NoError(t, err)
	golden(t, "mixed", explain.Text(p, dataset.Query{}, nil))
}

// TestExplainOfRules checks the text of a plan with most rules at once.
func TestExplainOfRules(t *testing.T) {
	t.Parallel()
	tables, files := plantest.Days([]int64{1, 2, 3, 5}, []int64{1, 3})
	e := plantest.Entry()
	e.Align = &dataset.Align{Training: "day", Staging: "day", Rule: dataset.AlignLatestBefore}
	e.Join, e.Nulls, e.Columns = rule.Overlay, rule.NullsKeep, []dataset.Column{{Column: "age", Name: "score"}, {Column: "age", Name: "fresh"}}
	e.Duplicates, e.OrderBy, e.MinMatch = rule.DuplicatesLast, []dataset.OrderBy{{Column: "day", Descending: true}}, 0.5
	e.Strategy = rule.StrategyMerge
	d := plantest.Homefeed(e)
	tables[0].Fields = append(tables[0].Fields, catalog.Field{ID: 3, Name: "score", Type: arrow.PrimitiveTypes.Int32})
	d.Training.Distinct = &dataset.Distinct{By: []string{"request_id"}, Scope: dataset.ScopePartition}
	p, err := plantest.Joined(d, tables, files, dataset.Query{
		Rows: dataset.Rows{Filter: datasettest.Filter("score > 3 AND fresh IS NOT NULL AND day > 0 AND (day = 1 OR score < 9)"), Sample: &dataset.Sample{Hash: &dataset.HashRange{To: 0.5}, Rate: 1}},
	})
	require.NoError(t, err)
	golden(t, "rules", explain.Text(p, dataset.Query{}, nil))
}
