package stream_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// stepsOf computes the steps of one shard from the rows of the lanes: blocks of q rows,
// beginning with row number from, and the remaining rows of the lanes.
func stepsOf(lanes [][]string, shard dataset.Shard, from, q int, drop bool) [][]string {
	shortest := len(slices.MinFunc(lanes, func(a, b []string) int { return len(a) - len(b) }))
	var steps [][]string
	for at := from; ; at += q {
		var batch []string
		for i := shard.Index; i < len(lanes); i += shard.Of {
			batch = append(batch, lanes[i][min(at, len(lanes[i])):min(at+q, len(lanes[i]))]...)
		}
		if len(batch) == 0 || drop && at+q > shortest {
			return steps
		}
		steps = append(steps, batch)
	}
}

// maxRowsOf returns the number of rows, or requests, of the longest lane of a shard.
func maxRowsOf[T any](lanes [][]T, shard dataset.Shard) int {
	longest := 0
	for i := shard.Index; i < len(lanes); i += shard.Of {
		longest = max(longest, len(lanes[i]))
	}
	return longest
}

func batchTexts(s scenario.Shard) [][]string {
	var out [][]string
	for _, b := range s.Batches {
		out = append(out, scenario.Texts(b))
	}
	return out
}

// TestStepsOfShardsAndWorkers checks that, whatever the rules drop or repeat, each
// number of shards and DataLoader workers returns the steps that follow from the rows
// of the lanes, with any batch size, from the start and from the cursors of any step,
// whichever numbers of shards wrote these.
//
// spec: step-1, step-2, step-3, step-7, order-13, order-15, order-16, order-17, cursor-6
func TestStepsOfShardsAndWorkers(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 9))
	inexact, dropped, resumed := 0, 0, 0
	for _, c := range loadertest.Stepped(t, loadertest.Cases(share, 24, 600)) {
		m := loadertest.Made(t, c)
		lanes := loadertest.LaneRows(t, m, c.Query)
		for range 6 {
			drop := random.IntN(2) == 0
			from, cursors := 0, dataset.Cursors(nil)
			for range 2 { // from the start, then from one of its cursors
				of, workers, perLane := 1<<random.IntN(4), 1+random.IntN(4), 1+random.IntN(7)
				q := c.Query
				q.Shard, q.BatchRows, q.Cursor = dataset.Shard{Index: dataset.AllShards, Of: of}, perLane*8/of, cursors
				if drop {
					q.Tail = dataset.TailDrop
				}
				shards, err := scenario.ReadAsWorkers(context.Background(), m.Loader(), q, workers)
				require.NoError(t, err, c.Name)
				require.Len(t, shards, of)
				for i, s := range shards {
					want := stepsOf(lanes, dataset.Shard{Index: i, Of: of}, from, perLane, drop)
					require.Equal(t, want, batchTexts(s), "%s: shard %d of %d, %d workers, from row %d", c.Name, i, of, workers, from)
					longest := maxRowsOf(lanes, dataset.Shard{Index: i, Of: of})
					for k, cursor := range s.Cursors {
						require.EqualValues(t, min(from+(k+1)*perLane, longest), cursor.Given)
					}
					for _, l := range s.Report.Leftover {
						require.True(t, drop)
						require.EqualValues(t, len(lanes[l.Lane])-int(s.Report.Cursor.Given), l.Rows)
						dropped++
					}
					if counted := s.Report.Cursor.Counted; counted != nil {
						inexact++
						for k, at := range s.Report.Cursor.At {
							require.EqualValues(t, len(lanes[at.Lane]), counted.Lanes[k])
						}
					}
				}
				longest := slices.MaxFunc(shards, func(a, b scenario.Shard) int { return len(a.Batches) - len(b.Batches) })
				if len(longest.Batches) == 0 {
					break
				}
				step := random.IntN(len(longest.Batches))
				from, cursors = from+(step+1)*perLane, nil
				for _, s := range shards {
					cursor := s.Report.Cursor
					if step < len(s.Cursors) {
						cursor = s.Cursors[step]
					}
					cursors = append(cursors, cursor)
				}
				resumed++
			}
		}
	}
	require.Positive(t, inexact)
	require.Positive(t, dropped)
	require.Greater(t, resumed, 80/share)
}
