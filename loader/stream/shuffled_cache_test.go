package stream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/scan"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// caching returns a loader of the table with a cache of decoded columns and one of footers. At the end of the test, no
// memory may be in use.
func caching(t *testing.T, p *loadertest.ParquetTable, limit *budget.Budget, columns int64, lose func(chunkcache.ChunkID) bool) (*loader.Loader, *chunkcache.ColumnCache) {
	t.Helper()
	footers, err := cache.New[*parquet.Footer](1 << 20)
	require.NoError(t, err)
	t.Cleanup(footers.Close)
	c := chunkcache.New(chunkcache.Options{Budget: limit, Clock: time.Now, Limit: columns, Lose: lose})
	l, _ := p.Loader(t, scan.Options{Budget: limit, Footers: footers, Chunks: c})
	t.Cleanup(func() {
		require.Zero(t, limit.InUse())
		c.Drop("")
		require.Zero(t, limit.Used())
		require.Zero(t, limit.Idle())
	})
	return l, c
}

// TestShuffledEpochsFillTheCache reads epochs in other orders each, with one lane and with eight: with CacheFill, the
// second one reads no bytes, and with CacheRead the third one.
//
// spec: cache-2, cache-4
func TestShuffledEpochsFillTheCache(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	for i, groupRows := range []int{1 << 20, 6000, 700} {
		if share > 1 && i > 0 {
			continue // with the race detector: one of them
		}
		table := loadertest.NewParquetTable(t, rows, groupRows)
		for _, lanes := range []int{1, 8} {
			for _, change := range []func(*dataset.Query){
				func(q *dataset.Query) { q.Shuffle = dataset.ShuffleRequests },
				func(q *dataset.Query) { q.Shuffle = dataset.ShuffleRows },
				func(q *dataset.Query) { q.BatchRows, q.BatchRequests = 0, 8*lanes },
				func(q *dataset.Query) { q.Shuffle, q.ShuffleWindow = dataset.ShuffleSplits, 0 },
			} {
				for read, first := range map[dataset.CacheUse]int{dataset.CacheFill: 2, dataset.CacheRead: 3} {
					l, c := caching(t, table, budget.New(1<<30), 1<<28, nil)
					for epoch := 1; epoch <= first; epoch++ {
						q := loadertest.OneShard(lanes, 400)
						q.Order, q.ShuffleWindow, q.Epoch, q.Cache = dataset.Shuffled, 2000, int64(epoch), read
						change(&q)
						table.Store.Reset()
						shards, err := scenario.Read(t.Context(), l, q)
						require.NoError(t, err)
						require.Len(t, shards[0].Rows(), rows)
						require.Equal(t, epoch >= first, table.BytesRead() == 0, "epoch %d with %s, %d lanes, %s, row groups of %d", epoch, read, lanes, q.Shuffle, groupRows)
					}
					require.Zero(t, c.Stats().Partial)
				}
			}
		}
	}
}

