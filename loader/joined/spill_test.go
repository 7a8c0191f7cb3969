package joined_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan"
)

// TestTightBudgets reads the same rows in the same order with budgets from unlimited
// memory down to one for which even the spool is not enough.
//
// spec: join-66
func TestTightBudgets(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	step := int64(15)
	if share > 1 {
		step = 12
	}
	for _, lanes := range []int{1, 3} {
		want, err := scenario.Read(context.Background(), c.Loader(), loadertest.OneShard(lanes, 2*lanes))
		require.NoError(t, err)
		spilled := int64(0)
		for limit := int64(1 << 16); ; limit = limit * step / 16 {
			s, create := loadertest.Disk(t, 0)
			b := budget.New(limit)
			l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan, Budget: b, Disk: create})
			got, err := scenario.Read(context.Background(), l, loadertest.OneShard(lanes, 2*lanes))
			require.Zero(t, b.Used())
			require.LessOrEqual(t, b.Peak(), limit)
			require.Zero(t, s.Stats().Used)
			if err != nil {
				require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
				t.Logf("%d lanes, %d bytes: %v", lanes, limit, err)
				break
			}
			require.Equal(t, scenario.Texts(want[0].Rows()), scenario.Texts(got[0].Rows()), "%d bytes", limit)
			for _, r := range got[0].Report.Staging {
				spilled += r.SpilledBytes
			}
		}
		require.Positive(t, spilled)
	}
}

// TestStagingBytesAreReadOnce checks, for 16 training buckets with 12 and with 7
// staging buckets, that a stream reads each staging file at most once, whether its file
// groups fit in memory all together, only one by one, or not at all. If days come
// before buckets in the order, a group that was evicted is read once more and is kept
// on local disk from then on.
//
// spec: resolve-2, join-66, join-67
func TestStagingBytesAreReadOnce(t *testing.T) {
	t.Parallel()
	for i, buckets := range []int{12, 7, 12, 7} {
		if share > 1 && i != 0 && i != 3 {
			continue
		}
		spec, most := "bucket(16,id)", 1
		if i > 1 {
			spec, most = "day bucket(16,id)", 2
		}
		w := scenario.NewWorld()
		w.BatchRows = 20
		t.Cleanup(w.Release)
		loadertest.Rows("ml.train", "id:long day:long item:long", spec, 3000, func(i int) string { return fmt.Sprint(i%1700, i%3, i) }).In(t, w)
		loadertest.Rows("features.f", "id:long v:long text:string", fmt.Sprintf("bucket(%d,id)", buckets), 2000, func(i int) string { return fmt.Sprint(i, -i, " t", i) }).In(t, w)
		d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
		open := func(limit int64) *loader.Loader {
			_, create := loadertest.Disk(t, 0)
			return loader.New(loader.Options{
				Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, Budget: budget.New(limit), Disk: create,
			})
		}
		p, err := open(1<<30).Plan(context.Background(), loadertest.OneShard(1, 8))
		require.NoError(t, err)
		fits := p.StagingUse(0).Largest.Memory()
		var want []string
		// Build sides leave an eighth of the budget to the rows that they are joined
		// with.
		for i, limit := range []int64{1 << 30, fits*8/7 + 7, fits*8/7 - 1, fits / 2} {
			for _, lanes := range []int{1, 4} {
				w.Scanned = map[string]int{}
				got, err := scenario.Read(context.Background(), open(limit), loadertest.OneShard(lanes, 8*lanes))
				require.NoError(t, err, "%d buckets, %d lanes, %d bytes", buckets, lanes, limit)
				rows := scenario.Texts(got[0].Rows())
				if want == nil {
					want = rows
				}
				require.Equal(t, loadertest.Sorted(want), loadertest.Sorted(rows))
				report := got[0].Report.Staging["f"]
				for file, n := range w.Scanned {
					if strings.HasPrefix(file, "mem:///features") {
						require.LessOrEqual(t, n, most, "%s, %d buckets, %d lanes, %d bytes: %+v", file, buckets, lanes, limit, report)
					}
				}
				if most == 1 {
					require.Equal(t, i > 1, report.SpilledBytes > 0, "%d buckets, %d lanes, %d bytes: %+v", buckets, lanes, limit, report)
				}
				require.LessOrEqual(t, report.Amplification, float64(most))
			}
		}
	}
}

