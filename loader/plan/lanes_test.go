package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/plantest"
	"github.com/penstock/penstock/loader/resolve"
)

// TestLanes assigns random splits to random numbers of lanes, in the order of each epoch.
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
			p := buildBy(t, 1, plantest.Training(n), files, rows)
			require.Equal(t, total, p.StoredRows)
			requireDealt(t, p, l)
		}
	}
}

// buildBy makes a plan by an algorithm.
func buildBy(t *testing.T, algorithm int, table *catalog.Table, files []catalog.File, rows dataset.Rows) *plan.Plan {
	t.Helper()
	r, err := resolve.Bind(plantest.Homefeed().Defaults(), table, nil)
	require.NoError(t, err)
	b, err := plan.Bind(r, dataset.Query{Rows: rows}.Defaults().Rows)
	require.NoError(t, err)
	b.Algorithm = algorithm
	p, err := plan.Build(b, plan.Files{Training: plan.Listing{Files: files}})
	require.NoError(t, err)
	return p
}

// TestLanesAreDealtOnce: lanes of a shuffled order have the rows that algorithm 1 deals to them in epoch 0 of seed 0, in all epochs
// of all seeds. Each lane has its whole splits in an order of its own, in which buckets of a residue class are adjacent, and then
// the parts of cut splits.
//
// spec: order-7, order-9, order-33
func TestLanesAreDealtOnce(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		n, l := 4<<r.IntN(3), 2+r.IntN(7)
		var files []catalog.File
		for b := range n {
			for day := range int64(3) {
				files = append(files, plantest.File(fmt.Sprint("f", b, "/", day), day, int64(b), int64(1+r.IntN(100)), 1))
			}
		}
		for _, shuffle := range []dataset.Shuffle{dataset.ShuffleSplits, dataset.ShuffleRows} {
			rows := dataset.Rows{Lanes: l, Order: dataset.Shuffled, Shuffle: shuffle}
			first := buildBy(t, 1, plantest.Training(n), files, rows)
			rows.Seed, rows.Epoch = r.Int64(), int64(r.IntN(9))
			p := buildBy(t, 2, plantest.Training(n), files, rows)
			for lane := range l {
				require.Equal(t, first.Lanes[lane].Rows, p.Lanes[lane].Rows)
				require.ElementsMatch(t, rangesOf(first, lane), rangesOf(p, lane))
				requireOwnOrder(t, p, lane)
			}
		}
	}
}

// rangesOf returns the ranges of a lane, with the ids of splits instead of their numbers.
func rangesOf(p *plan.Plan, lane int) []string {
	var out []string
	for _, r := range p.Lanes[lane].Ranges {
		out = append(out, fmt.Sprint(p.Splits[r.Split].ID, r.From, r.To))
	}
	return out
}

// requireOwnOrder checks the order of the ranges of a lane.
func requireOwnOrder(t *testing.T, p *plan.Plan, lane int) {
	t.Helper()
	cut := false
	var whole []int // buckets
	for _, r := range p.Lanes[lane].Ranges {
		s := p.Splits[r.Split]
		isCut := r.To-r.From < s.Rows
		require.False(t, cut && !isCut, "a whole split after a cut one")
		if cut = isCut; !cut {
			whole = append(whole, s.Bucket.ID)
		}
	}
	for m := p.Splits[0].Bucket.Of; m > 1; m /= 2 {
		classes, runs := map[int]bool{}, 0
		for i, b := range whole {
			classes[b%m] = true
			if i == 0 || b%m != whole[i-1]%m {
				runs++
			}
		}
		require.Len(t, classes, runs, "modulo %d: %v", m, whole)
	}
}

// TestLanesHaveOrdersOfTheirOwn: the buckets of two lanes come in different orders, and these change from epoch to epoch.
//
// spec: order-7, order-8
func TestLanesHaveOrdersOfTheirOwn(t *testing.T) {
	t.Parallel()
	var files []catalog.File
	for b := range 16 {
		files = append(files, plantest.File(fmt.Sprint("f", b), int64(1), int64(b), 10, 1))
	}
	first, same, orders := map[int]int{}, 0, map[string]bool{}
	for epoch := range int64(200) {
		p := buildBy(t, 2, plantest.Training(16), files, dataset.Rows{Lanes: 2, Order: dataset.Shuffled, Epoch: epoch})
		smallest := [2]bool{}
		for lane := range 2 {
			var order []int
			for _, r := range p.Lanes[lane].Ranges {
				order = append(order, p.Splits[r.Split].Bucket.ID)
			}
			orders[fmt.Sprint(order)] = true
			first[order[0]]++
			smallest[lane] = order[0] == slices.Min(order) || order[1] == slices.Min(order)
		}
		if smallest[0] == smallest[1] {
			same++
		}
	}
	require.Greater(t, len(orders), 150)
	require.Len(t, first, 16)
	require.InDelta(t, 100+25, same, 45, "lanes that begin alike")
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

// TestCutsAreDrawn checks where two lanes that share a split begin: anywhere, by split, if rows are
// permuted, and otherwise at its first row. Algorithm 1 draws the row by seed and epoch, too.
//
// spec: order-10, order-33
func TestCutsAreDrawn(t *testing.T) {
	t.Parallel()
	algorithm := 1
	begin := func(name string, rows dataset.Rows) int64 {
		rows.Lanes = 2
		p := buildBy(t, algorithm, plantest.Training(1), []catalog.File{plantest.File(name, int64(1), int64(0), 1000, 1)}, rows)
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
	algorithm = 2
	once := [10]int{}
	for i := range int64(300) {
		require.Equal(t, begin("a", dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows}),
			begin("a", dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, Seed: i, Epoch: i}))
		once[begin(strconv.FormatInt(i, 10), dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows})/100]++
		require.Zero(t, begin("a", dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleSplits, Seed: i}))
	}
	for tenth := range 10 {
		require.InDelta(t, 30, bySeed[tenth], 25)
		require.InDelta(t, 30, byEpoch[tenth], 25)
		require.InDelta(t, 30, bySplit[tenth], 25)
		require.InDelta(t, 30, once[tenth], 25)
	}
}
