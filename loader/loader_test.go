package loader_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/batch"
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
	"github.com/penstock/penstock/loader/plan/explain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestScenarios runs the text files.
//
// spec: resolve-5, order-4, order-12, wire-20, wire-21, wire-22, wire-24, wire-25, wire-26, wire-27
// spec: wire-29, wire-32, wire-33, computed-1, computed-7, computed-9, computed-10, computed-11, computed-13
func TestScenarios(t *testing.T) {
	t.Parallel()
	scenario.Run(t, "testdata/*.txt")
}

// TestNothingLeaks releases a stream after each number of batches and checks that its
// staging memory and reservations are released.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	whole, err := scenario.Read(context.Background(), c.Loader(), loadertest.OneShard(4, 8))
	require.NoError(t, err)
	for batches := range len(whole[0].Batches) + 2 {
		mem := memory.NewCheckedAllocator(batch.Default())
		limit := budget.New(1 << 20)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan, Memory: mem, Budget: limit})
		s := loadertest.Open(t, l, loadertest.OneShard(4, 8))
		require.Zero(t, limit.Used(), "nothing starts before the first Next")
		for range batches {
			s.Next()
		}
		require.NoError(t, s.Err())
		s.Release()
		mem.AssertSize(t, 0)
		require.Zero(t, limit.Used())
	}
}

// TestBudget raises the budget until a stream fits. Until then the stream fails as
// Exhausted with a remedy and releases everything.
func TestBudget(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	failures := 0
	for limit := int64(64); ; limit += limit/4 + 64 {
		b := budget.New(limit)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan, Budget: b})
		s := loadertest.Open(t, l, loadertest.OneShard(2, 8))
		for s.Next() {
		}
		err := s.Err()
		s.Release()
		require.Zero(t, b.Used())
		require.LessOrEqual(t, b.Peak(), limit)
		if err == nil {
			break
		}
		failures++
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		require.NotEmpty(t, fault.As(err).Remedy)
	}
	require.Positive(t, failures)
}

// TestFileGroupsAreReadOnce checks that every staging file is read once by a stream of
// one lane.
//
// spec: resolve-2
func TestFileGroupsAreReadOnce(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for _, order := range []dataset.Order{dataset.Stored, dataset.Shuffled} {
		c.Scanned = map[string]int{}
		for i := range c.Dataset.Staging {
			c.Dataset.Staging[i].Table = "features.s0" // 4 buckets, which are contiguous in the order of 8
			c.Dataset.Staging[i].Columns = []dataset.Column{{Column: "s0_user", Name: c.Dataset.Staging[i].Name}}
		}
		c.Dataset.Staging = c.Dataset.Staging[:1]
		q := loadertest.OneShard(1, 8)
		q.Order = order
		if order == dataset.Stored {
			q.Filter = datasettest.Filter("day = 1 OR day IS NULL")
		}
		_, err := scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err)
		require.NotEmpty(t, c.Scanned)
		if order == dataset.Shuffled {
			for file, times := range c.Scanned {
				if !strings.Contains(file, "/ml.train/") {
					require.Equal(t, 1, times, file)
				}
			}
		}
	}
}

// spec: resolve-16
func TestUnneededStagingTablesAreNotRead(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	q := loadertest.OneShard(1, 8)
	q.Columns = []dataset.Column{{Column: "item"}}
	scanned := func() bool {
		c.Scanned = map[string]int{}
		_, err := scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err)
		for file := range c.Scanned {
			if file[:len("mem:///features")] == "mem:///features" {
				return true
			}
		}
		return false
	}
	require.False(t, scanned())
	c.Dataset.Staging[1].MinMatch = 1e-9
	require.True(t, scanned())
	c.Dataset.Staging[1].MinMatch, c.Dataset.Staging[1].Join = 0, rule.Inner
	require.True(t, scanned())
}

func TestColumnsMayRepeat(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	q := loadertest.OneShard(1, 8)
	q.Columns = []dataset.Column{{Column: "item"}, {Column: "item", Name: "again"}, {Column: "s1_u"}, {Column: "s1_u", Name: "u2"}}
	shards, err := scenario.Read(context.Background(), c.Loader(), q)
	require.NoError(t, err)
	for _, row := range shards[0].Rows() {
		require.Equal(t, row[0], row[1])
		require.Equal(t, row[2], row[3])
	}
}