// TestStreamsWaitForOneAnother reads more concurrent streams than fit in the budget and
// checks that each ends with the right rows or is exhausted, and that the oldest is
// never exhausted.
//
// spec: join-56
func TestStreamsWaitForOneAnother(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	want, err := scenario.Read(context.Background(), c.Loader(), loadertest.OneShard(2, 8))
	require.NoError(t, err)
	b := budget.New(24 << 10)
	_, create := loadertest.Disk(t, 0)
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan, Budget: b, Disk: create})
	var group sync.WaitGroup
	var whole atomic.Int64
	for range 8 {
		group.Go(func() {
			got, err := scenario.Read(context.Background(), l, loadertest.OneShard(2, 8))
			switch {
			case fault.KindOf(err) == fault.Exhausted:
			case err != nil || !slices.Equal(scenario.Texts(want[0].Rows()), scenario.Texts(got[0].Rows())):
				t.Errorf("a stream came to another end: %v", err)
			default:
				whole.Add(1)
			}
		})
	}
	group.Wait()
	require.Positive(t, whole.Load())
	require.Zero(t, b.Used())
}

// tight opens a loader whose budget holds half of a staging table's only file group,
// with a dataset for each layout of the training table, named by its number.
func tight(t *testing.T, layouts ...string) (*loader.Loader, *spool.Spool) {
	t.Helper()
	w := scenario.NewWorld()
	w.BatchRows = 100
	t.Cleanup(w.Release)
	loadertest.Rows("features.f", "id:long v:long text:string", "bucket(7,id)", 2000, func(i int) string { return fmt.Sprint(i, -i, " t", i) }).In(t, w)
	s, create := loadertest.Disk(t, 0)
	options := loader.Options{Catalog: w, Scan: w.Scan, Disk: create}
	for i, layout := range layouts {
		name := strconv.Itoa(i)
		loadertest.Rows("ml.t"+name, "id:long item:long", layout, 2000, func(i int) string { return fmt.Sprint(i, " ", i) }).In(t, w)
		d := dataset.Dataset{Name: name, Key: []string{"id"}, Training: dataset.Training{Table: "ml.t" + name}, Staging: []dataset.Staging{{Table: "features.f"}}}
		options.Datasets = append(options.Datasets, d.Defaults())
	}
	p, err := loader.New(options).Plan(context.Background(), reading("0"))
	require.NoError(t, err)
	options.Budget = budget.New(p.StagingUse(0).Largest.Memory() / 2)
	return loader.New(options), s
}

// reading returns a query of one lane over a dataset.
func reading(name string) dataset.Query {
	q := loadertest.OneShard(1, 8)
	q.Dataset = name
	return q
}

// TestDividedGroupsAndOtherStreams checks that a group that one stream divides by 16
// buckets on local disk has the rows that only another stream reads, and is not used by
// a stream with 4 buckets.
//
// spec: join-62, join-66
func TestDividedGroupsAndOtherStreams(t *testing.T) {
	t.Parallel()
	part := reading("0")
	part.Sample = &dataset.Sample{Hash: &dataset.HashRange{From: 0, To: 0.125}, By: dataset.SampleByRequest, Rate: 1} // 2 of 16 buckets
	for name, c := range map[string]struct{ first, then dataset.Query }{
		"of other filters": {part, reading("0")},
		"of other buckets": {reading("0"), reading("1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := tight(t, "bucket(16,id)", "bucket(4,id)")
			held := loadertest.Open(t, l, c.first)
			defer held.Release()
			require.True(t, held.Next(), "what it divided stays while it is open")
			require.Positive(t, held.Report().Staging["f"].SpilledBytes)
			whole, err := scenario.Read(context.Background(), l, c.then)
			require.NoError(t, err)
			require.Equal(t, int64(2000), whole[0].Report.Staging["f"].Matched)
		})
	}
}

