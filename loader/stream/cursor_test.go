package stream_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
)

// TestBadReadings checks that a reading that does not fit the plan is refused before a
// row is read, with the field and the remedy.
//
// spec: cursor-13, cursor-18, cursor-22
func TestBadReadings(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	two := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 4}, Reading: dataset.Reading{BatchRows: 4, Shard: dataset.Shard{Index: dataset.AllShards, Of: 2}}}
	shards, err := scenario.Read(context.Background(), c.Loader(), two)
	require.NoError(t, err)
	cursor := func(shard, step int) dataset.Cursor { return shards[shard].Cursors[step] }
	foreign, beyond := cursor(0, 1), cursor(0, 1)
	foreign.Plan, foreign.Seed = "other", 99
	beyond.At = append([]dataset.Position{}, beyond.At...)
	beyond.At[0].Row = 1 << 40
	ofAnother := cursor(0, 1)
	ofAnother.Dataset, ofAnother.Pin.Staging = "other", map[string]dataset.TablePin{"history": {}}
	otherPin := cursor(0, 1).Pin
	otherPin.Training.Snapshot++
	with := func(change func(*dataset.Query)) dataset.Query {
		q := two
		change(&q)
		return q
	}
	for name, bad := range map[string]struct {
		query dataset.Query
		field string
		text  string
	}{
		"shard outside":    {with(func(q *dataset.Query) { q.Shard.Index = 2 }), "shard", "outside"},
		"shards and lanes": {with(func(q *dataset.Query) { q.Shard.Of = 3 }), "shard.of", "3 shards do not divide 4 lanes; set lanes"},
		"batch rows":       {with(func(q *dataset.Query) { q.BatchRows = 5 }), "batch_rows", "use a multiple of 2, such as 4"},
		"foreign cursor":   {with(func(q *dataset.Query) { q.Cursor = dataset.Cursors{foreign} }), "cursor[0]", "another plan"},
		"another dataset":  {with(func(q *dataset.Query) { q.Cursor = dataset.Cursors{ofAnother} }), "cursor[0]", "staging (history, not s0, s1)"},
		"other query":      {with(func(q *dataset.Query) { q.Cursor, q.Seed = dataset.Cursors{cursor(0, 1), cursor(1, 1)}, 4 }), "cursor[0]", "another plan"},
		"other filter": {with(func(q *dataset.Query) {
			q.Cursor, q.Filter = dataset.Cursors{cursor(0, 1), cursor(1, 1)}, datasettest.Filter("item>2")
		}), "filter", "item > 2, but the cursor has none"},
		"different steps":    {with(func(q *dataset.Query) { q.Cursor = dataset.Cursors{cursor(0, 1), cursor(1, 2)} }), "cursor[0]", "after the same step"},
		"lanes not covered":  {with(func(q *dataset.Query) { q.Cursor = dataset.Cursors{cursor(0, 1)} }), "cursor", "do not cover lane 1"},
		"lane twice":         {with(func(q *dataset.Query) { q.Cursor = dataset.Cursors{cursor(0, 1), cursor(0, 1)} }), "cursor[1]", "lane 0 is already in cursor[0]"},
		"position beyond":    {with(func(q *dataset.Query) { q.Cursor = dataset.Cursors{beyond, cursor(1, 1)} }), "cursor.at", "lane 0 has no split"},
		"unknown column":     {with(func(q *dataset.Query) { q.Columns = []dataset.Column{{Column: "itme"}} }), "columns[0]", `did you mean "item"?`},
		"unknown in filter":  {with(func(q *dataset.Query) { q.Filter = datasettest.Filter("s0_uu = 1") }), "filter", `did you mean "s0_u"?`},
		"snapshots disagree": {with(func(q *dataset.Query) { q.Cursor, q.Pin = dataset.Cursors{cursor(0, 1)}, otherPin }), "snapshots", "other snapshots"},
		"pin of other names": {with(func(q *dataset.Query) { q.Pin = dataset.Pin{Staging: map[string]dataset.TablePin{"s00": {}}} }), "snapshots.staging", `no staging table "s00" (did you mean "s0"?)`},
	} {
		_, err := c.Loader().Plan(context.Background(), bad.query)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
		require.ErrorContains(t, err, bad.text, name)
		require.Equal(t, bad.field, fault.As(err).Faults[0].Field, name)
	}
	_, err = c.Loader().Plan(context.Background(), dataset.Query{Rows: dataset.Rows{Dataset: "dd"}})
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.ErrorContains(t, err, `did you mean "d"?`)
}