// spec: order-16
func TestTailDrop(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 4}, Reading: dataset.Reading{BatchRows: 6, Shard: dataset.Shard{Index: dataset.AllShards, Of: 2}, Tail: dataset.TailDrop}}
	shards, err := scenario.Read(context.Background(), c.Loader(), q)
	require.NoError(t, err)
	rows, left := int64(0), int64(0)
	for _, s := range shards {
		require.Len(t, s.Batches, len(shards[0].Batches), "all shards end at the same step")
		for _, b := range s.Batches {
			require.Len(t, b, 6)
		}
		rows += s.Report.Rows
		for _, l := range s.Report.Leftover {
			left += l.Rows
		}
	}
	require.Equal(t, int64(c.Training.Rows()), rows+left)
	steps := c.Training.Rows() / 4 / 3
	require.Len(t, shards[0].Batches, steps)
	q.Cursor = dataset.Cursors{shards[0].Cursors[0], shards[1].Cursors[0]}
	rest, err := scenario.Read(context.Background(), c.Loader(), q)
	require.NoError(t, err)
	require.Len(t, rest[0].Batches, steps-1)
	require.Equal(t, shards[0].Report.Cursor, rest[0].Report.Cursor)
	require.Equal(t, shards[0].Report.Leftover, rest[0].Report.Leftover)
}

// TestErrorsEndTheStream makes each source fail in turn, however often it is opened.
func TestErrorsEndTheStream(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	broken := errors.New("broken")
	for nth := range 100 {
		mem := memory.NewCheckedAllocator(batch.Default())
		var mu sync.Mutex
		order := map[string]int{}
		scan := func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			mu.Lock()
			name := fmt.Sprintf("%s %v", source.Table.Name, source.Files)
			if _, ok := order[name]; !ok {
				order[name] = len(order)
			}
			fails := order[name] == nth
			mu.Unlock()
			if fails {
				return nil, fault.New(fault.Corrupt, "scan %d: %w", nth, broken)
			}
			return c.Scan(ctx, source, columns)
		}
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: scan, Memory: mem})
		s := loadertest.Open(t, l, loadertest.OneShard(2, 8))
		for s.Next() {
		}
		err := s.Err()
		s.Release()
		mem.AssertSize(t, 0)
		if len(order) <= nth {
			require.NoError(t, err)
			require.Greater(t, nth, 3)
			return
		}
		require.ErrorIs(t, err, broken)
		require.Equal(t, fault.Corrupt, fault.KindOf(err))
	}
	t.Fatal("the stream never got through")
}

// TestPinnedPlans checks that a commit after the pin does not change the plan.
//
// spec: pin-4
func TestPinnedPlans(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	ctx := context.Background()
	l := c.Loader()
	before, err := l.Plan(ctx, loadertest.OneShard(2, 8))
	require.NoError(t, err)
	table, err := c.Table(ctx, "features.s0", dataset.Ref{})
	require.NoError(t, err)
	rows, err := scenario.Rows(table.Fields, []string{"1 1 1 - t"})
	if err != nil {
		rows, err = scenario.Rows(table.Fields, []string{"k1 1 1 - t"})
	}
	require.NoError(t, err)
	defer rows.Release()
	require.NoError(t, c.Append(table, 0, rows, 0))
	q := loadertest.OneShard(2, 8)
	q.Pin = before.Rows.Pin
	again, err := l.Plan(ctx, q)
	require.NoError(t, err)
	require.Equal(t, explain.Text(before.Plan, before.Query, nil), explain.Text(again.Plan, again.Query, nil))
	after, err := l.Plan(ctx, loadertest.OneShard(2, 8))
	require.NoError(t, err)
	require.Equal(t, before.ID, after.ID, "the commit was to a left entry")
	require.NotEqual(t, before.FilesID, after.FilesID)

	// A pin may name only a snapshot; the rest is read at the ref.
	alone := dataset.TablePin{Snapshot: before.Rows.Pin.Staging["s0"].Snapshot}
	q.Pin = dataset.Pin{Staging: map[string]dataset.TablePin{"s0": alone}}
	again, err = l.Plan(ctx, q)
	require.NoError(t, err)
	require.Equal(t, explain.Text(before.Plan, before.Query, nil), explain.Text(again.Plan, again.Query, nil))
	require.Equal(t, before.Rows.Pin, again.Rows.Pin)
	q.Pin = dataset.Pin{Training: dataset.TablePin{Snapshot: before.Rows.Pin.Training.Snapshot}}
	again, err = l.Plan(ctx, q)
	require.NoError(t, err)
	require.Equal(t, after.Rows.Pin, again.Rows.Pin)
	alone.Snapshot += 1000
	q.Pin = dataset.Pin{Staging: map[string]dataset.TablePin{"s0": alone}}
	_, err = l.Plan(ctx, q)
	require.Error(t, err)
	require.Equal(t, "features.s0", fault.As(err).Table)

	q.Pin = before.Rows.Pin
	require.NoError(t, c.Expire("features.s0", before.Rows.Pin.Staging["s0"].Snapshot))
	_, err = l.Plan(ctx, q)
	require.Equal(t, fault.Expired, fault.KindOf(err))
}

