package stream_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
)

// TestLimit ends streams after each number of rows and checks that these are the first
// rows, in the same batches, and that a resumed stream returns all other rows once.
//
// spec: endpoint-10, endpoint-12, endpoint-13
func TestLimit(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	uneven := 0
	for _, lanes := range []int{1, 3} {
		for _, filter := range []string{"", "item >= 2"} {
			q := loadertest.OneShard(lanes, 4*lanes)
			q.Filter = datasettest.Filter(filter)
			whole, err := scenario.Read(context.Background(), c.Loader(), q)
			require.NoError(t, err)
			all := scenario.Texts(whole[0].Rows())
			for n := 1; n <= len(all)+3; n += share {
				q.Limit = int64(n)
				got, err := scenario.Read(context.Background(), c.Loader(), q)
				require.NoError(t, err)
				given := min(n, len(all))
				require.Equal(t, all[:given], scenario.Texts(got[0].Rows()))
				full := given / (4 * lanes)
				require.Equal(t, whole[0].Batches[:full], got[0].Batches[:full])
				alike := len(got[0].Cursors) - 1 // equal in all but the batch that the limit ends
				if n > len(all) {
					alike++
				}
				require.Equal(t, whole[0].Cursors[:alike], got[0].Cursors[:alike])
				end := got[0].Report.Cursor
				require.Equal(t, int64(given), got[0].Report.Rows)
				require.Equal(t, end, got[0].Cursors[len(got[0].Cursors)-1])
				last := given - (len(got[0].Batches)-1)*4*lanes // rows of the last step
				require.Equal(t, int64(len(got[0].Batches)), end.Step)
				if n < len(all)-4*lanes { // no lane ends here
					require.Equal(t, int64(4*(len(got[0].Batches)-1)+min(4, last)), end.Given)
					require.Equal(t, lanes > 1 && last < 4*lanes, end.Uneven)
				}
				rest := readTexts(t, c.Loader(), dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{BatchRows: 2 * lanes, Cursor: dataset.Cursors{end}}})
				if lanes == 1 {
					require.Equal(t, all[given:], append([]string{}, rest...))
				}
				require.Equal(t, loadertest.Sorted(all[given:]), loadertest.Sorted(rest), "behind %d rows", n)
				if end.Uneven {
					uneven++
					several := dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{Cursor: dataset.Cursors{end}, Shard: dataset.Shard{Index: dataset.AllShards, Of: 3}}}
					shards, err := scenario.Read(context.Background(), c.Loader(), several)
					require.NoError(t, err)
					var rows []string
					for _, s := range shards {
						rows = append(rows, scenario.Texts(s.Rows())...)
						require.True(t, s.Report.Cursor.Uneven)
					}
					require.Equal(t, loadertest.Sorted(all[given:]), loadertest.Sorted(rows), "in three shards")
				}
			}
		}
	}
	require.Positive(t, uneven)
}

// TestLimitAfterLimit goes from cursor to cursor and checks that each limit counts from
// its cursor.
//
// spec: endpoint-10
func TestLimitAfterLimit(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	q := loadertest.OneShard(1, 4)
	want := readTexts(t, c.Loader(), q)
	var rows []string
	q.Limit = 5
	for {
		got, err := scenario.ReadBetween(context.Background(), c.Loader(), q, func(s loader.Stream) { s.Park(false) })
		require.NoError(t, err)
		if got[0].Report.Rows == 0 {
			break
		}
		require.LessOrEqual(t, got[0].Report.Rows, int64(5))
		rows = append(rows, scenario.Texts(got[0].Rows())...)
		q.Cursor = dataset.Cursors{got[0].Report.Cursor}
		if len(rows) < len(want) {
			require.Equal(t, int64(len(rows)), q.Cursor[0].Given)
		}
		require.Less(t, len(rows), len(want)+5)
	}
	require.Equal(t, want, rows)
	q = loadertest.OneShard(2, 4)
	q.Limit = 3
	got, err := scenario.Read(context.Background(), c.Loader(), q)
	require.NoError(t, err)
	next := dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{Tail: dataset.TailDrop, Cursor: dataset.Cursors{got[0].Report.Cursor}}}
	_, err = c.Loader().Plan(context.Background(), next)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "before this cursor the lanes returned different or unknown numbers of rows")
	require.Equal(t, "tail", fault.As(err).Faults[0].Field)
}

