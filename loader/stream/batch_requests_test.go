package stream_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan"
)

// split holds the rows of a split.
type split struct {
	id   string
	rows []row
}

// sectionsOf returns the rows of a lane that remain, in the order of its ranges or windows: each section holds the
// rows of a range in stored order, or those of a window. A row belongs to the window of the first row of its request.
func sectionsOf(p *plan.Plan, number int, stored, left map[string][]row) [][]row {
	windows := map[windowOfRow][]row{}
	var sections [][]row
	var of map[storedRow]windowOfRow
	if p.Rows.ShuffleWindow > 0 {
		of = windowsOfPlan(p)
	}
	for _, r := range p.Lanes[number].Ranges {
		id := p.Splits[r.Split].ID
		if of == nil {
			sections = append(sections, left[id])
			continue
		}
		var in windowOfRow
		for i, one := range left[id] {
			if i == 0 || one.request == "" || one.request != left[id][i-1].request {
				in = of[storedRow{r.Split, int64(slices.Index(stored[id], one))}]
			}
			windows[in] = append(windows[in], one)
		}
	}
	for _, in := range slices.SortedFunc(maps.Keys(windows), func(a, b windowOfRow) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.window, b.window))
	}) {
		sections = append(sections, windows[in])
	}
	return sections
}

// bySplit reads the item and the request of each row of a query with one lane, by
// split.
func bySplit(t *testing.T, c *scenario.Made, q dataset.Query) []split {
	t.Helper()
	q.Dataset, q.Lanes, q.Endpoints, q.Columns = "d", 1, dataset.EndpointsSplits, itemAndRequest
	p, err := c.Loader().Plan(t.Context(), q)
	require.NoError(t, err)
	shards, err := scenario.Read(t.Context(), c.Loader(), q)
	require.NoError(t, err)
	out := make([]split, len(p.Splits))
	for i := range out {
		out[i] = split{p.Splits[i].ID, itemRows(shards[i].Rows())}
	}
	return out
}

var itemAndRequest = []dataset.Column{{Column: "item"}, {Column: "request_id"}}

// lanesOf returns the requests of each lane of a query: runs of rows with equal keys. stored holds all rows of each
// split, and left those that pass the filter, both in stored order.
func lanesOf(t *testing.T, c *scenario.Made, q dataset.Query, stored, left []split) [][][]row {
	t.Helper()
	q = withRequests(q, q.Lanes)
	q.Dataset = "d"
	p, err := c.Loader().Plan(t.Context(), q)
	require.NoError(t, err)
	lanes := make([][][]row, len(p.Lanes))
	for i, l := range p.Lanes {
		for _, r := range l.Ranges {
			require.Equal(t, p.Splits[r.Split].Rows, r.To-r.From, "no bucket is cut")
		}
		one := q
		one.Shard, one.BatchRequests, one.Columns = dataset.Shard{Index: i, Of: q.Lanes}, 1<<20, itemAndRequest
		shards, err := scenario.Read(t.Context(), c.Loader(), one)
		require.NoError(t, err)
		given := itemRows(shards[0].Rows())
		for _, rows := range sectionsOf(p.Plan, i, byID(stored), byID(left)) {
			require.GreaterOrEqual(t, len(given), len(rows))
			got := given[:len(rows)]
			given = given[len(rows):]
			require.ElementsMatch(t, rows, got)
			for k, r := range got {
				if k == 0 || r.request == "" || r.request != got[k-1].request {
					lanes[i] = append(lanes[i], nil)
				}
				lanes[i][len(lanes[i])-1] = append(lanes[i][len(lanes[i])-1], r)
			}
		}
		require.Empty(t, given)
	}
	return lanes
}

// byID returns the rows of splits by id.
func byID(splits []split) map[string][]row {
	rows := map[string][]row{}
	for _, s := range splits {
		rows[s.id] = s.rows
	}
	return rows
}

// stepsFrom returns the batches of a shard whose lanes have already returned given
// requests each.
func stepsFrom(lanes [][][]row, shard, of, given, perLane int) [][]row {
	var batches [][]row
	for {
		var b []row
		for i := shard; i < len(lanes); i += of {
			left := lanes[i][min(given, len(lanes[i])):]
			b = append(b, slices.Concat(left[:min(perLane, len(left))]...)...)
		}
		if b == nil {
			return batches
		}
		batches = append(batches, b)
		given += perLane
	}
}

