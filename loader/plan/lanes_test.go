package plan_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/plantest"
)

// TestLanes assigns random splits to random numbers of lanes.
//
// spec: order-9, order-10
func TestLanes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n, l := 1+r.IntN(16), 1+r.IntN(12)
		var files []catalog.File
		total := int64(0)
		for i := range r.IntN(30) {
			rows := int64(1 + r.IntN(100))
			total += rows
			files = append(files, plantest.File(fmt.Sprint("f", i), int64(r.IntN(3)), int64(r.IntN(n)), rows, int64(i)))
		}
		for _, rows := range []dataset.Rows{
			{Lanes: l},
			{Lanes: l, Order: dataset.Shuffled, Shuffle: dataset.ShuffleSplits},
			{Lanes: l, Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, Seed: r.Int64()},
		} {
			p := build(t, plantest.Training(n), files, dataset.Query{Rows: rows})
			require.Equal(t, total, p.StoredRows)
			requireDealt(t, p, l)
		}
	}
}

// requireDealt replays the rule of the specification split by split: the next rows go to the
// lane with the fewest rows, until that lane is full.
func requireDealt(t *testing.T, p *plan.Plan, l int) {
	t.Helper()
	given, next := make([]int64, l), make([]int, l)
	quota := func(i int) int64 {
		if int64(i) < p.StoredRows%int64(l) {
			return p.StoredRows/int64(l) + 1
		}
		return p.StoredRows / int64(l)
	}
	best := 0
	for i, s := range p.Splits {
		at := int64(0)
		together := p.Rows.ShuffleWindow > 0 && i > 0 && s.Bucket == p.Splits[i-1].Bucket
		for left := s.Rows; left > 0; {
			if left < s.Rows || !together || given[best] == quota(best) {
				best = -1
				for lane := range l {
					if given[lane] < quota(lane) && (best < 0 || given[lane] < given[best]) {
						best = lane
					}
				}
			}
			ranges, rows := p.Lanes[best].Ranges[next[best]:], min(left, quota(best)-given[best])
			if left == s.Rows && rows < left && p.Rows.ShuffleWindow > 0 { // cut at a drawn row
				at = ranges[0].From
				if at == 0 && ranges[0].To < rows {
					at = ranges[1].From
				}
			}
			want := []plan.Range{{Split: i, From: at, To: min(s.Rows, at+rows)}}
			if at+rows > s.Rows {
				want = []plan.Range{{Split: i, From: 0, To: at + rows - s.Rows}, want[0]}
			}
			require.Equal(t, want, ranges[:len(want)])
			given[best] += rows
			next[best] += len(want)
			left -= rows
			at = (at + rows) % s.Rows
		}
	}
	for i := range l {
		require.Equal(t, quota(i), p.Lanes[i].Rows)
		require.Len(t, p.Lanes[i].Ranges, next[i])
	}
}

// TestCutsAreDrawn checks where two lanes that share a split begin: anywhere, by seed, epoch
// and split, if rows are permuted, and otherwise at its first row.
//
// spec: order-10
func TestCutsAreDrawn(t *testing.T) {
	t.Parallel()
	begin := func(name string, rows dataset.Rows) int64 {
		rows.Lanes = 2
		p := build(t, plantest.Training(1), []catalog.File{plantest.File(name, int64(1), int64(0), 1000, 1)}, dataset.Query{Rows: rows})
		return p.Lanes[0].Ranges[len(p.Lanes[0].Ranges)-1].From
	}
	bySeed, byEpoch, bySplit := [10]int{}, [10]int{}, [10]int{}
	for i := range int64(300) {
		bySeed[begin("a", dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, Seed: i})/100]++
		byEpoch[begin("a", dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRequests, Epoch: i})/100]++
		bySplit[begin(strconv.FormatInt(i, 10), dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows})/100]++
		require.Zero(t, begin("a", dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleSplits, Seed: i}))
	}
	require.Zero(t, begin("a", dataset.Rows{}))
	for tenth := range 10 {
		require.InDelta(t, 30, bySeed[tenth], 25)
		require.InDelta(t, 30, byEpoch[tenth], 25)
		require.InDelta(t, 30, bySplit[tenth], 25)
	}
}