// TestInconsistentStepsAreRefused checks that a step that is inconsistent with the rows and
// positions of its cursor is refused, whether or not the plan has the number of rows.
//
// spec: cursor-25
func TestInconsistentStepsAreRefused(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for name, filter := range map[string]dataset.Filter{"rows that are known": {}, "rows that are not": datasettest.Filter("item >= 0")} {
		q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 4, Filter: filter}, Reading: dataset.Reading{BatchRows: 8, Shard: dataset.Shard{Index: dataset.AllShards, Of: 1}}}
		shards, err := scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err)
		came := shards[0].Cursors[1]
		require.Equal(t, int64(2), came.Step, name)
		for step, want := range map[int64]string{
			0:              "no step was returned, but each lane returned 4 rows",
			came.Given + 1: "5 steps were returned, but each lane returned 4 rows: a step returns at least one",
			came.Step:      "",
		} {
			q.Cursor = dataset.Cursors{came}
			q.Cursor[0].Step = step
			_, err := c.Loader().Plan(context.Background(), q)
			if want == "" {
				require.NoError(t, err, name)
				continue
			}
			require.ErrorContains(t, err, want, name)
			require.Equal(t, "cursor[0].step", fault.As(err).Faults[0].Field)
			require.Contains(t, fault.As(err).Remedy, "unchanged cursor")
		}
		begun := came
		begun.Given, begun.Step = 0, 0
		q.Cursor = dataset.Cursors{begun}
		_, err = c.Loader().Plan(context.Background(), q)
		require.ErrorContains(t, err, "no step was returned, but a lane is after rows of a split", name)
		begun = came
		begun.At = []dataset.Position{{Lane: 0}, {Lane: 1}, {Lane: 2}, {Lane: 3}}
		q.Cursor = dataset.Cursors{begun}
		_, err = c.Loader().Plan(context.Background(), q)
		require.ErrorContains(t, err, "2 steps were returned, but every lane is at its start", name)
		begun.Given, begun.Step = 0, 0
		q.Cursor = dataset.Cursors{begun}
		_, err = c.Loader().Plan(context.Background(), q)
		require.NoError(t, err, "%s: the start itself", name)
	}
}

// TestPositionsBeyondTheRows checks that, if a filter drops rows, a position that its
// lane does not have ends the stream when it is read, and that no row after it is lost.
//
// spec: cursor-22
func TestPositionsBeyondTheRows(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for name, order := range map[string]dataset.Query{
		"stored":   {},
		"shuffled": {Rows: dataset.Rows{Order: dataset.Shuffled, ShuffleWindow: 4}},
	} {
		q := loadertest.OneShard(1, 4)
		q.Order, q.ShuffleWindow, q.Filter = order.Order, order.ShuffleWindow, datasettest.Filter("item >= 0")
		shards, err := scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err, name)
		cursor := shards[0].Cursors[0]
		cursor.At = []dataset.Position{cursor.At[0]}
		cursor.At[0].Row += 1 << 40
		q.Cursor = dataset.Cursors{cursor}
		_, err = scenario.Read(context.Background(), c.Loader(), q)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
		require.Equal(t, "cursor.at", fault.As(err).Faults[0].Field, name)
	}
}

// TestRowsThatDoNotFit checks that a cursor whose number of rows differs from what its
// lanes returned is refused, since the steps depend on it.
//
// spec: cursor-6
func TestRowsThatDoNotFit(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 4}, Reading: dataset.Reading{BatchRows: 8, Shard: dataset.Shard{Index: 0, Of: 1}, Tail: dataset.TailDrop}}
	shards, err := scenario.Read(context.Background(), c.Loader(), q)
	require.NoError(t, err)
	for _, cursor := range []dataset.Cursor{shards[0].Cursors[0], shards[0].Cursors[1]} {
		for _, by := range []int64{-1, 1, 1 << 40} {
			wrong := cursor
			wrong.Given += by
			q.Cursor = dataset.Cursors{wrong}
			_, err := c.Loader().Plan(context.Background(), q)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.Equal(t, "cursor.rows", fault.As(err).Faults[0].Field)
		}
	}
}

