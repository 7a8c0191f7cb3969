package joined_test

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/bucket/buckettest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan"
)

// timesRead returns how often each staging file was opened since the last call.
func timesRead(w *scenario.World) map[string]int {
	times := map[string]int{}
	for file, n := range w.Scanned {
		if strings.HasPrefix(file, "mem:///features") {
			times[file] = n
		}
	}
	w.Scanned = map[string]int{}
	return times
}

// TestBuildSidesAreKept checks that a stream opens each staging file once, whatever its
// order and number of lanes, if memory is plentiful, and that scarce memory does not
// change the rows.
//
// spec: join-63, resolve-2
func TestBuildSidesAreKept(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for _, order := range []dataset.Order{dataset.Stored, dataset.Shuffled} {
		for _, lanes := range []int{1, 2, 3, 4, 6} {
			q := loadertest.OneShard(lanes, 2*lanes)
			q.Order = order
			var needed int64
			var want []string
			for _, limit := range []int64{0, 1 << 30, -1} {
				b := budget.New(limit)
				if limit == 0 {
					b = nil
				} else if limit < 0 {
					b = budget.New(needed * 11 / 10)
				}
				l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan, Budget: b})
				_ = timesRead(c.World)
				shards, err := scenario.Read(context.Background(), l, q)
				require.NoError(t, err)
				got := scenario.Texts(shards[0].Rows())
				if want == nil {
					want = got
				}
				require.Equal(t, want, got)
				require.Zero(t, b.Used(), "nothing stays behind the stream")
				times := timesRead(c.World)
				require.NotEmpty(t, times)
				for file, n := range times {
					if limit >= 0 {
						require.Equal(t, 1, n, "%s, %d lanes", file, lanes)
					}
				}
				for _, s := range shards[0].Report.Staging {
					require.GreaterOrEqual(t, s.Amplification, 1.0)
					require.True(t, limit < 0 || s.Amplification == 1, "%+v", s)
				}
				needed = max(needed, b.Peak())
			}
		}
	}
}

// unfinished returns staging rows that have all been read, but whose end is delayed
// until the test allows it or their scan is canceled. Meanwhile a build side is in
// progress and holds memory.
type unfinished struct {
	loader.Rows
	ctx      context.Context
	held, on chan struct{} // closed when the rows are held; closed to allow their end
	failed   error
}

func (u *unfinished) Next() bool {
	if u.Rows.Next() {
		return true
	}
	close(u.held)
	select {
	case <-u.on:
	case <-u.ctx.Done():
		u.failed = u.ctx.Err()
	}
	return false
}

func (u *unfinished) Err() error { return cmp.Or(u.failed, u.Rows.Err()) }

