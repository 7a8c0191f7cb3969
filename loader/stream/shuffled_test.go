package stream_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan"
)

// row identifies a training row and its request.
type row struct {
	item    int64
	request string // "": none
}

// itemsOf reads the item and the request of the rows of a query, in order.
func itemsOf(t *testing.T, c *scenario.Made, q dataset.Query) []row {
	t.Helper()
	q.Columns = []dataset.Column{{Column: "item"}, {Column: "request_id"}}
	given, err := loadertest.ReadAll(t, c, q)
	require.NoError(t, err)
	return itemRows(given)
}

// itemRows makes rows from the values of item and request.
func itemRows(given [][]any) []row {
	out := make([]row, len(given))
	for i, values := range given {
		out[i].item = values[0].(int64)
		if values[1] != nil {
			out[i].request = fmt.Sprint(values[1])
		}
	}
	return out
}

// leftOnly makes a case keep every training row once.
func leftOnly(c *scenario.Made) {
	c.Dataset.Training.Filter = dataset.Filter{}
	for i := range c.Dataset.Staging {
		c.Dataset.Staging[i].Join, c.Dataset.Staging[i].Duplicates = rule.Left, rule.DuplicatesFirst
	}
}

// TestWindows checks that the rows of each window come before those of the next, each
// once, and that the rows of a request are adjacent, in stored order.
//
// spec: order-22, order-23, order-24, order-28, order-29
func TestWindows(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 2, StagingBuckets: []int{3}}
	moved := 0
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 10, 60), shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		leftOnly(c)
		for _, shuffle := range []dataset.Shuffle{dataset.ShuffleRequests, dataset.ShuffleRows} {
			for _, window := range []int64{1, 4, 9, 1000} {
				q := dataset.Query{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: shuffle, ShuffleWindow: window, ShuffleParts: 1 + int64(seed%9), Seed: int64(seed), Lanes: 1}}
				got := itemsOf(t, c, q)
				for _, stored := range windowsOf(t, c, q) {
					given := got[:len(stored)]
					got = got[len(stored):]
					require.ElementsMatch(t, stored, given)
					if !slices.Equal(stored, given) {
						moved++
					}
					if shuffle == dataset.ShuffleRequests {
						requireTogether(t, stored, given)
					}
				}
				require.Empty(t, got)
			}
		}
		c.Release()
	}
	require.Greater(t, moved, 50/share, "most windows are not as they were stored")
}

// requireTogether checks that the rows of each request are adjacent, in stored order. A
// row without a request is a group of its own.
func requireTogether(t *testing.T, stored, given []row) {
	t.Helper()
	done := map[string]bool{}
	for i := 0; i < len(given); {
		request := given[i].request
		if request == "" {
			i++
			continue
		}
		require.False(t, done[request], "the rows of %s stand together", request)
		done[request] = true
		for _, r := range stored {
			if r.request == request {
				require.Equal(t, r, given[i])
				i++
			}
		}
	}
}

// TestDroppedRowsLeaveTheOrder checks that a filter, a sample and an inner join only
// drop rows of the full read and keep the order of the others.
//
// spec: order-25
func TestDroppedRowsLeaveTheOrder(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 4, StagingBuckets: []int{6}}
	dropped := 0
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 10, 60), shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		leftOnly(c)
		for _, q := range loadertest.Orders() {
			q.Seed, q.Lanes = int64(seed), 1
			all := itemsOf(t, c, q)
			less := func(what string, q dataset.Query) {
				got := itemsOf(t, c, q)
				kept := map[row]int{}
				for _, r := range got {
					kept[r]++
				}
				want := []row{}
				for _, r := range all {
					if kept[r] > 0 {
						want = append(want, r)
					}
				}
				dropped += len(all) - len(got)
				require.Equal(t, want, append([]row{}, got...), "seed %d, %s, %+v", seed, what, q)
			}
			filtered, sampled := q, q
			filtered.Filter = datasettest.Filter("item >= 3 AND item <> 7")
			less("filter", filtered)
			sampled.Sample = &dataset.Sample{Rate: 0.5}
			less("sample", sampled)
			c.Dataset.Staging[0].Join = rule.Inner
			less("inner join", q)
			c.Dataset.Staging[0].Join = rule.Left
		}
		c.Release()
	}
	require.Greater(t, dropped, 500/share)
}

// TestShufflesAreUniform checks over many epochs that no row and no request favors a
// position. It applies Pearson's chi-squared test to how often each row had each
// position, at a significance level of one in a thousand.
//
// spec: order-24
func TestShufflesAreUniform(t *testing.T) {
	t.Parallel()
	onlyWhole(t)
	shape := scenario.Shape{TrainingBuckets: 1, StagingBuckets: []int{1}}
	tested := 0
	for _, seed := range loadertest.Seeds(t, 12, shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		leftOnly(c)
		for _, shuffle := range []dataset.Shuffle{dataset.ShuffleRequests, dataset.ShuffleRows} {
			q := dataset.Query{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: shuffle, ShuffleWindow: 1000, Seed: int64(seed), Lanes: 1}}
			window := map[row]int{} // by row; which window comes first is drawn too
			windows := windowsOf(t, c, q)
			for i, w := range windows {
				for _, r := range w {
					window[r] = i
				}
			}
			draws := make([][][]row, len(windows)) // by window and epoch
			for epoch := range epochs {
				q.Epoch = int64(epoch)
				given := itemsOf(t, c, q)
				for len(given) > 0 {
					i := window[given[0]]
					draws[i] = append(draws[i], heads(given[:len(windows[i])], shuffle))
					given = given[len(windows[i]):]
				}
			}
			for _, d := range draws {
				if len(d[0]) >= 12 {
					requireUniform(t, d)
					tested++
				}
			}
		}
		c.Release()
	}
	require.Greater(t, tested, 5)
}

