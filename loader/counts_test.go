package loader_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

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
)

// everybody returns an Admit that admits every count and counts the admissions.
func everybody(let *atomic.Int64) loader.Admit {
	return func(ctx context.Context) (context.Context, func(), error) {
		let.Add(1)
		return ctx, func() {}, nil
	}
}

// count plans a query and counts its rows.
func count(ctx context.Context, l *loader.Loader, q dataset.Query, let *atomic.Int64) (*dataset.Counts, error) {
	p, err := l.Plan(ctx, q)
	if err != nil {
		return nil, err
	}
	return l.Count(ctx, p, loader.StreamOptions{}, everybody(let))
}

// TestCountsEqualTheRowsOfStreams checks for every rule that the count of each lane is the
// number of rows that the lane returns, and that all memory is released.
//
// spec: step-7
func TestCountsEqualTheRowsOfStreams(t *testing.T) {
	t.Parallel()
	counted := 0
	for _, c := range loadertest.Stepped(t, loadertest.Cases(share, 40, 1500)) {
		m := loadertest.Made(t, c)
		mem, limit := memory.NewCheckedAllocator(batch.Default()), budget.New(loadertest.Plenty)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{m.Dataset}, Catalog: m.World, Scan: m.Scan, Memory: mem, Budget: limit})
		q := c.Query
		q.Count = dataset.CountExact
		var let atomic.Int64
		got, err := count(context.Background(), l, q, &let)
		require.NoError(t, err, c.Name)
		counted += int(let.Load())
		require.Zero(t, limit.Used())
		require.Zero(t, mem.CurrentAlloc())
		var want []int64
		for _, rows := range loadertest.LaneRows(t, m, c.Query) {
			want = append(want, int64(len(rows)))
		}
		require.Equal(t, dataset.NewCounts(want), got, c.Name)
	}
	require.Positive(t, counted)
}

// counting returns a dataset of which a count needs only some columns and tables.
func counting(t *testing.T) (*scenario.World, dataset.Dataset) {
	t.Helper()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long day:long text:string", "bucket(4,id)", 200, func(i int) string { return fmt.Sprintf("%d %d t%d", i, i%3, i) }).In(t, w)
	for _, name := range []string{"inner", "semi", "left", "named", "most"} {
		rows := 150
		if name == "left" {
			rows = 200
		}
		loadertest.Rows("features."+name, "id:long "+name+":long more_"+name+":long", "", rows, func(i int) string { return fmt.Sprint(i, i%5, i) }).In(t, w)
	}
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{
		{Table: "features.inner", Join: rule.Inner},
		{Table: "features.semi", Join: rule.Semi},
		{Table: "features.left", Missing: rule.MissingError},
		{Table: "features.named"},
		{Table: "features.most", MinMatch: 0.5},
	}}
	return w, d.Defaults()
}

// TestCountsReadWhatDropsRows checks that counts read only the training columns that
// rules use, and only the staging tables that drop rows or that the filter names.
//
// spec: step-6
func TestCountsReadWhatDropsRows(t *testing.T) {
	t.Parallel()
	w, d := counting(t)
	for filter, want := range map[string]map[string]string{
		"day > 0":           {"ml.train": "id", "features.inner": "id", "features.semi": "id"},
		"named > 1":         {"ml.train": "id", "features.inner": "id", "features.semi": "id", "features.named": "id named"},
		"named > day":       {"ml.train": "day id", "features.inner": "id", "features.semi": "id", "features.named": "id named"},
		"more_inner <> day": {"ml.train": "day id", "features.inner": "id more_inner", "features.semi": "id"},
	} {
		var mu sync.Mutex
		read := map[string]string{}
		scan := func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			mu.Lock()
			defer mu.Unlock()
			var names []string
			for _, c := range columns {
				names = append(names, c.Name)
			}
			slices.Sort(names)
			read[source.Table.Name] = strings.Join(names, " ")
			return w.Scan(ctx, source, columns)
		}
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: w, Scan: scan})
		q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 2, Filter: datasettest.Filter(filter)}, Reading: dataset.Reading{Tail: dataset.TailDrop}}
		var let atomic.Int64
		counts, err := count(context.Background(), l, q, &let)
		require.NoError(t, err, filter)
		require.Positive(t, counts.Rows)
		require.Equal(t, want, read, filter)
	}
	d.Staging = nil
	var bucketed atomic.Bool
	scan := func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
		require.Empty(t, columns)
		bucketed.Store(bucketed.Load() || len(source.Checked) > 0)
		return w.Scan(ctx, source, columns)
	}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: w, Scan: scan})
	var let atomic.Int64
	counts, err := count(context.Background(), l, dataset.Query{Rows: dataset.Rows{Dataset: "d", Filter: datasettest.Filter("day = 1"), Order: dataset.Shuffled}, Reading: dataset.Reading{Count: dataset.CountExact}}, &let)
	require.NoError(t, err)
	require.EqualValues(t, 67, counts.Rows)
	require.False(t, bucketed.Load(), "keys that nothing is joined by are not read")
}