// TestNeededBuildSidesDisplacePrefetchedOnes checks that, without a local disk, build
// sides in progress ahead are dropped for one that a row needs. The first of two lanes
// builds the 400 rows of its next range ahead; then the second needs 4,000 rows, which
// do not fit beside them.
//
// spec: join-63
func TestNeededBuildSidesDisplacePrefetchedOnes(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	rows := []int{3, 400, 4000, 3} // by bucket; the first two are ranges of lane 0
	var training, staging []string
	for id, found := int64(0), make([]int, 4); !slices.Equal(found, rows); id++ {
		b := buckettest.Of(bucket.HashInt64(id), 4)
		if found[b] < rows[b] {
			found[b]++
			staging = append(staging, fmt.Sprint(id, " ", id))
			if found[b] <= 3 {
				training = append(training, fmt.Sprint(id, " ", id))
			}
		}
	}
	loadertest.Rows("ml.train", "id:long item:long", "bucket(4,id)", len(training), func(i int) string { return training[i] }).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(4,id)", len(staging), func(i int) string { return staging[i] }).In(t, w)
	d := dataset.Dataset{
		Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}},
	}
	// read also returns how often each staging file was opened, by its rows, and the
	// peak memory before the first batch, which is that of both build sides. What is
	// built ahead is not finished before that batch.
	read := func(b *budget.Budget) (rows []string, opened map[int64]int, first int64) {
		held, on, opened := make(chan struct{}), make(chan struct{}), map[int64]int{}
		var mu sync.Mutex
		l := loader.New(loader.Options{
			Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Budget: b,
			Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
				made, err := w.Scan(ctx, source, columns)
				if err != nil || !strings.HasPrefix(source.Files[0].File.Location, "mem:///features") {
					return made, err
				}
				of := source.Files[0].File.Rows
				mu.Lock()
				opened[of]++
				times := opened[of]
				mu.Unlock()
				switch {
				case of == 400 && times == 1:
					return &unfinished{Rows: made, ctx: ctx, held: held, on: on}, nil
				case of == 4000:
					<-held
				}
				return made, nil
			},
		})
		batches := 0
		shards, err := scenario.ReadBetween(context.Background(), l, loadertest.OneShard(2, 2), func(loader.Stream) {
			if batches++; batches == 2 {
				first = b.Peak()
				close(on)
			}
		})
		require.NoError(t, err)
		return scenario.Texts(shards[0].Rows()), opened, first
	}
	want, opened, both := read(budget.New(1 << 30))
	require.Len(t, want, 12)
	require.Equal(t, map[int64]int{3: 2, 400: 1, 4000: 1}, opened) // 3: two files
	got, opened, _ := read(budget.New(both - 2000))                // less than the 400 rows hold
	require.Equal(t, want, got)
	require.Equal(t, 2, opened[4000], "they are read again when there is room")
	require.Equal(t, 2, opened[400], "they were released")
}

// TestIdleBuildSidesAreReleased checks that a budget in which only the open file groups fit
// is sufficient.
//
// spec: join-63
func TestIdleBuildSidesAreReleased(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	read := func(limit int64) (int, error) {
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan, Budget: budget.New(limit)})
		_ = timesRead(c.World)
		_, err := scenario.Read(context.Background(), l, loadertest.OneShard(1, 8))
		most := 0
		for _, n := range timesRead(c.World) {
			most = max(most, n)
		}
		return most, err
	}
	again := false
	for limit := int64(1 << 20); ; limit = limit * 3 / 4 {
		most, err := read(limit)
		if err != nil {
			require.Equal(t, fault.Exhausted, fault.KindOf(err))
			break
		}
		again = again || most > 1
	}
	require.True(t, again, "with little memory build sides are read again")
}

// TestStreamsShareBuildSides reads two streams step by step and checks that each
// staging file is opened once for both.
//
// spec: join-62
func TestStreamsShareBuildSides(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	b := budget.New(1 << 30)
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan, Budget: b})
	other := loadertest.OneShard(1, 8)
	other.Columns, other.Filter = nil, datasettest.Filter("item > 3")
	first, second := loadertest.Open(t, l, loadertest.OneShard(1, 8)), loadertest.Open(t, l, other)
	_ = timesRead(c.World)
	for more := true; more; {
		more = first.Next()
		more = second.Next() || more
	}
	require.NoError(t, first.Err())
	require.NoError(t, second.Err())
	times := timesRead(c.World)
	require.NotEmpty(t, times)
	for file, n := range times {
		require.Equal(t, 1, n, file)
	}
	require.NotEmpty(t, first.Report().Staging)
	for name, s := range first.Report().Staging {
		o := second.Report().Staging[name]
		require.Positive(t, s.BytesRead+o.BytesRead)
		require.NotEmpty(t, s.Strategy)
	}
	first.Release()
	second.Release()
	require.Zero(t, b.Used())
}

// client is a value that the context of a stream refers to.
type client struct{ _ [64]byte }

// heldRows refer to the context of their stream, as the rows of files do.
type heldRows struct {
	loader.Rows
	ctx context.Context
}