// TestBatchesOfRequests checks that in each step all lanes return the same number of
// whole requests, for any number of shards and DataLoader workers, with filters and in
// any order, and that streams resume after any batch with other numbers.
//
// spec: request-1, request-2, request-3, request-4, request-5, request-6
func TestBatchesOfRequests(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 6, StagingBuckets: []int{3}}
	several, resumed, joined := 0, 0, 0
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 24, 200), shape) {
		r := rand.New(rand.NewPCG(seed, 11))
		shape.BatchRows = 1 + r.IntN(9)
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		leftOnly(c)
		q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: []int{1, 2, 4}[r.IntN(3)]}, Reading: dataset.Reading{Columns: itemAndRequest}}
		switch r.IntN(3) {
		case 0:
			q.Order, q.Shuffle, q.Seed = dataset.Shuffled, dataset.ShuffleSplits, int64(seed)
		case 1:
			q.Order, q.Shuffle, q.Seed, q.ShuffleWindow = dataset.Shuffled, dataset.ShuffleRequests, int64(seed), 1+r.Int64N(20)
			q.ShuffleParts = r.Int64N(7)
		}
		asStored := q
		if q.ShuffleWindow > 0 {
			asStored.Shuffle, asStored.ShuffleWindow = dataset.ShuffleSplits, 0
		}
		stored := bySplit(t, c, asStored)
		if r.IntN(2) == 0 {
			q.Filter, asStored.Filter = datasettest.Filter("item >= 3 AND score IS NULL OR item < 40"), datasettest.Filter("item >= 3 AND score IS NULL OR item < 40")
		}
		left := bySplit(t, c, asStored)

		lanes := lanesOf(t, c, q, stored, left)
		for _, l := range lanes {
			for _, request := range l {
				several += len(request) - 1
			}
		}
		for _, of := range []int{1, 2, 4} {
			if q.Lanes%of != 0 {
				continue
			}
			perLane := 1 + r.IntN(5)
			q.Shard = dataset.Shard{Index: dataset.AllShards, Of: of}
			asked := withRequests(q, perLane*q.Lanes/of)
			shards, err := scenario.ReadAsWorkers(t.Context(), c.Loader(), asked, 1+r.IntN(3))
			require.NoError(t, err)
			for i, s := range shards {
				require.Equal(t, stepsFrom(lanes, i, of, 0, perLane), batchesOf(s), "seed %d, shard %d of %d, %+v", seed, i, of, asked)
				for step, cursor := range s.Cursors {
					require.True(t, cursor.Requests)
					require.EqualValues(t, min((step+1)*perLane, maxRowsOf(lanes, dataset.Shard{Index: i, Of: of})), cursor.Given)
				}
			}
			resumed += goesOn(t, c, asked, lanes, shards)
		}
		joined += droppedRequests(t, c, withRequests(q, q.Lanes/max(1, q.Shard.Of)))
		c.Release()
	}
	require.Greater(t, several, 100/share, "requests of several rows")
	require.Greater(t, resumed, 20/share)
	require.Greater(t, joined, 100/share)
}

func withRequests(q dataset.Query, n int) dataset.Query {
	q.BatchRequests = n
	return q
}

func batchesOf(s scenario.Shard) [][]row {
	var out [][]row
	for _, b := range s.Batches {
		out = append(out, itemRows(b))
	}
	return out
}

// goesOn resumes after a batch of all shards with other numbers of shards and requests.
func goesOn(t *testing.T, c *scenario.Made, q dataset.Query, lanes [][][]row, shards []scenario.Shard) int {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(q.BatchRequests), uint64(len(lanes[0]))))
	perLane, least := q.BatchRequests*q.Shard.Of/q.Lanes, len(shards[0].Cursors)
	for _, s := range shards {
		least = min(least, len(s.Cursors))
	}
	if least == 0 {
		return 0
	}
	step := r.IntN(least)
	q.Cursor = nil
	for _, s := range shards {
		q.Cursor = append(q.Cursor, s.Cursors[step])
	}
	q.Shard.Of = []int{1, 2, 4}[r.IntN(3)]
	if q.Lanes%q.Shard.Of != 0 {
		q.Shard.Of = 1
	}
	next := 1 + r.IntN(5)
	q.BatchRequests = next * q.Lanes / q.Shard.Of
	after, err := scenario.ReadAsWorkers(t.Context(), c.Loader(), q, 1+r.IntN(3))
	require.NoError(t, err)
	for i, s := range after {
		require.Equal(t, stepsFrom(lanes, i, q.Shard.Of, (step+1)*perLane, next), batchesOf(s), "shard %d of %d after step %d", i, q.Shard.Of, step)
	}
	return 1
}