// heads returns the units of a shuffle: rows, or the first row of each request.
func heads(rows []row, shuffle dataset.Shuffle) []row {
	if shuffle == dataset.ShuffleRows {
		return rows
	}
	var out []row
	for i, r := range rows {
		switch {
		case r.request == "":
			out = append(out, r)
		case i == 0 || rows[i-1].request != r.request:
			out = append(out, row{request: r.request})
		}
	}
	return out
}

const epochs = 200

func requireUniform(t *testing.T, draws [][]row) {
	t.Helper()
	require.Len(t, draws, epochs)
	n := len(draws[0])
	stood := map[row][]float64{} // how often at each position
	for _, subject := range draws[0] {
		stood[subject] = make([]float64, n)
	}
	for _, drawn := range draws {
		require.Len(t, drawn, n)
		for place, subject := range drawn {
			stood[subject][place]++
		}
	}
	expected, sum := float64(epochs)/float64(n), 0.0
	for _, places := range stood {
		for _, times := range places {
			sum += (times - expected) * (times - expected) / expected
		}
	}
	// Wilson and Hilferty's cube root makes the sum a normal variable, of which one in
	// a thousand lies beyond 3.29 on either side.
	freedom := float64((n - 1) * (n - 1))
	z := (math.Cbrt(sum/freedom) - (1 - 2/(9*freedom))) / math.Sqrt(2/(9*freedom))
	require.Less(t, math.Abs(z), 3.29, "%d places, sum %f for %f degrees of freedom", n, sum, freedom)
}

// TestDividedRequests checks that the report counts the requests that are divided.
//
// spec: order-26
func TestDividedRequests(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 1, StagingBuckets: []int{3}}
	total := int64(0)
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 10, 60), shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		leftOnly(c)
		for lanes := 1; lanes <= 3; lanes++ {
			for _, window := range []int64{3, 10, 1000} {
				q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Order: dataset.Shuffled, ShuffleWindow: window, Seed: 4, Lanes: lanes}, Reading: dataset.Reading{BatchRows: lanes * 2}}
				want := dividedBy(t, c, q)
				shards, err := scenario.Read(t.Context(), c.Loader(), q)
				require.NoError(t, err)
				require.Equal(t, want, shards[0].Report.Divided, "seed %d, %d lanes, windows of %d", seed, lanes, window)
				total += want
			}
		}
		c.Release()
	}
	require.Greater(t, total, int64(20))
}

// dividedBy returns how many times the windows of a query divide a request, according to the stored rows.
func dividedBy(t *testing.T, c *scenario.Made, q dataset.Query) int64 {
	t.Helper()
	stored := storedRows(t, c, q)
	p, err := c.Loader().Plan(t.Context(), q)
	require.NoError(t, err)
	windows, divided := windowsOfPlan(p.Plan), int64(0)
	for i, split := range p.Splits {
		rows := stored[split.ID]
		for k := 1; k < len(rows); k++ {
			same := rows[k].request != "" && rows[k].request == rows[k-1].request
			if same && windows[storedRow{i, int64(k)}] != windows[storedRow{i, int64(k - 1)}] {
				divided++
			}
		}
	}
	return divided
}

// TestResumeReadsOneWindowAgain checks that a resumed stream reads no stored row of the windows before
// that of its position, except a row before each section, which shows whether a request began there.
//
// spec: cursor-12
func TestResumeReadsOneWindowAgain(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 1, StagingBuckets: []int{3}}
	later := 0
	for _, seed := range loadertest.Seeds(t, 4, shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		leftOnly(c)
		read := map[string]map[int64]bool{} // rows by file
		l := loader.New(loader.Options{
			Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World,
			Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
				for _, f := range source.Files {
					for row := f.From; source.Ordinals && row < f.To; row++ {
						if read[f.File.Location] == nil {
							read[f.File.Location] = map[int64]bool{}
						}
						read[f.File.Location][row] = true
					}
				}
				return c.Scan(ctx, source, columns)
			},
		})
		q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Order: dataset.Shuffled, ShuffleWindow: 5, ShuffleParts: 2}, Reading: dataset.Reading{BatchRows: 3}}
		shards, err := scenario.Read(t.Context(), l, q)
		require.NoError(t, err)
		p, err := l.Plan(t.Context(), q)
		require.NoError(t, err)
		require.Empty(t, p.Inexact)
		windows := windowsOfPlan(p.Plan)
		for _, cursor := range shards[0].Cursors {
			at := cursor.At[0]
			if at.Range == len(p.Lanes[0].Ranges) {
				continue
			}
			clear(read)
			resumed := q
			resumed.Cursor = dataset.Cursors{cursor}
			_, err := scenario.Read(t.Context(), l, resumed)
			require.NoError(t, err)
			first := p.Lanes[0].Ranges[at.Range]
			run, again := windows[storedRow{first.Split, first.From}].run, 0
			for row, window := range windows {
				before := window.run < run || window.run == run && window.window < at.Window
				file, number := placeOf(p.Splits[row.split], row.row)
				switch {
				case !before:
					require.True(t, read[file][number], "row %v of %v", row, window)
				case read[file][number]:
					again++
				}
			}
			require.LessOrEqual(t, again, 2*2+len(p.Lanes[0].Ranges), "two sections of each part, and more where ranges meet")
			if at.Window > 0 {
				later++
			}
		}
		c.Release()
	}
	require.Greater(t, later, 20/share)
}

// placeOf returns the file and the row there of a row of a split.
func placeOf(s plan.Split, row int64) (file string, number int64) {
	for _, f := range s.Files {
		if row < f.To-f.From {
			return f.File.Location, f.From + row
		}
		row -= f.To - f.From
	}
	return "", 0
}
