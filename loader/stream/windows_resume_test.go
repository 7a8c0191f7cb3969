package stream_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// requireResumes checks that from each cursor of a stream of one shard, another stream has the remaining rows.
func requireResumes(t *testing.T, open func() *loader.Loader, q dataset.Query) (rows int) {
	t.Helper()
	whole, err := scenario.Read(t.Context(), open(), q)
	require.NoError(t, err)
	all := scenario.Texts(whole[0].Rows())
	given := 0
	for i, cursor := range whole[0].Cursors {
		given += len(whole[0].Batches[i])
		next := q
		next.Cursor = dataset.Cursors{cursor}
		rest, err := scenario.Read(t.Context(), open(), next)
		require.NoError(t, err, "after batch %d, %v", i, cursor.At)
		require.Equal(t, all[given:], append([]string{}, scenario.Texts(rest[0].Rows())...), "after batch %d, %v", i, cursor.At)
	}
	return len(all)
}

// distinctByID is a dataset whose rows are the first of each id.
func distinctByID(key string) dataset.Dataset {
	return dataset.Dataset{Name: "d", Key: []string{key}, Training: dataset.Training{
		Table: "ml.train", Distinct: &dataset.Distinct{By: []string{"id"}, OrderBy: []dataset.OrderBy{{Column: "at"}}},
	}}
}

// TestRequestsWithoutRepeatedRowsResume resumes at windows that begin with a request whose first row, which is stored in
// the window before, is dropped as repeated.
//
// spec: request-4, request-6
func TestRequestsWithoutRepeatedRowsResume(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long at:long item:long req:long", "bucket(1,id)", 80, func(i int) string {
		id := i
		if i%4 == 3 {
			id--
		}
		return fmt.Sprint(id, " ", i, " ", i, " ", (i+1)/2)
	}).In(t, w)
	d := distinctByID("req")
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 1, Order: dataset.Shuffled, ShuffleWindow: 4}, Reading: dataset.Reading{BatchRequests: 1}}
	require.Equal(t, 60, requireResumes(t, func() *loader.Loader { return l }, q))
}

// TestSpilledJoinsWithoutRepeatedRowsResume resumes within a range with repeated rows that is joined with slices on local
// disk: the rows that are matched first must be those that reach the join.
//
// spec: join-66, cursor-10
func TestSpilledJoinsWithoutRepeatedRowsResume(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	w.BatchRows = 50
	t.Cleanup(w.Release)
	const ids = 600
	loadertest.Rows("ml.train", "id:long at:long item:long", "bucket(1,id)", 2*ids, func(i int) string {
		id := i
		if i >= ids && i%2 == 0 {
			id -= ids // repeats a row of the first windows, between rows that do not
		}
		return fmt.Sprint(id, " ", i, " ", i)
	}).In(t, w)
	loadertest.Rows("features.f", "id:long v:long text:string", "bucket(1,id)", 2*ids, func(i int) string { return fmt.Sprint(i, " ", -i, " t", i) }).In(t, w)
	d := distinctByID("id")
	d.Staging = []dataset.Staging{{Table: "features.f"}}
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 1, Order: dataset.Shuffled, ShuffleWindow: 200}, Reading: dataset.Reading{BatchRows: 100}}
	open := func(limit int64) *loader.Loader {
		_, create := loadertest.Disk(t, 0)
		return loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, Budget: budget.New(limit), Disk: create})
	}
	p, err := open(1<<30).Plan(t.Context(), q)
	require.NoError(t, err)
	fits := p.StagingUse(0).Largest.Memory()*8/7 - 1
	require.Equal(t, ids+ids/2, requireResumes(t, func() *loader.Loader { return open(fits) }, q))
}

// TestWindowsThatOnlyContinueRequests resumes at windows all of whose rows belong to requests of earlier ones.
//
// spec: request-4
func TestWindowsThatOnlyContinueRequests(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 1, StagingBuckets: []int{3}}
	tried := 0
	for seed := range uint64(6) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		leftOnly(c)
		q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Order: dataset.Shuffled, ShuffleWindow: 1, ShuffleParts: 1, Lanes: 1}, Reading: dataset.Reading{BatchRequests: 1, Columns: itemAndRequest}}
		shards, err := scenario.Read(t.Context(), c.Loader(), q)
		require.NoError(t, err)
		if len(shards[0].Cursors) == 0 {
			c.Release()
			continue
		}
		at := shards[0].Cursors[0]
		for window := int64(1); err == nil; window++ {
			at.At = []dataset.Position{{Lane: 0, Range: at.At[0].Range, Window: window}}
			q.Cursor = dataset.Cursors{at}
			_, err = scenario.Read(t.Context(), c.Loader(), q)
			tried++
		}
		require.Equal(t, fault.Invalid, fault.KindOf(err), "the run has no such window")
		c.Release()
	}
	require.Greater(t, tried, 30/share)
}

// openStore counts the stores on local disk that are open.
type openStore struct {
	spill.Store
	open *atomic.Int64
	once sync.Once
}

// Release implements spill.Store.
func (s *openStore) Release() {
	s.once.Do(func() { s.open.Add(-1) })
	s.Store.Release()
}

// TestFinishedSectionsCloseTheirStores: however many ranges a window has, few of its joins have a store on local disk at a
// time.
//
// spec: join-66
func TestFinishedSectionsCloseTheirStores(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	w.BatchRows = 50
	t.Cleanup(w.Release)
	const rows, days, features = 1200, 100, 12_000
	loadertest.Rows("ml.train", "id:long day:long item:long", "day bucket(1,id)", rows, func(i int) string { return fmt.Sprint(i, " ", i*days/rows, " ", i) }).In(t, w)
	loadertest.Rows("features.f", "id:long v:long text:string", "bucket(1,id)", features, func(i int) string { return fmt.Sprint(i, " ", -i, " t", i) }).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 1, Order: dataset.Shuffled, ShuffleWindow: 600}, Reading: dataset.Reading{BatchRows: 100}}
	options := loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, Budget: budget.New(1 << 40)}
	p, err := loader.New(options).Plan(t.Context(), q)
	require.NoError(t, err)
	_, create := loadertest.Disk(t, 0)
	var open, most atomic.Int64
	options.Budget = budget.New(p.StagingUse(0).Largest.Memory() / 4)
	options.Disk = func(what string) (spill.Store, error) {
		store, err := create(what)
		if err != nil {
			return nil, err
		}
		most.Store(max(most.Load(), open.Add(1)))
		return &openStore{Store: store, open: &open}, nil
	}
	shards, err := scenario.Read(t.Context(), loader.New(options), q)
	require.NoError(t, err)
	require.EqualValues(t, rows, shards[0].Report.Rows)
	require.Greater(t, most.Load(), int64(1), "the join is on local disk")
	require.Less(t, most.Load(), int64(30))
}