// droppedRequests checks that an inner join by the key of requests drops some requests
// of the left join and keeps the others. It returns the number of remaining rows.
func droppedRequests(t *testing.T, c *scenario.Made, q dataset.Query) int {
	t.Helper()
	q.Lanes, q.Shard = 1, dataset.Shard{}
	all := itemsOf(t, c, q)
	c.Dataset.Staging[0].Join = rule.Inner
	defer func() { c.Dataset.Staging[0].Join = rule.Left }()
	kept := itemsOf(t, c, q)
	at := 0
	for _, r := range kept {
		more := slices.Index(all[at:], r)
		require.GreaterOrEqual(t, more, 0, "rows keep their order")
		at += more + 1
	}
	return len(kept)
}

// TestRequestsOnWindowBordersResume checks that each cursor resumes with the next request,
// where most windows begin within a request of the previous window.
//
// spec: request-4, request-6
func TestRequestsOnWindowBordersResume(t *testing.T) {
	t.Parallel()
	c := grouped()
	c.Query = dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 1, Order: dataset.Shuffled, ShuffleWindow: 4}, Reading: dataset.Reading{BatchRequests: 1, Columns: itemAndRequest}}
	c.Training.Commits[0].Lines = nil
	for i := range 60 {
		c.Training.Commits[0].Lines = append(c.Training.Commits[0].Lines, fmt.Sprintf("%d %d u 0.5", i/3, i))
	}
	m := loadertest.Made(t, c)
	whole, err := scenario.Read(t.Context(), m.Loader(), c.Query)
	require.NoError(t, err)
	require.Len(t, whole[0].Batches, 20, "no request is divided")
	for step, cursor := range whole[0].Cursors {
		q := c.Query
		q.Cursor = dataset.Cursors{cursor}
		rest, err := scenario.Read(t.Context(), m.Loader(), q)
		require.NoError(t, err)
		require.Len(t, rest[0].Batches, len(whole[0].Batches)-step-1, "after step %d", step)
		for i, b := range rest[0].Batches {
			require.Equal(t, whole[0].Batches[step+1+i], b)
		}
	}
	c.Training.Commits[0].Lines[50] = "0 50 u 0.5"
	c.Query.Filter = datasettest.Filter("item = 0 OR item = 50")
	far, err := scenario.Read(t.Context(), loadertest.Made(t, c).Loader(), c.Query)
	require.NoError(t, err)
	require.Len(t, far[0].Batches, 1, "a request of which whole blocks are dropped stays one")
	require.EqualValues(t, 2, far[0].Report.Rows)
}

// TestPlansOfRequests checks that the plan for requests differs from that for rows and
// is the same for any batch_requests, and that the streams of its splits count
// requests.
//
// spec: request-6
func TestPlansOfRequests(t *testing.T) {
	t.Parallel()
	c := loadertest.Made(t, grouped())
	id := func(q dataset.Query) string {
		q.Dataset, q.Lanes = "d", 1
		p, err := c.Loader().Plan(t.Context(), q)
		require.NoError(t, err)
		return p.ID
	}
	require.NotEqual(t, id(dataset.Query{Reading: dataset.Reading{BatchRows: 2}}), id(dataset.Query{Reading: dataset.Reading{BatchRequests: 2}}))
	require.Equal(t, id(dataset.Query{Reading: dataset.Reading{BatchRequests: 1}}), id(dataset.Query{Reading: dataset.Reading{BatchRequests: 2}}))

	q := withRequests(dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 1}, Reading: dataset.Reading{Endpoints: dataset.EndpointsSplits, Columns: itemAndRequest}}, 2)
	splits, err := scenario.Read(t.Context(), c.Loader(), q)
	require.NoError(t, err)
	require.Len(t, splits, 2)
	given := func(s scenario.Shard) (counted []int64) {
		for _, cursor := range s.Cursors {
			counted = append(counted, cursor.Given)
		}
		return counted
	}
	require.Equal(t, []int64{2, 3}, given(splits[0]), "three requests of five rows")
	require.Equal(t, []int64{2}, given(splits[1]), "two rows without a key")
	require.EqualValues(t, 5, splits[0].Report.Rows)
}

