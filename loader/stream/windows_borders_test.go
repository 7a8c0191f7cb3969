package stream_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/bucket/buckettest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan"
)

// sparse is a table of one bucket, whose rows are stored by item: each request has several consecutive rows, and the filter
// keeps some of the rows, far from each other: of all rows, or of the first and last ones.
type sparse struct{ rows, perRequest, every, edges int }

// loader writes the table and returns a loader of it.
func (s sparse) loader(t *testing.T) *loader.Loader {
	t.Helper()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long req:long item:long keep:long", "bucket(1,id)", s.rows, func(i int) string {
		keep := 0
		if s.kept(i) {
			keep = 1
		}
		return fmt.Sprint(i, " ", s.request(i), " ", i, " ", keep)
	}).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"req"}, Training: dataset.Training{Table: "ml.train", Filter: datasettest.Filter("keep = 1")}}
	return loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
}

func (s sparse) request(i int) int { return i / s.perRequest }

func (s sparse) kept(i int) bool {
	return i%s.every == 0 && (s.edges == 0 || i < s.edges || i >= s.rows-s.edges)
}

// items lists the rows that the filter keeps, in stored order.
func (s sparse) items() []int64 {
	var kept []int64
	for i := range s.rows {
		if s.kept(i) {
			kept = append(kept, int64(i))
		}
	}
	return kept
}

// TestRequestsAreDividedAcrossDroppedRows checks that the report counts a divided request although hundreds of rows before
// a section were dropped, and counts none if the row before is in the same window: also if it is in another range of the
// split, since all rows between them, which another lane reads, were dropped.
//
// spec: order-26
func TestRequestsAreDividedAcrossDroppedRows(t *testing.T) {
	t.Parallel()
	whole, edges := sparse{rows: 6000, perRequest: 3000, every: 400}, sparse{rows: 6000, perRequest: 6000, every: 50, edges: 300}
	for _, c := range []struct {
		table sparse
		lanes int
		least int64 // divided requests
	}{{whole, 1, 6}, {edges, 1, 1}, {edges, 2, 1}} {
		l := c.table.loader(t)
		for seed := range int64(12) {
			q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Order: dataset.Shuffled, ShuffleWindow: 1000, Seed: seed, Lanes: c.lanes}, Reading: dataset.Reading{BatchRows: 4 * c.lanes}}
			p, err := l.Plan(t.Context(), q)
			require.NoError(t, err)
			windows, divided := windowsOfPlan(p.Plan), int64(0)
			for kept, i := c.table.items(), 1; i < len(kept); i++ {
				same := c.table.request(int(kept[i])) == c.table.request(int(kept[i-1]))
				if same && windows[storedRow{0, kept[i]}] != windows[storedRow{0, kept[i-1]}] {
					divided++
				}
			}
			require.GreaterOrEqual(t, divided, c.least)
			shards, err := scenario.Read(t.Context(), l, q)
			require.NoError(t, err)
			require.Equal(t, divided, shards[0].Report.Divided, "%+v, seed %d", c, seed)
		}
	}
}

// TestRequestsAreWholeAcrossDroppedRows checks that a request is whole, in the window of its first row that is left, although
// a section begins between its rows, and hundreds of rows before were dropped.
//
// spec: request-4
func TestRequestsAreWholeAcrossDroppedRows(t *testing.T) {
	t.Parallel()
	table := sparse{rows: 12_000, perRequest: 3000, every: 700}
	l := table.loader(t)
	wanted := map[int64][]int64{} // rows by their first one
	first := int64(0)
	for i, item := range table.items() {
		if i == 0 || table.request(int(item)) != table.request(int(first)) {
			first = item
		}
		wanted[first] = append(wanted[first], item)
	}
	for seed := range int64(4) {
		q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Order: dataset.Shuffled, ShuffleWindow: 2000, Seed: seed, Lanes: 1}, Reading: dataset.Reading{BatchRequests: 1, Columns: []dataset.Column{{Column: "item"}}}}
		p, err := l.Plan(t.Context(), q)
		require.NoError(t, err)
		windows := windowsOfPlan(p.Plan)
		shards, err := scenario.Read(t.Context(), l, q)
		require.NoError(t, err)
		require.Len(t, shards[0].Batches, len(wanted), "seed %d", seed)
		last := int64(0)
		for _, b := range shards[0].Batches {
			given := itemsIn(b)
			require.Equal(t, wanted[given[0]], given, "seed %d", seed)
			window := windows[storedRow{0, given[0]}].window
			require.GreaterOrEqual(t, window, last, "seed %d", seed)
			last = window
		}
	}
}

// itemsIn returns the values of the first column of rows.
func itemsIn(rows [][]any) []int64 {
	items := make([]int64, len(rows))
	for i, r := range rows {
		items[i] = r[0].(int64)
	}
	return items
}