// TestFinishedCursor checks that a stream from a finished cursor has the schema, no
// batch, and the report.
//
// spec: cursor-8, cursor-14
func TestFinishedCursor(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for _, filter := range []string{"", "item >= 0"} {
		q := loadertest.OneShard(4, 8)
		q.Filter = datasettest.Filter(filter)
		shards, err := scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err)
		end := shards[0].Cursors[len(shards[0].Cursors)-1]
		require.Equal(t, shards[0].Report.Cursor, end, "the last batch's cursor is the end")
		q.Cursor, q.Filter = dataset.Cursors{end}, dataset.Filter{} // the filter comes from the cursor
		c.Scanned = map[string]int{}
		rest, err := scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err)
		require.Empty(t, rest[0].Batches)
		require.Equal(t, shards[0].Schema, rest[0].Schema)
		require.Equal(t, end, rest[0].Report.Cursor)
		require.Empty(t, c.Scanned, "nothing is read")
	}
}

// TestFinishedCursorHasTheNumberOfRows checks that a finished cursor has the number of rows
// that its lanes returned, not that of full steps. Shards that ended at different steps
// can resume together.
//
// spec: cursor-6, cursor-15, cursor-17
func TestFinishedCursorHasTheNumberOfRows(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long item:long", "bucket(7,id)", 1003, func(i int) string { return fmt.Sprint(i, " ", i) }).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	for _, filter := range []string{"", "item >= 0"} {
		q := loadertest.OneShard(1, 64)
		q.Filter = datasettest.Filter(filter)
		whole, err := scenario.Read(t.Context(), l, q)
		require.NoError(t, err)
		end := whole[0].Report.Cursor
		require.Equal(t, []int64{1003, 16}, []int64{end.Given, end.Step})
		require.Equal(t, end, whole[0].Cursors[15])
		require.Equal(t, []int64{960, 15}, []int64{whole[0].Cursors[14].Given, whole[0].Cursors[14].Step})

		q.Filter = datasettest.Filter("item < 900 OR id = 1002")
		q.Lanes, q.Shard, q.BatchRows = 4, dataset.Shard{Index: dataset.AllShards, Of: 4}, 32
		shards, err := scenario.Read(t.Context(), l, q)
		require.NoError(t, err)
		ended := dataset.Cursors{}
		rows := int64(0)
		for _, s := range shards {
			require.Equal(t, int64(len(s.Rows())), s.Report.Cursor.Given, "of one lane")
			ended, rows = append(ended, s.Report.Cursor), max(rows, s.Report.Cursor.Given)
		}
		q.Cursor, q.Shard.Of, q.Filter = ended, 2, dataset.Filter{}
		rest, err := scenario.Read(t.Context(), l, q)
		require.NoError(t, err)
		for _, s := range rest {
			require.Empty(t, s.Batches)
			require.Equal(t, rows, s.Report.Cursor.Given)
		}
		steps := len(slices.MinFunc(shards, func(a, b scenario.Shard) int { return len(a.Cursors) - len(b.Cursors) }).Cursors)
		q.Cursor = nil
		left := 0
		for _, s := range shards {
			q.Cursor = append(q.Cursor, s.Cursors[steps-1])
			left += len(s.Rows()) - len(slices.Concat(s.Batches[:steps]...))
		}
		q.Shard.Of = 1
		rest, err = scenario.Read(t.Context(), l, q)
		require.NoError(t, err)
		require.Len(t, rest[0].Rows(), left)
	}
}

