package loader_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// listed counts how often files are listed.
type listed struct {
	catalog.Catalog
	calls    atomic.Int64
	failing  atomic.Bool
	unranked bool // files have no sequence numbers
}

func (l *listed) Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error) {
	l.calls.Add(1)
	if l.failing.Load() {
		return nil, fault.New(fault.Unavailable, "storage is down")
	}
	files, err := l.Catalog.Files(ctx, t, columns, bounds)
	if l.unranked {
		files = append([]catalog.File(nil), files...)
		for i := range files {
			files[i].Snapshot, files[i].Sequence = 7, 0
		}
	}
	return files, err
}

// TestFilesAreListedOnceForEachPin plans with other seeds, columns and snapshots, with a cache of lists.
func TestFilesAreListedOnceForEachPin(t *testing.T) {
	t.Parallel()
	for _, unranked := range []bool{false, true} {
		c := loadertest.World(t)
		listings, err := loader.NewListings(1 << 20)
		require.NoError(t, err)
		t.Cleanup(listings.Close)
		tables := &listed{Catalog: c.World, unranked: unranked}
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: tables, Scan: c.Scan, Listings: listings})
		plan := func(calls int64, seed int64, columns ...dataset.Column) (string, error) {
			t.Helper()
			q := loadertest.OneShard(1, 8)
			q.Order, q.Shuffle, q.Seed, q.Columns = dataset.Shuffled, dataset.ShuffleRows, seed, columns
			tables.calls.Store(0)
			p, err := l.Plan(t.Context(), q)
			require.Equal(t, calls, tables.calls.Load())
			if err != nil {
				return "", err
			}
			return p.ID, nil
		}
		again := func(first, later int64) int64 {
			if unranked {
				return first
			}
			return later
		}
		tables.failing.Store(true)
		_, err = plan(3, 1)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		tables.failing.Store(false)
		first, err := plan(3, 1)
		require.NoError(t, err)
		second, err := plan(again(3, 0), 1)
		require.NoError(t, err)
		require.Equal(t, first, second)
		_, err = plan(again(3, 0), 2)
		require.NoError(t, err)
		_, err = plan(1, 1, dataset.Column{Column: "item"}) // the training table is asked about other columns, and no other is read
		require.NoError(t, err)
		_, err = c.Memory.Append("ml.train", catalog.File{Location: "mem:///more", Bytes: 1, Rows: 1, Partition: partitionOf(t, c.World)})
		require.NoError(t, err)
		_, err = plan(again(3, 1), 1)
		require.NoError(t, err)
	}
}

// partitionOf returns the partition values of some training file.
func partitionOf(t *testing.T, c catalog.Catalog) []any {
	t.Helper()
	table, err := c.Table(t.Context(), "ml.train", dataset.Ref{})
	require.NoError(t, err)
	files, err := c.Files(t.Context(), table, nil, nil)
	require.NoError(t, err)
	return files[0].Partition
}