// TestCutRangesJoinTheRunBefore has two buckets and three lanes: the last lane has the rest of both, whose rows
// share windows.
//
// spec: order-10, order-22
func TestCutRangesJoinTheRunBefore(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	const rows, buckets, lanes = 600, 2, 3
	splitOf, stored := make([]int, rows), map[storedRow]int64{}
	loadertest.Rows("ml.train", "id:long item:long", "bucket(2,id)", rows, func(i int) string {
		splitOf[i] = int(buckettest.Of(bucket.HashInt64(int64(i)), buckets))
		return fmt.Sprint(i, " ", i)
	}).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	mixed := 0
	for _, shuffle := range []dataset.Shuffle{dataset.ShuffleRequests, dataset.ShuffleRows} {
		q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Order: dataset.Shuffled, Shuffle: shuffle, ShuffleWindow: 50, Lanes: lanes}, Reading: dataset.Reading{BatchRows: 30}}
		p, err := l.Plan(t.Context(), q)
		require.NoError(t, err)
		for i, s := range p.Splits {
			next := int64(0)
			for item, of := range splitOf {
				if of == s.Bucket.ID {
					stored[storedRow{i, next}] = int64(item)
					next++
				}
			}
		}
		byWindow := map[windowOfRow][]int64{}
		for row, window := range windowsOfPlan(p.Plan) {
			byWindow[window] = append(byWindow[window], stored[row])
		}
		for lane := range lanes {
			one := q
			one.Shard = dataset.Shard{Index: lane, Of: lanes}
			shards, err := scenario.Read(t.Context(), l, one)
			require.NoError(t, err)
			given := itemsIn(shards[0].Rows())
			require.Len(t, given, rows/lanes)
			for window := range int64(4) {
				of := byWindow[windowOfRow{lane, 0, window}]
				require.ElementsMatch(t, of, given[:len(of)], "lane %d, window %d", lane, window)
				given = given[len(of):]
				if slices.ContainsFunc(of, func(item int64) bool { return splitOf[item] != splitOf[of[0]] }) {
					mixed++
				}
			}
			require.Empty(t, given, "lane %d has one run, also if it has the rest of both buckets", lane)
		}
	}
	require.Equal(t, 2*4, mixed, "all windows of one lane have rows of both buckets")
}

// TestFileGroupsOfSkippedRangesAreReleased resumes a stream of two lanes behind the ranges of some days, and checks that
// the file group of the lane that ends first is released with its last row: no range to come needs it.
//
// spec: join-63, cursor-12
func TestFileGroupsOfSkippedRangesAreReleased(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	const perBucket, days, large, small = 400, 8, 20_000, 100
	var training, staging []string
	for id, found := 0, [2]int{}; found[0] < large; id++ {
		of := int(buckettest.Of(bucket.HashInt64(int64(id)), 2))
		n := found[of]
		found[of]++
		if n < []int{large, small}[of] {
			staging = append(staging, fmt.Sprint(id, " ", id))
		}
		if n < perBucket { // of bucket 0, three in four are dropped: its lane ends first
			keep := 1
			if of == 0 && n%4 > 0 {
				keep = 0
			}
			training = append(training, fmt.Sprint(id, " ", n*days/perBucket, " ", keep))
		}
	}
	loadertest.Rows("ml.train", "id:long day:long keep:long", "day bucket(2,id)", len(training), func(i int) string { return training[i] }).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(2,id)", len(staging), func(i int) string { return staging[i] }).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	b := budget.New(1 << 30)
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, Budget: b})
	q := dataset.Query{Rows: dataset.Rows{
		Dataset: "d", Order: dataset.Shuffled, ShuffleWindow: 50, ShuffleParts: 1, Lanes: 2, Filter: datasettest.Filter("keep = 1"),
	}, Reading: dataset.Reading{BatchRows: 20, Shard: dataset.Shard{Index: 0, Of: 1}}}
	s := loadertest.Open(t, l, q)
	for range 5 { // 50 of 100 rows of the first lane
		require.True(t, s.Next())
	}
	q.Cursor = dataset.Cursors{s.Cursor()}
	s.Release()
	s = loadertest.Open(t, l, q)
	defer s.Release()
	whole := int64(0)
	for range 4 {
		require.True(t, s.Next())
		require.EqualValues(t, 20, s.RecordBatch().NumRows(), "both lanes have rows")
		whole = max(whole, b.Used())
	}
	for range 8 {
		require.True(t, s.Next())
	}
	require.EqualValues(t, 10, s.RecordBatch().NumRows(), "the first lane has ended")
	require.Greater(t, whole, int64(large*16))
	require.Less(t, b.Used(), whole/4)
}

// TestMinMatchOfRuns has rows whose matches come late in the order: the run has enough of them, but its first windows
// have none.
//
// spec: join-64
func TestMinMatchOfRuns(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	w.BatchRows = 1000
	t.Cleanup(w.Release)
	const rows, matched = 24_000, 13_000
	loadertest.Rows("ml.train", "id:long", "bucket(1,id)", rows, strconv.Itoa).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}}
	of := func() *loader.Loader {
		return loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	}
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Order: dataset.Shuffled, ShuffleWindow: 2000, Lanes: 1}, Reading: dataset.Reading{BatchRows: 1000}}
	p, err := of().Plan(t.Context(), q)
	require.NoError(t, err)
	late := lastOf(p.Plan, matched)
	loadertest.Rows("features.f", "id:long v:long", "bucket(1,id)", matched, func(i int) string { return fmt.Sprint(late[i], " ", i) }).In(t, w)
	d.Staging = []dataset.Staging{{Table: "features.f", MinMatch: 0.54}}
	shards, err := scenario.Read(t.Context(), of(), q)
	require.NoError(t, err, "13,000 of 24,000 rows match")
	require.EqualValues(t, rows, shards[0].Report.Rows)
	d.Staging[0].MinMatch = 0.55
	_, err = scenario.Read(t.Context(), of(), q)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "13000 of 24000 training rows match f")
}

// lastOf returns rows of the last windows of a plan of one split.
func lastOf(p *plan.Plan, n int) []int64 {
	windows := windowsOfPlan(p)
	rows := make([]int64, len(windows))
	for i := range rows {
		rows[i] = int64(i)
	}
	slices.SortStableFunc(rows, func(a, b int64) int { return int(windows[storedRow{0, b}].window - windows[storedRow{0, a}].window) })
	return rows[:n]
}