// TestForeignCursors checks that a cursor of another plan is refused with each field
// that differs, even if the plan's id is the same, and with the id only if no field
// differs.
//
// spec: cursor-20
func TestForeignCursors(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	q := dataset.Query{
		Rows:    dataset.Rows{Dataset: "d", Lanes: 4, Filter: datasettest.Filter("item >= 0"), Sample: &dataset.Sample{Rate: 0.5}, Order: dataset.Shuffled, Shuffle: dataset.ShuffleRequests, ShuffleWindow: 64, Seed: 1, Epoch: 1},
		Reading: dataset.Reading{BatchRows: 8, Shard: dataset.Shard{Of: 1}},
	}
	shards, err := scenario.Read(t.Context(), c.Loader(), q)
	require.NoError(t, err)
	came := shards[0].Cursors[0]
	q.Cursor = dataset.Cursors{came}
	_, err = c.Loader().Plan(t.Context(), q)
	require.NoError(t, err)
	for _, test := range []struct {
		change func(c *dataset.Cursor)
		want   []string
	}{
		{func(c *dataset.Cursor) { c.Algorithm = 99 }, []string{"algorithm (99, not 1)"}},
		{func(c *dataset.Cursor) { c.Dataset = "0123" }, []string{"dataset (0123, not " + came.Dataset + ")"}},
		{func(c *dataset.Cursor) { c.Filter = datasettest.Filter("item >= 1") }, []string{"filter (item >= 1, not item >= 0)"}},
		{func(c *dataset.Cursor) { c.Sample = &dataset.Sample{Rate: 0.25} }, []string{`sample ({"rate":0.25}, not {"rate":0.5})`}},
		{func(c *dataset.Cursor) { c.Shuffle = dataset.ShuffleRows }, []string{"shuffle (rows, not requests)"}},
		{func(c *dataset.Cursor) { c.ShuffleWindow = 32 }, []string{"shuffle_window (32, not 64)"}},
		{func(c *dataset.Cursor) { c.Seed, c.Epoch = 3, 4 }, []string{"seed (3, not 1)", "epoch (4, not 1)"}},
		{func(c *dataset.Cursor) { c.Lanes = 8 }, []string{"lanes (8, not 4)"}},
		{func(*dataset.Cursor) {}, nil},
	} {
		for _, id := range []string{came.Plan, "0123"} {
			foreign := came
			foreign.Plan = id
			test.change(&foreign)
			want := test.want
			if want == nil {
				if id == came.Plan {
					continue
				}
				want = []string{"plan (0123, not " + came.Plan + ")"}
			}
			q.Cursor = dataset.Cursors{foreign}
			_, err := c.Loader().Plan(t.Context(), q)
			require.Equal(t, fault.Invalid, fault.KindOf(err), want)
			require.Equal(t, want, fault.As(err).Differs)
			require.Equal(t, foreign.Algorithm == 99, strings.Contains(fault.As(err).Remedy, "a server that plans by algorithm 99"))
		}
	}
}

// TestCursorsOfTwoRuns checks that all cursors of a list must be of one plan, and that
// the error names each field that differs from the first cursor.
//
// spec: cursor-16
func TestCursorsOfTwoRuns(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	read := func(q dataset.Query) dataset.Cursors {
		shards, err := scenario.Read(t.Context(), c.Loader(), q)
		require.NoError(t, err)
		return dataset.Cursors{shards[0].Cursors[0], shards[1].Cursors[0]}
	}
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 4}, Reading: dataset.Reading{BatchRows: 8, Shard: dataset.Shard{Index: dataset.AllShards, Of: 2}}}
	ours := read(q)
	q.Filter, q.Order, q.Seed = datasettest.Filter("item >= 1"), dataset.Shuffled, 7
	theirs := read(q)
	for _, test := range []struct {
		change func(c *dataset.Cursor)
		want   []string
	}{
		{func(c *dataset.Cursor) { *c = theirs[1] }, []string{
			"filter (item >= 1, not none)", "order (shuffled, not stored)", "shuffle (requests, not splits)", "shuffle_window (131072, not none)", "shuffle_parts (8, not none)", "seed (7, not 0)",
		}},
		{func(c *dataset.Cursor) { c.Pin.Training.Snapshot += 3 }, []string{
			fmt.Sprintf("pin.training snapshot (%d, not %d)", ours[0].Pin.Training.Snapshot+3, ours[0].Pin.Training.Snapshot),
		}},
		{func(c *dataset.Cursor) { c.Plan = "0123" }, []string{"plan (0123, not " + ours[0].Plan + ")"}},
	} {
		other := ours[1]
		test.change(&other)
		_, err := c.Loader().Plan(t.Context(), dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{Shard: dataset.Shard{Of: 1}, Cursor: dataset.Cursors{ours[0], other}}})
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.Equal(t, test.want, fault.As(err).Differs)
		require.ErrorContains(t, err, "cursor[1]: the cursor is of another run than cursor[0]; what differs: "+test.want[0])
	}
	_, err := c.Loader().Plan(t.Context(), dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{Shard: dataset.Shard{Of: 1}, Cursor: ours}})
	require.NoError(t, err)
}

