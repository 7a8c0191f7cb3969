package plan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/plantest"
	"github.com/penstock/penstock/loader/resolve"
)

// TestDaysAreOneRun permutes a table of twenty days with and without buckets. The days of a lane are one run for each bucket,
// and one run without buckets, so that each window has rows of many days.
//
// spec: order-22
func TestDaysAreOneRun(t *testing.T) {
	t.Parallel()
	const days, rows, window = 20, 1000, 5000
	for _, n := range []int{0, 1, 4} {
		table := plantest.Training(max(n, 1))
		if n == 0 {
			table.Specs[0] = table.Specs[0][:1]
		}
		for _, lanes := range []int{1, 4} {
			var files []catalog.File
			for day := range int64(days) {
				for b := range max(n, 1) {
					f := plantest.File(fmt.Sprint("f", day, " ", b), day, int64(b), rows, day)
					f.Partition = f.Partition[:len(table.Specs[0])]
					files = append(files, f)
				}
			}
			p := build(t, table, files, dataset.Query{Rows: dataset.Rows{
				Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, ShuffleWindow: window, Lanes: lanes, Seed: 7,
			}})
			for lane := range lanes {
				runs := p.Runs(lane)
				require.Len(t, runs, max(n/lanes, 1), "%d buckets, lane %d of %d", n, lane, lanes)
				for _, run := range runs {
					for w := range run.Windows {
						seen := map[int]bool{}
						for part := range run.Parts {
							for _, s := range run.Sections(part, w)[:1] {
								seen[s.Rows.Split] = true
							}
						}
						require.GreaterOrEqual(t, len(seen), min(run.Ranges(), 4), "window %d", w)
					}
				}
			}
		}
	}
}

// TestRunsOfDistinctRowsAreRanges permutes a table whose repeated rows are dropped: these are found within a range, so a window
// never has rows of two.
//
// spec: order-22
func TestRunsOfDistinctRowsAreRanges(t *testing.T) {
	t.Parallel()
	table := plantest.Training(1)
	var files []catalog.File
	for day := range int64(5) {
		files = append(files, plantest.File(fmt.Sprint("f", day), day, 0, 1000, day))
	}
	d := dataset.Dataset{Name: "d", Key: []string{"request_id"}, Training: dataset.Training{Table: table.Name}}
	d.Training.Distinct = &dataset.Distinct{By: []string{"request_id"}, Scope: dataset.ScopePartition}
	relation, err := resolve.Bind(d, table, nil)
	require.NoError(t, err)
	q := dataset.Query{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, ShuffleWindow: 5000}}
	p, err := plantest.BindAndBuild(relation, plan.Files{Training: plan.Listing{Files: files}}, q.Defaults())
	require.NoError(t, err)
	require.Len(t, p.Runs(0), 5)
}
