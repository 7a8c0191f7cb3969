package joined_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
)

// TestMinMatch has 12,000 training rows in 4 buckets, nine in ten of which match. The
// failure is detected after the fourth range, when 10,000 rows have been checked.
//
// spec: join-64
func TestMinMatch(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	w.BatchRows = 1000
	t.Cleanup(w.Release)
	const rows = 12_000
	loadertest.Rows("ml.train", "id:long item:long", "bucket(4,id)", rows, func(i int) string { return fmt.Sprint(i, " ", i) }).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(4,id)", rows*9/10, func(i int) string { return fmt.Sprint(i, " ", i) }).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	for _, filter := range []string{"", "item >= 0"} { // with row counts that the plan knows, and with unknown ones
		for share, fails := range map[float64]bool{0: false, 0.5: false, 0.9: false, 0.9001: true, 1: true} {
			d.Staging[0].MinMatch = share
			d := d.Defaults()
			l := loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: w, Scan: w.Scan})
			q := loadertest.OneShard(1, 500)
			q.Filter = datasettest.Filter(filter)
			s := loadertest.Open(t, l, q)
			given := int64(0)
			for s.Next() {
				given += s.RecordBatch().NumRows()
			}
			err := s.Err()
			s.Release()
			if !fails {
				require.NoError(t, err)
				require.Equal(t, int64(rows), given)
				continue
			}
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.ErrorContains(t, err, fmt.Sprintf("10800 of 12000 training rows match f: 0.9000, where min_match asks for %g", share))
			require.Contains(t, fault.As(err).Remedy, "min_match of f")
			require.Less(t, given, int64(rows), "the rows of the last range are not all given")
			require.Greater(t, given, int64(rows/2), "and it is not judged before")
		}
	}
	// A resumed stream counts only what it reads itself and checks nothing below 10,000
	// rows.
	d.Staging[0].MinMatch = 1
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	q := loadertest.OneShard(1, 500)
	s := loadertest.Open(t, l, q)
	for range 20 {
		require.True(t, s.Next())
	}
	q.Cursor = dataset.Cursors{s.Cursor()}
	s.Release()
	rest, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	require.Equal(t, int64(2000), rest[0].Report.Rows)
}