// TestLimitReadsNoFurther checks that a stream does not search for rows after its last
// one, however rare they are.
//
// spec: endpoint-10
func TestLimitReadsNoFurther(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long day:long", "day", 40, func(i int) string { return fmt.Sprint(i, i/4) }).In(t, w)
	d := dataset.Dataset{Name: "d", Training: dataset.Training{Table: "ml.train"}}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Filter: datasettest.Filter("id < 6")}, Reading: dataset.Reading{Limit: 6}}
	require.Len(t, readTexts(t, l, q), 6)
	pruned := len(w.Scanned)
	w.Scanned = map[string]int{}
	q.Filter = datasettest.Filter("id <> 6 AND id <> 7")
	require.Len(t, readTexts(t, l, q), 6)
	require.Equal(t, 2, pruned)
	require.Len(t, w.Scanned, 2)
}

// TestGlobalBatchRows checks that steps have the same rows with any number of shards,
// even if that number changes at any step.
//
// spec: endpoint-15
func TestGlobalBatchRows(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 4}, Reading: dataset.Reading{GlobalBatchRows: 8}}
	var want [][]string
	cursors := map[int][]dataset.Cursors{} // by shards and step
	for _, of := range []int{1, 2, 4} {
		q.Shard = dataset.Shard{Index: dataset.AllShards, Of: of}
		shards, err := scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err)
		require.Len(t, shards[0].Batches[0], 8/of)
		steps := loadertest.GlobalSteps(shards)
		if of == 1 {
			want = steps
		}
		require.Equal(t, want, steps, "%d shards", of)
		for step := range want {
			var at dataset.Cursors
			for _, s := range shards {
				at = append(at, s.Cursors[min(step, len(s.Cursors)-1)])
			}
			cursors[of] = append(cursors[of], at)
		}
	}
	for from, saved := range cursors {
		for step, at := range saved {
			for _, of := range []int{1, 2, 4} {
				next := dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{Cursor: at, GlobalBatchRows: 8, Shard: dataset.Shard{Index: dataset.AllShards, Of: of}}}
				shards, err := scenario.Read(context.Background(), c.Loader(), next)
				require.NoError(t, err)
				require.Equal(t, want[step+1:], append([][]string{}, loadertest.GlobalSteps(shards)...), "from %d shards to %d behind step %d", from, of, step)
			}
		}
	}
}

// TestGlobalBatchesThatDoNotFit checks that errors state the rows of a step.
//
// spec: endpoint-17
func TestGlobalBatchesThatDoNotFit(t *testing.T) {
	t.Parallel()
	l := sized(t, 10, 4000)
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 4}, Reading: dataset.Reading{GlobalBatchRows: 4000, Shard: dataset.Shard{Index: dataset.AllShards, Of: 2}}}
	_, err := l.Plan(t.Context(), q)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Equal(t, "global_batch_rows", fault.As(err).Faults[0].Field)
	require.ErrorContains(t, err, "a batch of 2000 rows takes at least")
	fits := remedied(t, err)
	require.Zero(t, fits%4)
	q.GlobalBatchRows = fits
	_, err = l.Plan(t.Context(), q)
	require.NoError(t, err)

	l = sized(t, 100, 3000)
	q.GlobalBatchRows = 80
	_, err = l.Plan(t.Context(), q)
	require.NoError(t, err, "only the rows tell")
	_, err = scenario.Read(t.Context(), l, q)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	q.GlobalBatchRows = remedied(t, err)
	require.Zero(t, q.GlobalBatchRows%4)
	shards, err := scenario.Read(t.Context(), l, q)
	require.NoError(t, err)
	require.Len(t, slices.Concat(loadertest.GlobalSteps(shards)...), 60)

	_, err = l.Plan(t.Context(), dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 4}, Reading: dataset.Reading{GlobalBatchRows: 6}})
	require.ErrorContains(t, err, "such as 4 or 8")
}

// remedied returns the global_batch_rows that an error suggests.
func remedied(t *testing.T, err error) int {
	t.Helper()
	rest := fault.As(err).Remedy
	var n int
	_, failed := fmt.Sscanf(rest, "ask for global_batch_rows of at most %d", &n)
	require.NoError(t, failed, rest)
	require.NotEqual(t, "0", strconv.Itoa(n))
	return n
}
