package joined_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan"
)

// readers counts the readers of training rows of a loader.
type readers struct {
	opened, begun, released int
}

// beginning is such a reader.
type beginning struct {
	loader.Rows
	of    *readers
	asked bool
}

func (c *beginning) Begin() {
	if !c.asked {
		c.of.begun++
	}
}

func (c *beginning) Next() bool {
	c.asked = true
	return c.Rows.Next()
}

func (c *beginning) Release() {
	c.of.released++
	c.Rows.Release()
}

// TestTrainingRowsAreReadAhead checks that the rows of a lane's next range begin to be
// read once the previous range has begun, are opened once, and are released whether or
// not they were needed.
func TestTrainingRowsAreReadAhead(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for _, shuffle := range []dataset.Shuffle{"", dataset.ShuffleSplits, dataset.ShuffleRows} {
		for _, lanes := range []int{1, 3} {
			for _, stop := range []bool{false, true} {
				seen, times := &readers{}, map[string]int{}
				l := loader.New(loader.Options{
					Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World,
					Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
						rows, err := c.Scan(ctx, source, columns)
						if err != nil || source.Table.Name != c.Dataset.Training.Table {
							return rows, err
						}
						seen.opened++
						for _, f := range source.Files {
							times[fmt.Sprint(f.File.Location, " ", f.From, " ", f.To)]++
						}
						return &beginning{Rows: rows, of: seen}, nil
					},
				})
				q := loadertest.OneShard(lanes, 2*lanes)
				if shuffle != "" {
					q.Order, q.Shuffle = dataset.Shuffled, shuffle
				}
				p, err := l.Plan(t.Context(), q)
				require.NoError(t, err)
				ranges := 0
				for _, lane := range p.Lanes {
					ranges += len(lane.Ranges)
				}
				require.Greater(t, ranges, lanes)
				p.Query.Shard.Index = 0
				s, err := l.Open(t.Context(), p, loader.StreamOptions{})
				require.NoError(t, err)
				require.Zero(t, seen.opened, "nothing is opened before the first Next")
				for s.Next() && !stop { // the rows do not matter
				}
				require.NoError(t, s.Err())
				s.Release()
				require.Equal(t, seen.opened, seen.released)
				switch {
				case stop:
					require.Positive(t, seen.begun)
				case shuffle == dataset.ShuffleRows:
					require.Greater(t, seen.opened, ranges, "each part of a run is opened")
					for rows, n := range times {
						require.Equal(t, 1, n, "%s is opened once", rows)
					}
					require.GreaterOrEqual(t, seen.begun, seen.opened/2)
				default:
					require.Equal(t, ranges, seen.opened, "%q, %d lanes", shuffle, lanes)
					require.Equal(t, ranges-lanes, seen.begun)
				}
			}
		}
	}
}

// sixteenRanges returns a dataset of a table in sixteen ranges that is joined to another one.
func sixteenRanges(t *testing.T) (*scenario.World, dataset.Dataset) {
	t.Helper()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	text := func(i int) string { return fmt.Sprint(i, " ", i) }
	loadertest.Rows("ml.train", "id:long item:long", "bucket(16,id)", 160, text).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(16,id)", 160, text).In(t, w)
	d := dataset.Dataset{
		Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}},
	}
	return w, d.Defaults()
}

// sixteen returns a loader of that dataset, and its readers.
func sixteen(t *testing.T) (*loader.Loader, *readers) {
	t.Helper()
	w, d := sixteenRanges(t)
	seen := &readers{}
	l := loader.New(loader.Options{
		Datasets: []dataset.Dataset{d}, Catalog: w,
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			made, err := w.Scan(ctx, source, columns)
			if err != nil || source.Table.Name != "ml.train" {
				return made, err
			}
			seen.opened++
			return &beginning{Rows: made, of: seen}, nil
		},
	})
	return l, seen
}

// TestReadAheadGrowsWithRequestedBatches checks that a stream prefetches one range after its
// first batch, and four once more batches are read.
//
// spec: storage-12
func TestReadAheadGrowsWithRequestedBatches(t *testing.T) {
	t.Parallel()
	const ranges = 16
	l, seen := sixteen(t)
	q := loadertest.OneShard(1, 1)
	p, err := l.Plan(t.Context(), q)
	require.NoError(t, err)
	require.Len(t, p.Lanes[0].Ranges, ranges)
	s, err := l.Open(t.Context(), p, loader.StreamOptions{})
	require.NoError(t, err)
	defer s.Release()
	left := p.Lanes[0].Ranges[0].To
	for at := range ranges {
		require.True(t, s.Next(), "%v", s.Err())
		if at == 0 {
			require.Equal(t, 2, seen.opened)
		} else if at >= 3 {
			require.Equal(t, min(ranges, at+1+4), seen.opened, "in range %d", at)
		}
		for range left - 1 {
			require.True(t, s.Next(), "%v", s.Err())
		}
		if at+1 < ranges {
			left = p.Lanes[0].Ranges[at+1].To
		}
	}
	require.False(t, s.Next())
	require.NoError(t, s.Err())
}