// TestOnlyExactCountsAreCounted checks that rows are counted only for queries that request exact counts
// which the plan does not know.
//
// spec: step-5
func TestOnlyExactCountsAreCounted(t *testing.T) {
	t.Parallel()
	w, d := counting(t)
	plain := d
	plain.Name, plain.Staging = "plain", nil
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d, plain}, Catalog: w, Scan: w.Scan})
	for name, test := range map[string]struct {
		query  dataset.Query
		counts int64
		known  bool
	}{
		"no count requested":               {dataset.Query{Rows: dataset.Rows{Dataset: "d"}}, 0, false},
		"exact":                            {dataset.Query{Rows: dataset.Rows{Dataset: "d", Seed: 1}, Reading: dataset.Reading{Count: dataset.CountExact}}, 1, true},
		"drop":                             {dataset.Query{Rows: dataset.Rows{Dataset: "d", Seed: 2}, Reading: dataset.Reading{Tail: dataset.TailDrop}}, 1, true},
		"both":                             {dataset.Query{Rows: dataset.Rows{Dataset: "d", Seed: 3}, Reading: dataset.Reading{Tail: dataset.TailDrop, Count: dataset.CountExact}}, 1, true},
		"the manifests know":               {dataset.Query{Rows: dataset.Rows{Dataset: "plain"}, Reading: dataset.Reading{Tail: dataset.TailDrop, Count: dataset.CountExact}}, 0, true},
		"a filter":                         {dataset.Query{Rows: dataset.Rows{Dataset: "plain", Filter: datasettest.Filter("day = 1")}, Reading: dataset.Reading{Tail: dataset.TailDrop}}, 1, true},
		"a filter, and no count requested": {dataset.Query{Rows: dataset.Rows{Dataset: "plain", Filter: datasettest.Filter("day = 1")}}, 0, false},
	} {
		var let atomic.Int64
		got, err := count(context.Background(), l, test.query, &let)
		require.NoError(t, err, name)
		require.Equal(t, test.known, got != nil, name)
		require.Equal(t, test.counts, let.Load(), name)
		again, err := count(context.Background(), l, test.query, &let)
		require.NoError(t, err, name)
		require.Equal(t, got, again, name)
		require.Equal(t, test.counts, let.Load(), "%s: what was counted is remembered", name)
	}
	p, err := l.Plan(context.Background(), dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{Shard: dataset.Shard{Of: 1}, Tail: dataset.TailDrop}})
	require.NoError(t, err)
	_, err = l.Open(context.Background(), p, loader.StreamOptions{})
	require.Equal(t, fault.Internal, fault.KindOf(err), "a plan without counts is not opened")
}

// held is a loader whose scans wait until they are allowed to continue or their context
// ends.
type held struct {
	*loader.Loader
	waiting chan struct{} // receives a value for each scan that waits
	goOn    chan error    // the error with which each of them fails
}

func newHeld(t *testing.T) *held {
	t.Helper()
	w, d := counting(t)
	d.Staging = nil
	h := &held{waiting: make(chan struct{}, 64), goOn: make(chan error, 64)}
	scan := func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
		h.waiting <- struct{}{}
		select {
		case err := <-h.goOn:
			if err != nil {
				return nil, err
			}
			return w.Scan(ctx, source, columns)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	h.Loader = loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: w, Scan: scan})
	return h
}

// outcome is the result of one of several concurrent callers.
type outcome struct {
	counts *dataset.Counts
	err    error
}

// ask starts a call that counts.
func (h *held) ask(ctx context.Context, let *atomic.Int64) <-chan outcome {
	out := make(chan outcome, 1)
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Filter: datasettest.Filter("day = 1")}, Reading: dataset.Reading{Tail: dataset.TailDrop}}
	go func() {
		counts, err := count(ctx, h.Loader, q, let)
		out <- outcome{counts, err}
	}()
	return out
}

// joined waits until n callers wait for the count of the only plan.
func (h *held) joined(n int) {
	for loader.Waiting(h.Loader) != n {
		runtime.Gosched()
	}
}