// TestCursorCounts follows the cursors of two shards batch by batch.
//
// spec: cursor-6, cursor-7, cursor-9
func TestCursorCounts(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 4}, Reading: dataset.Reading{BatchRows: 6, Shard: dataset.Shard{Index: dataset.AllShards, Of: 2}}}
	p, err := c.Loader().Plan(context.Background(), q)
	require.NoError(t, err)
	shards, err := scenario.Read(context.Background(), c.Loader(), q)
	require.NoError(t, err)
	for i, s := range shards {
		given := map[int]int64{}
		for step, cursor := range s.Cursors {
			require.Equal(t, dataset.Shard{Index: i, Of: 2}, cursor.Shard)
			require.Equal(t, int64(step+1), cursor.Step)
			require.Equal(t, int64(3*(step+1)), cursor.Given)
			rows := int64(0)
			for _, at := range cursor.At {
				before := at.Row
				for _, one := range p.Lanes[at.Lane].Ranges[:at.Range] {
					before += one.To - one.From
				}
				rows += before - given[at.Lane]
				given[at.Lane] = before
			}
			require.Equal(t, int64(len(s.Batches[step])), rows, "the positions moved by the rows of the batch")
		}
		require.Equal(t, s.Cursors[len(s.Cursors)-1], s.Report.Cursor)
	}
}

// TestResumeReadsOneSplitAgain checks that a resumed stream opens only the training
// files of the remaining ranges.
//
// spec: cursor-12
func TestResumeReadsOneSplitAgain(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for _, filter := range []string{"", "item >= 2"} {
		q := loadertest.OneShard(2, 4)
		q.Filter = datasettest.Filter(filter)
		p, err := c.Loader().Plan(context.Background(), q)
		require.NoError(t, err)
		shards, err := scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err)
		for _, cursor := range shards[0].Cursors {
			left := map[string]bool{}
			for _, at := range cursor.At {
				for _, one := range p.Lanes[at.Lane].Ranges[at.Range:] {
					for _, f := range p.Training(one).Files {
						left[f.File.Location] = true
					}
				}
			}
			c.Scanned = map[string]int{}
			q.Cursor = dataset.Cursors{cursor}
			_, err := scenario.Read(context.Background(), c.Loader(), q)
			require.NoError(t, err)
			for file := range c.Scanned {
				if strings.HasPrefix(file, "mem:///ml.train") {
					require.True(t, left[file], file)
				}
			}
		}
	}
}

// TestOneCursorIsEnough checks that a query with only a cursor resumes as the cursor's
// shard.
func TestOneCursorIsEnough(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 4}, Reading: dataset.Reading{BatchRows: 4, Shard: dataset.Shard{Index: 1, Of: 2}}}
	shards, err := scenario.Read(context.Background(), c.Loader(), q)
	require.NoError(t, err)
	rest, err := scenario.Read(context.Background(), c.Loader(), dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{BatchRows: 4, Cursor: dataset.Cursors{shards[0].Cursors[0]}}})
	require.NoError(t, err)
	require.Len(t, rest, 1)
	require.Equal(t, shards[0].Batches[1:], rest[0].Batches)
}

// TestCursorsKeepTheirAlgorithm: new runs have the algorithm that the query names, or 1. Each cursor of a stream reads the rest of it,
// also if the query names no algorithm. A query with another algorithm than its cursor is invalid.
//
// spec: order-32, cursor-11
func TestCursorsKeepTheirAlgorithm(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	whole := map[int][][][]any{}
	for _, algorithm := range []int{1, 2} {
		q := dataset.Query{
			Rows:    dataset.Rows{Dataset: "d", Lanes: 4, Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, Seed: 1, Epoch: 3},
			Reading: dataset.Reading{BatchRows: 8, Shard: dataset.Shard{Of: 1}},
		}
		if algorithm == 2 {
			q.Algorithm = 2
		}
		read, err := scenario.Read(t.Context(), c.Loader(), q)
		require.NoError(t, err)
		whole[algorithm] = read[0].Batches
		for i, cursor := range read[0].Cursors {
			require.Equal(t, algorithm, cursor.Algorithm)
			q.Cursor = dataset.Cursors{cursor}
			for _, q.Algorithm = range []int{0, algorithm} {
				rest, err := scenario.Read(t.Context(), c.Loader(), q)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(read[0].Batches[i+1:]), fmt.Sprint(rest[0].Batches))
			}
		}
		q.Algorithm = 3 - algorithm
		_, err = scenario.Read(t.Context(), c.Loader(), q)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, fmt.Sprintf("algorithm (%d, not %d)", algorithm, q.Algorithm))
	}
	require.Len(t, whole[2], len(whole[1]))
	require.NotEqual(t, whole[1], whole[2])
}
