package stream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// TestParkedStreamsGiveTheSame parks streams at random points and checks that rows,
// their order, cursors and reports are the same, except for what was read again.
//
// spec: wire-11
func TestParkedStreamsGiveTheSame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(11, 12))
	parked, again, changed := 0, int64(0), 0
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 40, 2000), func(c *scenario.Case) {
		if changed++; changed%2 == 0 {
			loadertest.KeepAllRows(c)
		}
	}) {
		c.ScanRows = 1 + random.IntN(9)
		loadertest.Resize(&c.Query, c.Query.Lanes*(1+random.IntN(6)))
		m := loadertest.Made(t, c)
		limit := budget.New(loadertest.Plenty)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{m.Dataset}, Catalog: m.World, Scan: m.Scan, Budget: limit})
		want, err := scenario.Read(context.Background(), l, c.Query)
		require.NoError(t, err, c.Name)
		often := 1 + random.IntN(4)
		got, err := scenario.ReadBetween(context.Background(), l, c.Query, func(s loader.Stream) {
			if random.IntN(often) == 0 && s.Park(false) {
				parked++
				require.Less(t, limit.Used(), int64(1<<20), c.Name)
				if limit.Used() < freePlan { // a larger plan is charged as long as its stream is open
					require.Zero(t, limit.Used(), "%s: a parked stream holds nothing", c.Name)
				}
				require.False(t, s.Park(false), "it is parked")
			}
		})
		require.NoError(t, err, c.Name)
		again += requireSameStreams(t, c, want, got)
		require.Zero(t, limit.Used())
	}
	require.Greater(t, parked, 200/share)
	require.Positive(t, again, "staging rows were read again")
}

// requireSameStreams checks that interrupted streams have the rows, order, cursors and reports of others, except for what was read
// again. It returns the staging rows that were read again.
func requireSameStreams(t *testing.T, c *scenario.Case, want, got []scenario.Shard) (again int64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, scenario.Texts(want[i].Rows()), scenario.Texts(got[i].Rows()), c.Name)
		require.Equal(t, want[i].Cursors, got[i].Cursors, c.Name)
		for name, of := range got[i].Report.Staging {
			again += of.ReadAgain
			of.ReadAgain = 0
			// What is built ahead counts, and may be dropped: for a range without
			// rows, or because another lane ends first.
			was := want[i].Report.Staging[name]
			of.Strategy, of.BytesRead, of.Amplification = was.Strategy, was.BytesRead, was.Amplification
			if c.Query.Limit > 0 { // so may joins ahead of the end
				of.Counts = was.Counts
			}
			got[i].Report.Staging[name] = of
		}
		if c.Query.Limit > 0 {
			got[i].Report.Divided = want[i].Report.Divided
		}
		require.Equal(t, want[i].Report, got[i].Report, c.Name)
	}
	return again
}

// freePlan is the plan size that is not charged to the budget.
const freePlan = 256 << 10

// TestParkedStreamsOnDisk is TestParkedStreamsGiveTheSame with staging rows on local
// disk.
func TestParkedStreamsOnDisk(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(13, 14))
	spilled := int64(0)
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 20, 500), func(*scenario.Case) {}) {
		m := loadertest.Made(t, c)
		want, err := scenario.Read(context.Background(), m.Loader(), c.Query)
		require.NoError(t, err, c.Name)
		s, create := loadertest.Disk(t, 0)
		limit := budget.New(20_000)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{m.Dataset}, Catalog: m.World, Scan: m.Scan, Budget: limit, Disk: create})
		got, err := scenario.ReadBetween(context.Background(), l, c.Query, func(s loader.Stream) {
			if random.IntN(3) == 0 {
				s.Park(false)
			}
		})
		if err != nil {
			continue // with this little memory some cannot be read, parked or not
		}
		for i := range want {
			require.Equal(t, scenario.Texts(want[i].Rows()), scenario.Texts(got[i].Rows()), c.Name)
			for name, of := range got[i].Report.Staging {
				spilled += of.SpilledBytes
				if c.Query.Limit == 0 { // otherwise more rows were read than returned
					require.Equal(t, want[i].Report.Staging[name].Counts, of.Counts, c.Name)
				}
			}
		}
		require.Zero(t, limit.Used())
		require.Zero(t, s.Stats().Used)
	}
	require.Positive(t, spilled)
}

// TestParkedAgainOnlyAfterProgress checks that a stream that had to read rows again is
// not parked under pressure until it has returned as many.
//
// spec: wire-12
func TestParkedAgainOnlyAfterProgress(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	w.BatchRows = 100 // rows of a joined batch, which are read again
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long", "", 90, strconv.Itoa).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "", 90, func(i int) string { return fmt.Sprint(i, -i) }).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	s := loadertest.Open(t, l, loadertest.OneShard(1, 4))
	defer s.Release()
	require.True(t, s.Next())
	require.True(t, s.Next())
	require.True(t, s.Park(true))
	require.True(t, s.Next())
	require.False(t, s.Park(true), "8 rows were read again, and 4 were given since")
	require.True(t, s.Next())
	require.True(t, s.Park(true))
	require.True(t, s.Next())
	require.True(t, s.Park(false), "without pressure")
}