// TestConcurrentCallersShareOneCount checks that concurrent callers share one count. The count
// continues when its caller leaves while others wait, and is canceled when the last one
// leaves.
//
// spec: step-8
func TestConcurrentCallersShareOneCount(t *testing.T) {
	t.Parallel()
	h := newHeld(t)
	var let atomic.Int64
	first, leave := context.WithCancel(context.Background())
	one := h.ask(first, &let)
	<-h.waiting
	others := []<-chan outcome{h.ask(context.Background(), &let), h.ask(context.Background(), &let)}
	h.joined(3)
	leave()
	h.joined(2)
	for range 8 {
		h.goOn <- nil
	}
	for _, o := range others {
		got := <-o
		require.NoError(t, got.err)
		require.EqualValues(t, 67, got.counts.Rows)
	}
	require.ErrorIs(t, (<-one).err, context.Canceled)
	require.EqualValues(t, 1, let.Load())

	h = newHeld(t)
	ctx, leave := context.WithCancel(context.Background())
	all := []<-chan outcome{h.ask(ctx, &let)}
	<-h.waiting
	all = append(all, h.ask(ctx, &let))
	h.joined(2)
	leave() // the scan is not allowed to continue: only its context ends it
	for _, o := range all {
		require.ErrorIs(t, (<-o).err, context.Canceled)
	}
	require.Zero(t, loader.Waiting(h.Loader))
	for range 8 {
		h.goOn <- nil
	}
	got := <-h.ask(context.Background(), &let)
	require.NoError(t, got.err, "the next caller counts again")
}

// TestNextCallerCountsAfterAFailedCount checks that the error of a count is returned only to
// the caller that ran it.
//
// spec: step-8
func TestNextCallerCountsAfterAFailedCount(t *testing.T) {
	t.Parallel()
	h := newHeld(t)
	var let atomic.Int64
	one := h.ask(context.Background(), &let)
	<-h.waiting
	other := h.ask(context.Background(), &let)
	h.joined(2)
	h.goOn <- errors.New("a disk broke")
	require.ErrorContains(t, (<-one).err, "a disk broke")
	for range 8 {
		h.goOn <- nil
	}
	got := <-other
	require.NoError(t, got.err)
	require.EqualValues(t, 67, got.counts.Rows)
	require.EqualValues(t, 2, let.Load())
}

// TestCountsAreCachedWithinBounds checks that the oldest counts are dropped first.
func TestCountsAreCachedWithinBounds(t *testing.T) {
	t.Parallel()
	onlyWhole(t)
	w, d := counting(t)
	d.Staging = nil
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: w, Scan: w.Scan})
	ask := func(seed int64) int64 {
		var let atomic.Int64
		q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Filter: datasettest.Filter("day = 1"), Lanes: 4096, Order: dataset.Shuffled, Seed: seed}, Reading: dataset.Reading{Tail: dataset.TailDrop}}
		_, err := count(context.Background(), l, q, &let)
		require.NoError(t, err)
		return let.Load()
	}
	most := int64(loader.RememberedLanes / 4096)
	for seed := range most {
		require.EqualValues(t, 1, ask(seed))
	}
	for seed := range most {
		require.Zero(t, ask(seed), "%d", seed)
	}
	require.EqualValues(t, 1, ask(most))
	require.Zero(t, ask(1))
	require.EqualValues(t, 1, ask(0))
}