// TestBuildSidesDoNotRetainTheirStreams checks that a build side that other streams
// still use does not keep alive the stream that built it, which would retain its
// client's connection and its unread batches. It tests build sides in memory and on
// local disk.
func TestBuildSidesDoNotRetainTheirStreams(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	onDisk := 0
	for limit := int64(1 << 20); limit > 1<<11; limit /= 2 {
		s, create := loadertest.Disk(t, 0)
		scan := func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			rows, err := c.Scan(ctx, source, columns)
			return heldRows{rows, ctx}, err
		}
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: scan, Budget: budget.New(limit), Disk: create})
		p, err := l.Plan(context.Background(), loadertest.OneShard(1, 8))
		require.NoError(t, err)
		second, err := l.Open(context.Background(), p, loader.StreamOptions{})
		require.NoError(t, err)
		maker := func() weak.Pointer[client] {
			of := &client{}
			ctx := context.WithValue(context.Background(), client{}, of)
			first, err := l.Open(ctx, p, loader.StreamOptions{})
			require.NoError(t, err)
			defer first.Release()
			first.Next()
			second.Next()
			if s.Stats().Used > 0 {
				onDisk++
			}
			return weak.Make(of)
		}()
		runtime.GC()
		runtime.GC()
		require.Nil(t, maker.Value(), "with a budget of %d bytes", limit)
		for second.Next() {
		}
		second.Release()
	}
	require.Positive(t, onDisk)
}

// TestStreamsShareBuildSidesAtOnce reads the same build sides in many streams from many
// goroutines, some of which stop early.
//
// spec: join-62
func TestStreamsShareBuildSidesAtOnce(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	b := budget.New(1 << 30)
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan, Budget: b})
	want, err := scenario.Read(context.Background(), c.Loader(), loadertest.OneShard(1, 8))
	require.NoError(t, err)
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			p, err := l.Plan(ctx, loadertest.OneShard(1, 8))
			if err != nil {
				t.Error(err)
				return
			}
			s, err := l.Open(ctx, p, loader.StreamOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Release()
			rows := int64(0)
			for s.Next() {
				rows += s.RecordBatch().NumRows()
				if i%3 == 0 {
					cancel()
				}
			}
			if i%3 != 0 && (s.Err() != nil || rows != want[0].Report.Rows) {
				t.Errorf("stream %d: %d rows of %d, %v", i, rows, want[0].Report.Rows, s.Err())
			}
		})
	}
	group.Wait()
	require.Zero(t, b.Used())
}

// TestStreamsOfOtherRulesShareNothing reads concurrent streams whose build sides have
// different contents and checks that each stream gets its own.
//
// spec: join-62
func TestStreamsOfOtherRulesShareNothing(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	plain, strict, filled := c.Dataset, c.Dataset, c.Dataset
	plain.Name, strict.Name, filled.Name = "plain", "strict", "filled"
	entry := func(change func(*dataset.Staging)) []dataset.Staging {
		s := c.Dataset.Staging[0]
		change(&s)
		return []dataset.Staging{s}
	}
	plain.Staging = entry(func(*dataset.Staging) {})
	strict.Staging = entry(func(s *dataset.Staging) { s.Filter = datasettest.Filter("version < 2") })
	filled.Staging = entry(func(s *dataset.Staging) {
		s.Missing, s.Defaults = rule.MissingDefault, []dataset.Default{{Column: "s0_u", Value: int64(-1)}}
	})
	datasets := []dataset.Dataset{plain, strict, filled}
	together := loader.New(loader.Options{Datasets: datasets, Catalog: c.World, Scan: c.Scan})
	streams := make([]loader.Stream, len(datasets))
	got := make([][]string, len(datasets))
	for i, d := range datasets {
		q := loadertest.OneShard(1, 8)
		q.Dataset = d.Name
		streams[i] = loadertest.Open(t, together, q)
		defer streams[i].Release()
	}
	for more := true; more; {
		more = false
		for i, s := range streams {
			if s.Next() {
				more = true
				got[i] = append(got[i], scenario.Texts(scenario.Values(s.RecordBatch()))...)
			}
		}
	}
	for i, d := range datasets {
		require.NoError(t, streams[i].Err())
		q := loadertest.OneShard(1, 8)
		q.Dataset = d.Name
		alone := loader.New(loader.Options{Datasets: datasets, Catalog: c.World, Scan: c.Scan})
		want, err := scenario.Read(context.Background(), alone, q)
		require.NoError(t, err)
		require.Equal(t, scenario.Texts(want[0].Rows()), got[i], d.Name)
	}
	require.NotEqual(t, got[0], got[1])
	require.NotEqual(t, got[0], got[2])
}