// TestOneGroupUnderTwoLayoutsIsSliced reads a training table whose layout changed once,
// so that the splits of the group are in buckets of two counts.
//
// spec: join-66
func TestOneGroupUnderTwoLayoutsIsSliced(t *testing.T) {
	t.Parallel()
	l, _ := tight(t, "bucket(16,id); bucket(4,id)")
	got, err := scenario.Read(context.Background(), l, reading("0"))
	require.NoError(t, err)
	report := got[0].Report.Staging["f"]
	require.Equal(t, int64(4000), report.Matched)
	require.Equal(t, "slices on disk", report.Strategy)
}

// TestSpilledBytesAreWhatWasWritten checks that several lanes join with one sliced
// build side at a time, and that each of their logs is counted once.
func TestSpilledBytesAreWhatWasWritten(t *testing.T) {
	t.Parallel()
	for _, lanes := range []int{1, 4} {
		l, s := tight(t, "bucket(16,id); bucket(4,id)")
		q := reading("0")
		q.Lanes, q.BatchRows = lanes, 8*lanes
		got, err := scenario.Read(context.Background(), l, q)
		require.NoError(t, err)
		report := got[0].Report.Staging["f"]
		require.Equal(t, "slices on disk", report.Strategy)
		require.Equal(t, s.Stats().Written, report.SpilledBytes, "%d lanes", lanes)
	}
}

// TestFailedPrefetchWritesNothingToDisk checks that a build side that could not be
// built ahead is built in memory, if it fits, when a row needs it. Of two ranges of a
// lane, the first attempt at the second one's group fails.
//
// spec: join-67
func TestFailedPrefetchWritesNothingToDisk(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	pair := func(i int) string { return fmt.Sprint(i, " ", i) }
	loadertest.Rows("ml.train", "id:long item:long", "bucket(2,id)", 40, pair).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(2,id)", 40, pair).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	_, create := loadertest.Disk(t, 0)
	var opened atomic.Int64
	l := loader.New(loader.Options{
		Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Budget: budget.New(1 << 30), Disk: create,
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			if source.Table.Name == "features.f" && opened.Add(1) == 2 {
				return nil, fault.New(fault.Unavailable, "storage is away for a moment")
			}
			return w.Scan(ctx, source, columns)
		},
	})
	got, err := scenario.Read(context.Background(), l, loadertest.OneShard(1, 8))
	require.NoError(t, err)
	require.Len(t, got[0].Rows(), 40)
	require.EqualValues(t, 3, opened.Load(), "the second group is tried again")
	report := got[0].Report.Staging["f"]
	require.Equal(t, int64(40), report.Matched)
	require.Zero(t, report.SpilledBytes)
	require.NotContains(t, report.Strategy, "disk")
}

// TestErrorsOfPrefetchedBuildsAreReported checks that unreadable rows are reported as such,
// and not as a reason to use the disk.
func TestErrorsOfPrefetchedBuildsAreReported(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long item:long", "bucket(2,id)", 40, func(i int) string { return fmt.Sprint(i, " ", i) }).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(2,id)", 40, func(i int) string { return fmt.Sprint(i, " ", i+1<<40) }).In(t, w)
	first := true
	_, create := loadertest.Disk(t, 0)
	d := dataset.Dataset{
		Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"},
		Staging: []dataset.Staging{{Table: "features.f", Columns: []dataset.Column{{Column: "v", As: "int"}}}},
	}
	l := loader.New(loader.Options{
		Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Budget: budget.New(1 << 30), Disk: create,
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			if source.Table.Name == "features.f" && first { // so that the stream reaches what it built ahead
				first = false
				source.Files = slices.Clone(source.Files)
				source.Files[0].To = source.Files[0].From
			}
			return w.Scan(ctx, source, columns)
		},
	})
	_, err := scenario.Read(context.Background(), l, loadertest.OneShard(1, 8))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "load the build side f")
	require.NotContains(t, err.Error(), "local disk")
}