// TestCountsComeWithTheCursor checks that another server uses the counts of the cursors
// instead of counting again, and that a stream fails if its lanes return other numbers
// of rows.
//
// spec: step-9, step-11
func TestCountsComeWithTheCursor(t *testing.T) {
	t.Parallel()
	w, d := counting(t)
	fresh := func() *loader.Loader {
		return loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: w, Scan: w.Scan})
	}
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Filter: datasettest.Filter("named <> day"), Lanes: 4}, Reading: dataset.Reading{Shard: dataset.Shard{Index: dataset.AllShards, Of: 2}, BatchRows: 6, Tail: dataset.TailDrop}}
	shards, err := scenario.Read(context.Background(), fresh(), q)
	require.NoError(t, err)
	q.Cursor = dataset.Cursors{shards[0].Cursors[1], shards[1].Cursors[1]}
	for _, of := range []int{1, 2, 4} {
		next := q
		next.Shard.Of, next.BatchRows = of, 12/of
		var let atomic.Int64
		counts, err := count(context.Background(), fresh(), next, &let)
		require.NoError(t, err)
		require.Zero(t, let.Load())
		require.Equal(t, shards[0].Report.Cursor.Counted.Rows, counts.Rows)
		require.NotContains(t, counts.Lanes, int64(dataset.UnknownRows))
		rest, err := scenario.Read(context.Background(), fresh(), next)
		require.NoError(t, err)
		require.Len(t, rest[0].Batches, len(shards[0].Batches)-2)
	}

	counted := *shards[0].Cursors[1].Counted
	for name, test := range map[string]struct {
		change func(of *dataset.Counted)
		tail   dataset.Tail
		text   string
	}{
		"a lane has less":     {func(of *dataset.Counted) { of.Lanes[0]--; of.Rows--; of.Shortest = min(of.Shortest, of.Lanes[0]) }, dataset.TailKeep, "lane 0 does not have the"},
		"a lane has more":     {func(of *dataset.Counted) { of.Lanes[1]++; of.Rows++; of.Longest = max(of.Longest, of.Lanes[1]) }, dataset.TailKeep, "lane 2 does not have the"},
		"a lane has far more": {func(of *dataset.Counted) { of.Lanes[1] += 99; of.Rows += 99; of.Longest = of.Lanes[1] }, dataset.TailKeep, "lane 2 does not have the"},
		"all lanes have more": {func(of *dataset.Counted) {
			of.Lanes[0] += 99
			of.Lanes[1] += 99
			of.Rows += 500
			of.Longest += 200
			of.Shortest += 99
		}, dataset.TailDrop, "does not have the"},
		"fewer than were given":  {func(of *dataset.Counted) { of.Lanes[0] = 1; of.Shortest = 1; of.Rows = 100 }, dataset.TailDrop, "lane 0 does not have the 1 rows that"},
		"a lane below all":       {func(of *dataset.Counted) { of.Lanes[0] = of.Shortest - 1 }, dataset.TailKeep, "are impossible"},
		"a lane above all":       {func(of *dataset.Counted) { of.Lanes[0] = of.Longest + 1 }, dataset.TailKeep, "are impossible"},
		"fewer than their lanes": {func(of *dataset.Counted) { of.Rows = of.Lanes[0] }, dataset.TailKeep, "are impossible"},
		"more than their lanes":  {func(of *dataset.Counted) { of.Rows += 1000 }, dataset.TailKeep, "are impossible"},
		"too few lanes":          {func(of *dataset.Counted) { of.Lanes = of.Lanes[1:] }, dataset.TailKeep, "reads 2 lanes, but counts are given for 1"},
	} {
		changed := counted
		changed.Lanes = slices.Clone(counted.Lanes)
		test.change(&changed)
		cursor := shards[0].Cursors[1]
		cursor.Counted = &changed
		bad := q
		bad.Shard, bad.Cursor, bad.Tail = dataset.Shard{Index: 0, Of: 2}, dataset.Cursors{cursor}, test.tail
		_, err := scenario.Read(context.Background(), fresh(), bad)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
		require.ErrorContains(t, err, test.text, name)
	}
	apart := shards[1].Cursors[1]
	other := *apart.Counted
	other.Longest++
	apart.Counted = &other
	q.Cursor = dataset.Cursors{shards[0].Cursors[1], apart}
	_, err = scenario.Read(context.Background(), fresh(), q)
	require.Equal(t, "cursor[1].counted", fault.As(err).Faults[0].Field)
	apart.Counted = nil
	q.Cursor = dataset.Cursors{shards[0].Cursors[1], apart}
	var let atomic.Int64
	_, err = count(context.Background(), fresh(), q, &let)
	require.NoError(t, err)
	require.EqualValues(t, 1, let.Load(), "if one cursor lacks the count, rows are counted again")
}

// TestKnownCountsOverrideThoseOfACursor checks that the counts of a cursor are ignored if the
// manifests have the counts.
func TestKnownCountsOverrideThoseOfACursor(t *testing.T) {
	t.Parallel()
	w, d := counting(t)
	d.Staging = nil
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: w, Scan: w.Scan})
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 2}, Reading: dataset.Reading{BatchRows: 20, Shard: dataset.Shard{Of: 1}, Tail: dataset.TailDrop}}
	want, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	cursor := want[0].Cursors[0]
	require.Nil(t, cursor.Counted)
	cursor.Counted = &dataset.Counted{Rows: 40, Shortest: 20, Longest: 20, Lanes: []int64{20, 20}}
	q.Cursor = dataset.Cursors{cursor}
	got, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	require.Equal(t, want[0].Batches[1:], got[0].Batches)
	require.Equal(t, want[0].Report.Cursor, got[0].Report.Cursor)
}
