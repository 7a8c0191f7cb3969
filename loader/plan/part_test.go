package plan_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/plantest"
)

// Splits have equal numbers exactly if they have equal file groups, in any order of the plan.
func TestJoinedFilesAreNumbered(t *testing.T) {
	t.Parallel()
	tables, files := plantest.Mixed()
	stored, err := plantest.Joined(plantest.Homefeed(plantest.Entry()), tables, files, dataset.Query{})
	require.NoError(t, err)
	require.Greater(t, len(stored.Splits), 8)
	numbers, count := stored.JoinedFiles()
	require.Greater(t, count, 2)
	require.Less(t, count, len(stored.Splits))
	next := 0
	byID := map[string]int{}
	for i, number := range numbers {
		require.LessOrEqual(t, number, next, "numbers ascend in the order of their first splits")
		next = max(next, number+1)
		byID[stored.Splits[i].ID] = number
		for j := range i {
			require.Equal(t, slices.Equal(stored.Splits[i].Groups, stored.Splits[j].Groups), number == numbers[j])
		}
	}
	require.Equal(t, count, next)

	shuffled, err := plantest.Joined(plantest.Homefeed(plantest.Entry()), tables, files, dataset.Query{Rows: dataset.Rows{
		Order: dataset.Shuffled, Shuffle: dataset.ShuffleSplits, Seed: 3,
	}})
	require.NoError(t, err)
	again, same := shuffled.JoinedFiles()
	require.Equal(t, count, same)
	require.NotEqual(t, numbers, again)
	for i, number := range again {
		require.Equal(t, byID[shuffled.Splits[i].ID], number)
	}

	plain, err := plantest.Joined(plantest.Homefeed(), tables[:1], plan.Files{Training: files.Training}, dataset.Query{})
	require.NoError(t, err)
	none, count := plain.JoinedFiles()
	require.Zero(t, count)
	require.Equal(t, slices.Repeat([]int{plan.NoFiles}, len(plain.Splits)), none)
}