// TestEvenStepsOfRequests checks that counts are numbers of requests, and that all
// shards end at the same step however many rows the requests have.
//
// spec: request-7
func TestEvenStepsOfRequests(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 8, StagingBuckets: []int{4}, BatchRows: 5}
	steps := 0
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 10, 60), shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		leftOnly(c)
		for _, q := range []dataset.Query{{}, {Rows: dataset.Rows{Order: dataset.Shuffled, Seed: 3, ShuffleWindow: 7}}, {Rows: dataset.Rows{Filter: datasettest.Filter("item > 9")}}} {
			q.Dataset, q.Lanes, q.Columns, q.BatchRequests = "d", 4, itemAndRequest, 4
			q.Shard = dataset.Shard{Index: dataset.AllShards, Of: 2}
			whole, err := scenario.Read(t.Context(), c.Loader(), q)
			require.NoError(t, err)
			least, of := int64(1<<40), map[int]int64{}
			for _, lane := range []int{0, 1, 2, 3} {
				single := q
				single.Shard, single.BatchRequests = dataset.Shard{Index: lane, Of: 4}, 1
				one, err := scenario.Read(t.Context(), c.Loader(), single)
				require.NoError(t, err)
				of[lane] = one[0].Report.Requests
				require.Len(t, one[0].Batches, int(of[lane]), "a batch for each request")
				least = min(least, of[lane])
			}
			q.Tail = dataset.TailDrop
			shards, err := scenario.Read(t.Context(), c.Loader(), q)
			require.NoError(t, err)
			for i, s := range shards {
				require.Len(t, s.Batches, int(least/2))
				require.Equal(t, whole[i].Batches[:least/2], slices.Clip(append([][][]any{}, s.Batches...)))
				require.Equal(t, []int64{of[i], of[i+2]}, s.Report.Cursor.Counted.Lanes)
				for _, left := range s.Report.Leftover {
					require.Equal(t, of[left.Lane]-least/2*2, left.Requests)
				}
				steps += len(s.Batches)
			}
		}
		c.Release()
	}
	require.Greater(t, steps, 20/share)
}

// TestBatchRequestsAreRefused checks that queries that cannot have equal numbers of
// requests are refused with the name of the field.
//
// spec: request-8
func TestBatchRequestsAreRefused(t *testing.T) {
	t.Parallel()
	c, err := scenario.Random(3, scenario.Shape{TrainingBuckets: 2, StagingBuckets: []int{2}})
	require.NoError(t, err)
	defer c.Release()
	leftOnly(c)
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 2}, Reading: dataset.Reading{BatchRequests: 2, Columns: itemAndRequest}}
	byRows := q
	byRows.BatchRequests, byRows.BatchRows = 0, 2
	cursorOf := func(q dataset.Query) dataset.Cursors {
		shards, err := scenario.Read(t.Context(), c.Loader(), q)
		require.NoError(t, err)
		return dataset.Cursors{shards[0].Cursors[0]}
	}
	requests, rows := cursorOf(q), cursorOf(byRows)
	for what, change := range map[string]func(q *dataset.Query){
		"batch_requests: cannot be combined with batch_rows":        func(q *dataset.Query) { q.BatchRows = 2 },
		"batch_requests: cannot be combined with global_batch_rows": func(q *dataset.Query) { q.GlobalBatchRows = 2 },
		"batch_requests: must be at least 1":                        func(q *dataset.Query) { q.BatchRequests = -2 },
		"limit: it counts rows":                                     func(q *dataset.Query) { q.Limit = 4 },
		"separates the rows of a request":                           func(q *dataset.Query) { q.Order, q.Shuffle = dataset.Shuffled, dataset.ShuffleRows },
		"3 cannot be divided among the 2 lanes":                     func(q *dataset.Query) { q.BatchRequests = 3 },
		"the cursor counts rows, not requests":                      func(q *dataset.Query) { q.Cursor = rows },
		"the cursor counts requests, not rows":                      func(q *dataset.Query) { q.Cursor, q.BatchRequests = requests, 0 },
	} {
		asked := q
		change(&asked)
		_, err := c.Loader().Plan(t.Context(), asked)
		require.Equal(t, fault.Invalid, fault.KindOf(err), what)
		require.ErrorContains(t, err, what)
	}
	c.Dataset.Key, c.Dataset.Staging = nil, nil
	_, err = loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan}).Plan(t.Context(), q)
	require.ErrorContains(t, err, "requests are identified by the dataset's key, and it has none")
}