// TestNothingIsPrefetchedBeyondTheLimit checks that ranges after the last row of the limit
// are not read, wherever the stream begins, and after it was parked. With a filter, all
// ranges may be needed.
//
// spec: storage-12
func TestNothingIsPrefetchedBeyondTheLimit(t *testing.T) {
	t.Parallel()
	l, seen := sixteen(t)
	opened := func(q dataset.Query, limit int64, park bool) (int, dataset.Cursor) {
		*seen = readers{}
		q.Limit = limit
		p, err := l.Plan(t.Context(), q)
		require.NoError(t, err)
		s, err := l.Open(t.Context(), p, loader.StreamOptions{})
		require.NoError(t, err)
		defer s.Release()
		rows := int64(0)
		for s.Next() {
			rows += s.RecordBatch().NumRows()
			require.Equal(t, park, park && s.Park(false))
			park = false
		}
		require.NoError(t, s.Err())
		require.Equal(t, limit, rows)
		return seen.opened, s.Cursor()
	}
	q := loadertest.OneShard(1, 2)
	p, err := l.Plan(t.Context(), q)
	require.NoError(t, err)
	first, second := p.Lanes[0].Ranges[0].To, p.Lanes[0].Ranges[1].To
	require.Greater(t, first, int64(3))
	for limit, want := range map[int64]int{1: 1, first: 1, first + 1: 2, first + second: 2, first + second + 1: 3} {
		got, _ := opened(q, limit, false)
		require.Equal(t, want, got, "%d rows", limit)
	}
	got, _ := opened(q, first, true)
	require.Equal(t, 2, got, "the one range once more")
	got, cursor := opened(q, 2, false)
	require.Equal(t, 1, got)
	on := dataset.Query{Rows: dataset.Rows{Dataset: q.Dataset}, Reading: dataset.Reading{BatchRows: 2, Cursor: dataset.Cursors{cursor}}}
	for limit, want := range map[int64]int{first - 2: 1, first - 1: 2} {
		got, _ := opened(on, limit, false)
		require.Equal(t, want, got, "%d rows behind the cursor", limit)
	}
	q.Filter = datasettest.Filter("item >= 0")
	got, _ = opened(q, 1, false)
	require.Equal(t, 2, got)
}

// TestLanesShareThePrefetchedBuildSides checks that a stream of eight lanes, each of which may
// prefetch a range, holds the build sides of four upcoming ranges.
//
// spec: storage-12
func TestLanesShareThePrefetchedBuildSides(t *testing.T) {
	t.Parallel()
	const lanes, prefetched = 8, 4
	synctest.Test(t, func(t *testing.T) {
		w, d := sixteenRanges(t)
		var built atomic.Int64
		l := loader.New(loader.Options{
			Datasets: []dataset.Dataset{d}, Catalog: w,
			Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
				if source.Table.Name == "features.f" {
					built.Add(1)
				}
				return w.Scan(ctx, source, columns)
			},
		})
		s := loadertest.Open(t, l, loadertest.OneShard(lanes, lanes))
		defer s.Release()
		require.True(t, s.Next(), "%v", s.Err())
		synctest.Wait()
		require.EqualValues(t, lanes+prefetched, built.Load())
		for s.Next() { // the rows do not matter
		}
		require.NoError(t, s.Err())
		require.EqualValues(t, 16, built.Load(), "each build side is read once")
	})
}

// TestLanesReadAheadLate checks that a stream of two lanes opens the next range of a lane only when
// the lane's current range has few rows left. The rows and their order do not depend on that.
//
// spec: storage-12
func TestLanesReadAheadLate(t *testing.T) {
	t.Parallel()
	const large, lanes, step, late = 150_000, 2, 10_000, 1 << 18
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	ids := []int{29, 6, 64} // of the buckets 0, 1 and 2
	loadertest.Rows("ml.train", "id:long item:long", "bucket(16,id)", 2*large+160, func(i int) string {
		return fmt.Sprint(ids[i/large], " ", i)
	}).In(t, w)
	seen := &readers{}
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}}
	l := loader.New(loader.Options{
		Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w,
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			require.Equal(t, lanes, source.Lanes)
			made, err := w.Scan(ctx, source, columns)
			seen.opened++
			return &beginning{Rows: made, of: seen}, err
		},
	})
	p, err := l.Plan(t.Context(), loadertest.OneShard(lanes, lanes*step))
	require.NoError(t, err)
	first, second := p.Lanes[0].Ranges, p.Lanes[1].Ranges
	require.Len(t, first, 2)
	require.Len(t, second, 2)
	rows := first[0].To - first[0].From
	require.Greater(t, rows, int64(late/lanes+step))
	require.Less(t, second[0].To-second[0].From, int64(step))
	s, err := l.Open(t.Context(), p, loader.StreamOptions{})
	require.NoError(t, err)
	defer s.Release()
	for read := int64(step); s.Next(); read += step {
		if rows-read > late/lanes {
			require.Equal(t, 3, seen.opened, "after %d rows of each lane, only the second lane is in its second range", read)
		} else if rows-read < late/lanes-step {
			require.Equal(t, 4, seen.opened, "after %d rows of each lane", read)
		}
	}
	require.NoError(t, s.Err())
	require.Equal(t, 4, seen.opened)
}
