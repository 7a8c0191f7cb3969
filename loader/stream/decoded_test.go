package stream_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// TestResumingDecodesLittle resumes in the middle of an epoch. Until the first batch is returned, at most one and a half
// windows are decoded, with what is decoded ahead of the next one, and a row before each section. The batch is
// the one after the cursor.
//
// spec: cursor-29
func TestResumingDecodesLittle(t *testing.T) {
	t.Parallel()
	const window, parts = 32_768, 2
	for i, rows := range []int{3 * window, 3*window - 12_000, 2*window + 1} {
		for _, groupRows := range []int{7000, 1 << 20} {
			if share > 1 && (i > 0 || groupRows > window) {
				continue // with the race detector: one of them
			}
			table := loadertest.NewParquetTable(t, rows, groupRows)
			for _, shuffle := range []dataset.Shuffle{dataset.ShuffleRequests, dataset.ShuffleRows} {
				q := loadertest.OneShard(1, 2048)
				q.Order, q.Shuffle, q.ShuffleWindow, q.ShuffleParts = dataset.Shuffled, shuffle, window, parts
				q.Columns = []dataset.Column{{Column: "item"}, {Column: "text"}}
				synctest.Test(t, func(t *testing.T) {
					l, _ := table.Loader(t, scan.Options{})
					whole := loadertest.Open(t, l, q)
					defer whole.Release()
					for whole.Cursor().At[0].Window == 0 || whole.Cursor().At[0].Row == 0 {
						require.True(t, whole.Next())
					}
					resumed := q
					resumed.Cursor = dataset.Cursors{whole.Cursor()}
					l, scanner := table.Loader(t, scan.Options{})
					s := loadertest.Open(t, l, resumed)
					defer s.Release()
					require.True(t, s.Next())
					synctest.Wait() // until nothing more is decoded ahead
					require.LessOrEqual(t, scanner.Decoded(), int64(window*3/2+2*parts), "%d rows in row groups of %d, %s", rows, groupRows, shuffle)
					require.True(t, whole.Next())
					require.Equal(t, scenario.Values(whole.RecordBatch()), scenario.Values(s.RecordBatch()))
				})
			}
		}
	}
}

// TestShuffledEpochsReadStoredBytesOnce reads whole epochs: parts within one row group share its bytes.
//
// spec: storage-14
func TestShuffledEpochsReadStoredBytesOnce(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	for _, groupRows := range []int{700, 6000, 1 << 20} {
		table := loadertest.NewParquetTable(t, rows, groupRows)
		footers, err := cache.New[*parquet.Footer](1 << 20)
		require.NoError(t, err)
		t.Cleanup(footers.Close)
		l, _ := table.Loader(t, scan.Options{Footers: footers, ReadTail: scan.NoTail})
		for i, lanes := range []int{1, 1, 4} {
			for _, shuffle := range []dataset.Shuffle{dataset.ShuffleRequests, dataset.ShuffleRows} {
				q := loadertest.OneShard(lanes, 400)
				q.Order, q.Shuffle, q.ShuffleWindow = dataset.Shuffled, shuffle, 2000
				table.Store.Reset()
				s := loadertest.Open(t, l, q)
				given := int64(0)
				for s.Next() {
					given += s.RecordBatch().NumRows()
				}
				require.NoError(t, s.Err())
				s.Release()
				require.EqualValues(t, rows, given)
				if i > 0 { // the first time reads the footer, too
					// Where two lanes divide a row group, one may be past it before the other begins with it.
					divided := int64(0)
					if groupRows*lanes < rows {
						divided = table.Stored * int64(groupRows) / rows * int64(lanes-1)
					}
					require.LessOrEqual(t, table.BytesRead(), table.Stored*11/10+divided, "%d lanes, row groups of %d, %s", lanes, groupRows, shuffle)
				}
			}
		}
	}
}

// TestStreamsStartOnce checks that the scans of a stream know until its second batch that it starts, and that a count never
// does.
//
// spec: cursor-29
func TestStreamsStartOnce(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long item:long", "bucket(1,id)", 100, func(i int) string { return fmt.Sprint(i/3, " ", i) }).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(1,id)", 20, func(i int) string { return fmt.Sprint(i, " ", i) }).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	var sources []plan.Source
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
		if source.Starting != nil { // otherwise it is a staging table, or a search for the border of a request
			sources = append(sources, source)
		}
		return w.Scan(ctx, source, columns)
	}})
	starting := func() bool {
		require.NotEmpty(t, sources)
		first := sources[0].Starting()
		for _, source := range sources {
			require.Equal(t, first, source.Starting())
		}
		return first
	}
	q := loadertest.OneShard(1, 10)
	q.Order, q.ShuffleWindow, q.Filter = dataset.Shuffled, 50, datasettest.Filter("v >= 0 OR item >= 0")
	s := loadertest.Open(t, l, q)
	require.True(t, s.Next())
	require.True(t, starting())
	require.True(t, s.Next())
	require.False(t, starting())
	s.Release()

	sources = nil
	q.BatchRows, q.BatchRequests, q.Count = 0, 10, dataset.CountExact
	p, err := l.Plan(t.Context(), q)
	require.NoError(t, err)
	admit := func(ctx context.Context) (context.Context, func(), error) { return ctx, func() {}, nil }
	_, err = l.Count(t.Context(), p, loader.StreamOptions{}, admit)
	require.NoError(t, err)
	require.False(t, starting())
}