// TestRowsReadAgainCountOnce checks that a stream parked between the first and the last
// row of a joined batch joins that batch again and counts its rows once.
//
// spec: wire-11
func TestRowsReadAgainCountOnce(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	w.BatchRows = 7 // rows of a joined batch
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long", "", 90, strconv.Itoa).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "", 60, func(i int) string { return fmt.Sprint(i, -i) }).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	for _, rows := range []int{1, 3, 4, 7, 10} {
		between := 0
		shards, err := scenario.ReadBetween(context.Background(), l, loadertest.OneShard(1, rows), func(s loader.Stream) {
			if s.Park(false) {
				between++
			}
		})
		require.NoError(t, err)
		require.GreaterOrEqual(t, between, 90/rows, "parked after each batch")
		counts := shards[0].Report.Staging["f"].Counts
		require.EqualValues(t, 90, counts.Rows, "batches of %d rows", rows)
		require.EqualValues(t, 60, counts.Matched, "batches of %d rows", rows)
		require.EqualValues(t, 30, counts.Missing, "batches of %d rows", rows)
	}
}

// TestParkedWorkersTakeTheirSteps checks that the stream of one of several DataLoader
// workers returns the same steps however often it is parked, and ends where the others
// do.
//
// spec: wire-11, step-1
func TestParkedWorkersTakeTheirSteps(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(15, 16))
	parked := 0
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 16, 500), loadertest.Whole) {
		m, q := loadertest.Made(t, c), c.Query
		q.Count = dataset.CountExact
		loadertest.Resize(&q, q.Lanes*(1+random.IntN(3)))
		if random.IntN(2) == 0 {
			q.Tail = dataset.TailDrop
		}
		of := 2 + random.IntN(3)
		for step := range of {
			q.Every = dataset.Every{Step: step, Of: of}
			want, err := scenario.Read(context.Background(), m.Loader(), q)
			require.NoError(t, err, c.Name)
			got, err := scenario.ReadBetween(context.Background(), m.Loader(), q, func(s loader.Stream) {
				if random.IntN(2) == 0 && s.Park(false) {
					parked++
				}
			})
			require.NoError(t, err, c.Name)
			require.Equal(t, want[0].Cursors, got[0].Cursors, c.Name)
			require.Equal(t, scenario.Texts(want[0].Rows()), scenario.Texts(got[0].Rows()), c.Name)
			w, g := want[0].Report, got[0].Report
			require.Equal(t, []any{w.Rows, w.Batches, w.Steps, w.Skipped, w.Leftover, w.Cursor}, []any{g.Rows, g.Batches, g.Steps, g.Skipped, g.Leftover, g.Cursor}, c.Name)
		}
	}
	require.Greater(t, parked, 50/share)
}

// TestParkedStreamsEndWithTheirSteps checks that parking does not change the rows that
// tail: drop leaves over.
//
// spec: wire-11
func TestParkedStreamsEndWithTheirSteps(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	q := loadertest.OneShard(3, 6)
	q.Tail = dataset.TailDrop
	want, err := scenario.Read(context.Background(), c.Loader(), q)
	require.NoError(t, err)
	require.NotEmpty(t, want[0].Report.Leftover)
	got, err := scenario.ReadBetween(context.Background(), c.Loader(), q, func(s loader.Stream) { s.Park(false) })
	require.NoError(t, err)
	require.Equal(t, want[0].Cursors, got[0].Cursors)
	require.Equal(t, want[0].Report.Leftover, got[0].Report.Leftover)
	require.Equal(t, scenario.Texts(want[0].Rows()), scenario.Texts(got[0].Rows()))
}

// TestParkingCountsDroppedRows checks that a join that drops the last rows of a window
// has counted them when the stream is parked at the window's end.
//
// spec: wire-12
func TestParkingCountsDroppedRows(t *testing.T) {
	t.Parallel()
	const window, kept = 30, 10
	w := scenario.NewWorld()
	w.BatchRows = kept // rows of a joined batch
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long", "", 3*window, strconv.Itoa).In(t, w)
	loadertest.Rows("features.f", "id:long", "", 3*kept, func(i int) string { return strconv.Itoa(i/kept*window + i%kept) }).In(t, w)
	d := dataset.Dataset{
		Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"},
		Staging: []dataset.Staging{{Table: "features.f", Join: rule.Inner}},
	}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	q := loadertest.OneShard(1, kept)
	q.Order, q.Shuffle, q.ShuffleWindow = dataset.Shuffled, dataset.ShuffleRows, window
	want, err := scenario.Read(t.Context(), l, q)
	require.NoError(t, err)
	require.Equal(t, int64(3*window), want[0].Report.Staging["f"].Rows)
	parked := 0
	got, err := scenario.ReadBetween(t.Context(), l, q, func(s loader.Stream) {
		if s.Park(false) {
			parked++
		}
	})
	require.NoError(t, err)
	require.Positive(t, parked)
	require.Equal(t, want[0].Report.Staging["f"].Counts, got[0].Report.Staging["f"].Counts)
	require.Equal(t, scenario.Texts(want[0].Rows()), scenario.Texts(got[0].Rows()))
}
