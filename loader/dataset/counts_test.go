package dataset_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// twoShards returns two cursors of one run, with three lanes each.
func twoShards() dataset.Cursors {
	counts := dataset.NewCounts([]int64{7, 5, 0, 9, 7, 8})
	all := make(dataset.Cursors, 2)
	for i := range all {
		all[i] = dataset.Cursor{Rows: dataset.Rows{Lanes: 6}, Version: dataset.CursorVersion, Shard: dataset.Shard{Index: i, Of: 2}}
		for lane := i; lane < 6; lane += 2 {
			all[i].At = append(all[i].At, dataset.Position{Lane: lane})
		}
		all[i].Counted = counts.Of(all[i].Shard)
	}
	return all
}

// TestCountsOfCursors checks that counts follow the positions in a cursor's text, and
// that Counts restores them from the cursors of some or all shards.
//
// spec: step-10
func TestCountsOfCursors(t *testing.T) {
	t.Parallel()
	all := twoShards()
	require.Contains(t, string(all[1].JSON()), `{"lane":5,"split":0,"row":0}],"counted":{"rows":36,"shortest":0,"longest":9,"lanes":[5,9,8]},"sum":"`)
	counts, err := all.Counts()
	require.NoError(t, err)
	require.Equal(t, dataset.NewCounts([]int64{7, 5, 0, 9, 7, 8}), counts)
	require.True(t, counts.Knows(dataset.Shard{Of: 1}))
	counts, err = all[1:].Counts()
	require.NoError(t, err)
	require.Equal(t, []int64{-1, 5, -1, 9, -1, 8}, counts.Lanes)
	require.True(t, counts.Knows(dataset.Shard{Index: 1, Of: 2}))
	require.False(t, counts.Knows(dataset.Shard{Index: 0, Of: 2}))
	all[0].Counted = nil
	counts, err = all.Counts()
	require.NoError(t, err)
	require.Nil(t, counts)
	counts, err = dataset.Cursors{}.Counts()
	require.NoError(t, err)
	require.Nil(t, counts)
}

// TestInconsistentCountsAreRejected checks that Cursors.Counts and Counted.Counts reject
// inconsistent counts.
//
// spec: step-10
func TestInconsistentCountsAreRejected(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(cs dataset.Cursors){
		"below the shortest":       func(cs dataset.Cursors) { cs[1].Counted.Shortest = 6 },
		"above the longest":        func(cs dataset.Cursors) { cs[1].Counted.Longest = 8 },
		"fewer rows than lanes":    func(cs dataset.Cursors) { cs[1].Counted.Rows = 21 },
		"more rows than lanes":     func(cs dataset.Cursors) { cs[1].Counted.Rows = 22 + 3*9 + 1 },
		"lanes that are not there": func(cs dataset.Cursors) { cs[1].Counted.Lanes = append(cs[1].Counted.Lanes, 5) },
	} {
		cs := twoShards()
		change(cs)
		_, err := cs[1:].Counts()
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
		require.Equal(t, "cursor[0].counted", fault.As(err).Faults[0].Field, name)
		_, err = cs[1].Counted.Counts(6, cs[1].Shard)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
	}
	for name, change := range map[string]func(cs dataset.Cursors){
		"other rows":                 func(cs dataset.Cursors) { cs[1].Counted.Rows++ },
		"another shortest":           func(cs dataset.Cursors) { cs[0].Counted.Shortest, cs[0].Counted.Lanes[1] = 1, 1 },
		"another longest":            func(cs dataset.Cursors) { cs[1].Counted.Longest++ },
		"a longest that no lane has": func(cs dataset.Cursors) { cs[0].Counted.Longest, cs[1].Counted.Longest = 10, 10 },
		"rows that no lane has":      func(cs dataset.Cursors) { cs[0].Counted.Rows, cs[1].Counted.Rows = 37, 37 },
	} {
		cs := twoShards()
		change(cs)
		_, err := cs.Counts()
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
	}
}

// TestSteps checks the number of steps, and the number of rows that a DataLoader worker
// takes.
//
// spec: step-1, step-7
func TestSteps(t *testing.T) {
	t.Parallel()
	counts := dataset.NewCounts([]int64{9, 5, 7})
	for q, want := range map[int64][2]int64{1: {5, 9}, 2: {2, 5}, 5: {1, 2}, 6: {0, 2}, 9: {0, 1}} {
		require.Equal(t, want, [2]int64{counts.Steps(dataset.TailDrop, q), counts.Steps(dataset.TailKeep, q)})
	}
	for of := 1; of < 6; of++ {
		for step := range of {
			every := dataset.Every{Step: step, Of: of}
			for q := int64(1); q < 5; q++ {
				for left := range int64(40) {
					want := int64(0)
					for row := range left {
						if int(row/q)%of == step {
							want++
						}
					}
					require.Equal(t, want, every.Rows(left, q), "%v, %d of %d", every, q, left)
				}
			}
		}
	}
}