// TestStreamsOfOtherTimesShareNothing reads the same columns of the same files in two
// datasets with different time columns.
//
// spec: join-62
func TestStreamsOfOtherTimesShareNothing(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long at:long item:long", "bucket(2,id)", 20, func(i int) string { return fmt.Sprint(i%3, 10+i, i) }).In(t, w)
	loadertest.Rows("features.f", "id:long early:long late:long v:long", "bucket(2,id)", 30, func(i int) string {
		return fmt.Sprint(i%3, i, 30-i, i)
	}).In(t, w)
	datasets := make([]dataset.Dataset, 2)
	for i, column := range []string{"early", "late"} {
		d := dataset.Dataset{
			Name: column, Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"},
			Staging: []dataset.Staging{{
				Table: "features.f", Duplicates: rule.DuplicatesFirst,
				Columns:     []dataset.Column{{Column: "early"}, {Column: "late"}, {Column: "v"}},
				PointInTime: &dataset.PointInTime{Training: "at", Staging: column, Tolerance: dataset.Lag{Count: 100}, Exact: true},
			}},
		}
		datasets[i] = d.Defaults()
	}
	shareNothing(t, w, datasets)
}

// TestStreamsOfOtherFiltersShareNothing reads the same columns of the same files in two
// datasets whose filters prune no file.
//
// spec: join-62
func TestStreamsOfOtherFiltersShareNothing(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long item:long", "bucket(2,id)", 20, func(i int) string { return fmt.Sprint(i, " ", i) }).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(2,id)", 20, func(i int) string { return fmt.Sprint(i, " ", i%2) }).In(t, w)
	datasets := make([]dataset.Dataset, 2)
	for i, filter := range []string{"", "v = 0 OR id > 15"} {
		d := dataset.Dataset{
			Name: "filter " + filter, Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"},
			Staging: []dataset.Staging{{Table: "features.f", Filter: datasettest.Filter(filter)}},
		}
		datasets[i] = d.Defaults()
	}
	shareNothing(t, w, datasets)
}

// shareNothing reads the second of two datasets while a stream of the first holds its
// build sides. The rows must equal those read without the other stream, and differ from
// those of the first dataset.
func shareNothing(t *testing.T, w *scenario.World, datasets []dataset.Dataset) {
	t.Helper()
	options := loader.Options{Datasets: datasets, Catalog: w, Scan: w.Scan}
	together := loader.New(options)
	held := loadertest.Open(t, together, dataset.Query{Rows: dataset.Rows{Dataset: datasets[0].Name, Lanes: 1}, Reading: dataset.Reading{BatchRows: 1, Shard: dataset.Shard{Of: 1}}})
	defer held.Release()
	require.True(t, held.Next(), "its build sides stay while it is open")
	read := func(l *loader.Loader, d dataset.Dataset) []string {
		q := loadertest.OneShard(1, 8)
		q.Dataset = d.Name
		shards, err := scenario.Read(context.Background(), l, q)
		require.NoError(t, err)
		return scenario.Texts(shards[0].Rows())
	}
	got := read(together, datasets[1])
	require.Equal(t, read(loader.New(options), datasets[1]), got)
	require.NotEqual(t, read(loader.New(options), datasets[0]), got)
}