func TestPlansAreCached(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	plans, err := loader.NewPlans(1 << 20)
	require.NoError(t, err)
	defer plans.Close()
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan, Plans: plans})
	first, err := l.Plan(context.Background(), loadertest.OneShard(2, 8))
	require.NoError(t, err)
	again, err := l.Plan(context.Background(), loadertest.OneShard(2, 16))
	require.NoError(t, err)
	require.Same(t, first.Plan, again.Plan, "the batch size does not belong to the plan")
	other, err := l.Plan(context.Background(), loadertest.OneShard(4, 16))
	require.NoError(t, err)
	require.NotSame(t, first.Plan, other.Plan)
}

// unpruned is a catalog without value ranges.
type unpruned struct{ catalog.Catalog }

func (u unpruned) Files(ctx context.Context, t *catalog.Table, columns, _ []int) ([]catalog.File, error) {
	return u.Catalog.Files(ctx, t, columns, nil)
}

// TestPruningChangesNothing reads with and without value ranges.
//
// spec: resolve-15
func TestPruningChangesNothing(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	pruned := 0
	for item := range 60 {
		q := loadertest.OneShard(1, 6)
		q.Filter = datasettest.Filter(fmt.Sprintf("item BETWEEN %d AND %d", item*2, item*2+9))
		c.Dataset.Staging[0].Filter = datasettest.Filter(fmt.Sprintf("version <> %d", item%5))
		with, err := scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err)
		p, err := c.Loader().Plan(context.Background(), q)
		require.NoError(t, err)
		pruned += p.Pruned.Files
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: unpruned{c.World}, Scan: c.Scan})
		without, err := scenario.Read(context.Background(), l, q)
		require.NoError(t, err)
		require.Equal(t, scenario.Texts(without[0].Rows()), scenario.Texts(with[0].Rows()), q.Filter)
	}
	require.Positive(t, pruned)
}

// TestReadingAheadReadsNothingTwice checks that, with several lanes, a staging file is
// opened at most once for each time that a lane reaches its file group.
//
// spec: resolve-2
func TestReadingAheadReadsNothingTwice(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for _, lanes := range []int{2, 3, 4, 6} {
		q := loadertest.OneShard(lanes, 2*lanes)
		p, err := c.Loader().Plan(context.Background(), q)
		require.NoError(t, err)
		most := map[string]int{}
		for i := range p.Staging {
			for _, l := range p.Lanes {
				last := -2
				for _, r := range l.Ranges {
					group := p.Splits[r.Split].Groups[i]
					if group == last {
						continue
					}
					last = group
					for _, f := range p.Group(i, group).Files {
						most[f.File.Location]++
					}
				}
			}
		}
		c.Scanned = map[string]int{}
		_, err = scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err)
		for file, times := range c.Scanned {
			if most[file] > 0 {
				require.LessOrEqual(t, times, most[file], "%s with %d lanes", file, lanes)
			}
		}
	}
}

// TestPlansAreCharged checks that a large plan of open streams is charged to the budget
// once for all of them.
func TestPlansAreCharged(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long", "bucket(1500,id)", 3000, strconv.Itoa).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}}
	b := budget.New(1 << 30)
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, Budget: b})
	p, err := l.Plan(t.Context(), loadertest.OneShard(1, 8))
	require.NoError(t, err)
	open := func() loader.Stream {
		s, err := l.Open(t.Context(), p, loader.StreamOptions{})
		require.NoError(t, err)
		return s
	}
	first := open()
	plan := b.Used()
	require.Greater(t, plan, int64(500<<10))
	second := open()
	require.Equal(t, plan, b.Used())
	first.Release()
	require.Equal(t, plan, b.Used())
	second.Release()
	require.Zero(t, b.Used())

	l = loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, Budget: budget.New(plan - 1)})
	_, err = l.Open(t.Context(), p, loader.StreamOptions{})
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "the plan of a stream needs")
}