// TestShuffledStreamsWithACache reads random streams, several at once, from loaders whose cache is large, small, loses
// columns, or whose memory is short. Each has the batches and cursors of a loader without a cache. Some streams end
// early.
//
// spec: cache-1, cache-5
func TestShuffledStreamsWithACache(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(11, 12))
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	const plentiful, short = 1 << 30, 1 << 20 // memory
	const plenty = 1 << 28                    // of columns: all of the table's
	for _, of := range []struct {
		memory, columns int64
		lose            int
	}{{plentiful, plenty, 0}, {plentiful, 40 << 10, 0}, {plentiful, plenty, 30}, {short, short / 2, 200}} {
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			const rows = 6000
			table := loadertest.NewParquetTable(t, rows, 500+draw(3000))
			plain, _ := table.Loader(t, scan.Options{BatchRows: 1 + draw(300)})
			l, c := caching(t, table, budget.New(of.memory), of.columns, func(chunkcache.ChunkID) bool { return of.lose > 0 && draw(of.lose) == 0 })
			for range loadertest.Cases(share, 16, 300) {
				q := shuffledQuery(draw, rows)
				want, err := scenario.Read(t.Context(), plain, q)
				require.NoError(t, err)
				var group sync.WaitGroup
				for range 1 + draw(3) {
					ends := draw(60) // batches; beyond the last one: at the end
					group.Go(func() {
						if draw(4) == 0 {
							readSome(t, l, q, ends)
							return
						}
						got, err := scenario.Read(t.Context(), l, q)
						if of.memory == short && fault.KindOf(err) == fault.Exhausted {
							return
						}
						if err != nil || len(got) != len(want) {
							t.Errorf("%d shards instead of %d: %v", len(got), len(want), err)
							return
						}
						for i := range want {
							requireSame(t, want[i], got[i])
						}
					})
				}
				group.Wait()
			}
			require.LessOrEqual(t, c.Stats().Bytes, of.columns)
			if of.columns == plenty && of.lose == 0 { // otherwise, another stream may take the place of a column before its next use
				q := loadertest.OneShard(1, 100)
				q.Cache = dataset.CacheFill
				_, err := scenario.Read(t.Context(), l, q)
				require.NoError(t, err)
				before := c.Stats().Hits
				_, err = scenario.Read(t.Context(), l, q)
				require.NoError(t, err)
				require.Greater(t, c.Stats().Hits, before)
			}
		})
	}
}

// shuffledQuery returns a random query.
func shuffledQuery(draw func(int) int, rows int) dataset.Query {
	lanes := 1 << draw(4)
	q := loadertest.OneShard(lanes, lanes*(1+draw(300)))
	q.Shard = dataset.Shard{Index: dataset.AllShards, Of: 1 << draw(2)}
	if q.Shard.Of > lanes {
		q.Shard.Of = 1
	}
	q.Cache = []dataset.CacheUse{dataset.CacheFill, dataset.CacheFill, dataset.CacheRead, dataset.CacheOff}[draw(4)]
	if draw(5) > 0 {
		q.Order, q.Seed, q.Epoch = dataset.Shuffled, int64(draw(3)), int64(draw(3))
		q.Shuffle = []dataset.Shuffle{dataset.ShuffleSplits, dataset.ShuffleRequests, dataset.ShuffleRows}[draw(3)]
		if q.Shuffle != dataset.ShuffleSplits {
			q.ShuffleWindow, q.ShuffleParts = int64(20+draw(rows)), int64(1+draw(9))
		}
		if q.Shuffle != dataset.ShuffleRows && draw(3) == 0 {
			q.BatchRows, q.BatchRequests = 0, lanes*(1+draw(60))
		}
	}
	if draw(3) == 0 {
		q.Filter = datasettest.Filter(fmt.Sprintf("item > %d", draw(rows)))
	}
	if draw(4) == 0 && q.BatchRequests == 0 && q.Shard.Of == 1 {
		q.Limit = int64(1 + draw(rows))
	}
	q.Columns = []dataset.Column{{Column: "item"}, {Column: "text"}, {Column: "req"}}[:1+draw(3)]
	return q
}

// readSome reads some batches of a query's first shard.
func readSome(t *testing.T, l *loader.Loader, q dataset.Query, batches int) {
	q.Shard.Index = 0
	p, err := l.Plan(context.Background(), q)
	if err != nil {
		t.Error(err)
		return
	}
	s, err := l.Open(context.Background(), p, loader.StreamOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Release()
	for range batches {
		if !s.Next() {
			return
		}
	}
}

// requireSame compares what two streams of a shard returned.
func requireSame(t *testing.T, want, got scenario.Shard) {
	t.Helper()
	if len(want.Batches) != len(got.Batches) {
		t.Errorf("%d batches instead of %d", len(got.Batches), len(want.Batches))
		return
	}
	for i := range want.Batches {
		if fmt.Sprint(want.Batches[i], want.Cursors[i]) != fmt.Sprint(got.Batches[i], got.Cursors[i]) {
			t.Errorf("batch %d differs", i)
			return
		}
	}
}
