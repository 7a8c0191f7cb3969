package plan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/explain"
	"github.com/penstock/penstock/loader/plan/plantest"
	"github.com/penstock/penstock/loader/resolve"
)

// aligned returns the plan of a table of small partitions, and of a staging table that is aligned with them.
func aligned(t *testing.T, partitions int, rows dataset.Rows) *plan.Plan {
	t.Helper()
	table := plantest.Training(1)
	table.Specs[0] = table.Specs[0][:1]
	s := plantest.History(map[int]catalog.Spec{0: {plantest.Partitioned("day", 2, catalog.Identity, 0)}})
	var files plan.Files
	var staging []catalog.File
	for day := range int64(partitions) {
		f := plantest.File(fmt.Sprint("f", day), day, nil, 100+day, day)
		f.Partition = f.Partition[:1]
		files.Training.Files = append(files.Training.Files, f)
		staging = append(staging, plantest.Staged(fmt.Sprint("s", day), 0, 1000, day))
	}
	files.Staging = []plan.Listing{{Files: staging}}
	e := plantest.Entry()
	e.Align = &dataset.Align{Training: "day", Staging: "day", Rule: dataset.AlignSame}
	p, err := plantest.Joined(plantest.Homefeed(e), []*catalog.Table{table, s}, files, dataset.Query{Rows: rows})
	require.NoError(t, err)
	return p
}

// TestGroupsOfSmallPartitionsAreHeldAtOnce: explain counts all file groups that are held at a time: those of a
// window and of the one before it, which may be many more than a run has parts.
func TestGroupsOfSmallPartitionsAreHeldAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		partitions    int
		lanes         int
		window, parts int64
	}{{200, 1, 1 << 17, 8}, {200, 1, 2000, 8}, {200, 4, 3000, 8}, {200, 1, 200, 2}, {5, 1, 1 << 17, 8}, {1, 2, 64, 8}} {
		p := aligned(t, c.partitions, dataset.Rows{
			Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, ShuffleWindow: c.window, ShuffleParts: c.parts, Lanes: c.lanes, Seed: 7,
		})
		want := 1
		for lane := range p.Lanes {
			for _, run := range p.Runs(lane) {
				held := make([]map[int]bool, run.Windows+1)
				for w := range held {
					held[w] = map[int]bool{}
				}
				for _, of := range p.Lanes[lane].Ranges[run.First : run.First+run.Ranges()] {
					group := p.Splits[of.Split].Groups[0]
					require.NotEqual(t, resolve.NoGroup, group)
					for row := of.From; row < of.To; row++ {
						w := run.Window(of.Split, row)
						held[w][group], held[w+1][group] = true, true
					}
				}
				for _, groups := range held[:run.Windows] {
					want = max(want, len(groups))
				}
			}
		}
		use := p.StagingUse(0)
		require.Equal(t, want, use.AtOnce, "%+v", c)
		require.Equal(t, int64(want)*use.Largest.Memory(), use.Memory())
		if c.window == 1<<17 && c.lanes == 1 {
			require.Equal(t, c.partitions, use.AtOnce, "one window has rows of all")
		}
		if use.AtOnce > 1 {
			require.Contains(t, explain.Text(p, dataset.Query{}, nil), fmt.Sprintf("for each of %d that a window and the one before it need", use.AtOnce))
		}
	}
	p := aligned(t, 200, dataset.Rows{Lanes: 1})
	require.Equal(t, 1, p.StagingUse(0).AtOnce)
}
