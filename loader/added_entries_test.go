package loader_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// runs returns queries of all orders, with which a stream returns several batches.
func runs() map[string]dataset.Query {
	shuffled := func(shuffle dataset.Shuffle) dataset.Rows {
		r := dataset.Rows{Dataset: "d", Lanes: 2, Order: dataset.Shuffled, Shuffle: shuffle, Seed: 7}
		if shuffle != dataset.ShuffleSplits {
			r.ShuffleWindow, r.ShuffleParts = 16, 2
		}
		return r
	}
	rows := dataset.Reading{BatchRows: 8, Shard: dataset.Shard{Of: 1}}
	return map[string]dataset.Query{
		"stored":            {Rows: dataset.Rows{Dataset: "d", Lanes: 1}, Reading: rows},
		"stored, 4 lanes":   {Rows: dataset.Rows{Dataset: "d", Lanes: 4}, Reading: rows},
		"shuffled splits":   {Rows: shuffled(dataset.ShuffleSplits), Reading: rows},
		"shuffled requests": {Rows: shuffled(dataset.ShuffleRequests), Reading: rows},
		"shuffled rows":     {Rows: shuffled(dataset.ShuffleRows), Reading: rows},
		"requests":          {Rows: shuffled(dataset.ShuffleRequests), Reading: dataset.Reading{BatchRequests: 4, Shard: dataset.Shard{Of: 1}}},
		"indexed":           {Rows: shuffled(dataset.ShuffleRows), Reading: dataset.Reading{BatchRows: 8, Wire: dataset.WireIndexed, Shard: dataset.Shard{Of: 1}}},
	}
}

// requireRest checks that from each cursor of a run, a query of a loader has the remaining rows of its own whole run, with all
// of its columns.
func requireRest(t *testing.T, of scenario.Shard, l *loader.Loader, q dataset.Query) {
	t.Helper()
	whole, err := scenario.Read(t.Context(), l, q)
	require.NoError(t, err)
	want := scenario.Texts(whole[0].Rows())
	given := 0
	require.Greater(t, len(of.Cursors), 2)
	for i, cursor := range of.Cursors {
		given += len(of.Batches[i])
		resumed := dataset.Query{Rows: dataset.Rows{Dataset: "d", With: q.With}, Reading: q.Reading}
		resumed.Cursor = dataset.Cursors{cursor}
		rest, err := scenario.Read(t.Context(), l, resumed)
		require.NoError(t, err, "after batch %d", i)
		require.Equal(t, want[given:], append([]string{}, scenario.Texts(rest[0].Rows())...), "after batch %d", i)
		for _, next := range rest[0].Cursors {
			require.Len(t, next.Pin.Staging, len(whole[0].Cursors[0].Pin.Staging), "all entries are pinned")
		}
	}
}

// projected returns rows with their first columns alone.
func projected(rows [][]any, columns int) []string {
	out := make([][]any, len(rows))
	for i, row := range rows {
		out[i] = row[:columns]
	}
	return scenario.Texts(out)
}

// TestRunsResumeAfterAnEntryWasAdded checks, for all orders, that a run which began before a left entry was added to its
// dataset resumes with the rows that an unbroken run with the entry has, and that the old columns of these are those of an
// unbroken run without it. It checks the same for an entry that the query adds, also after the dataset has it, and
// for one that is removed.
//
// spec: cursor-30, cursor-31, ticket-17, resolve-91, resolve-116
func TestRunsResumeAfterAnEntryWasAdded(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	whole, before := c.Dataset, c.Dataset
	before.Staging = before.Staging[:1]
	added := slices.Clone(whole.Staging[1:])
	for name, q := range runs() {
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{before}, Catalog: c.World, Scan: c.Scan})
		old, err := scenario.Read(t.Context(), l, q)
		require.NoError(t, err, name)

		asked := q
		asked.With = added
		requireRest(t, old[0], l, asked)
		with, err := scenario.Read(t.Context(), l, asked)
		require.NoError(t, err, name)
		requireRest(t, with[0], l, q)

		l.SetDatasets([]dataset.Dataset{whole})
		requireRest(t, old[0], l, q)
		requireRest(t, old[0], l, asked)
		requireRest(t, with[0], l, asked)
		both, err := scenario.Read(t.Context(), l, q)
		require.NoError(t, err, name)
		require.Equal(t, scenario.Texts(with[0].Rows()), scenario.Texts(both[0].Rows()), "%s: an entry of a query is as one of the configuration", name)
		if q.Wire != dataset.WireIndexed {
			columns := old[0].Schema.NumFields()
			require.Less(t, columns, both[0].Schema.NumFields(), name)
			require.Equal(t, scenario.Texts(old[0].Rows()), projected(both[0].Rows(), columns), name)
		}

		l.SetDatasets([]dataset.Dataset{before})
		requireRest(t, both[0], l, q)
	}
}

// TestOpenStreamsKeepTheirDataset changes the dataset of a stream that is open.
//
// spec: ticket-17
func TestOpenStreamsKeepTheirDataset(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for name, q := range runs() {
		l := c.Loader()
		want, err := scenario.Read(t.Context(), l, q)
		require.NoError(t, err, name)
		other := c.Dataset
		other.Staging = nil
		batches := 0
		got, err := scenario.ReadBetween(t.Context(), l, q, func(loader.Stream) {
			if batches++; batches == 3 {
				l.SetDatasets([]dataset.Dataset{other})
			}
		})
		require.NoError(t, err, name)
		require.Equal(t, scenario.Texts(want[0].Rows()), scenario.Texts(got[0].Rows()), name)
		require.Equal(t, want[0].Report.Staging, got[0].Report.Staging, name)
		require.Greater(t, batches, 3, name)
	}
}

// priced returns a world with a table of prices, and tables of others.
func priced(t *testing.T) *scenario.World {
	t.Helper()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	row := func(value int) func(int) string { return func(i int) string { return fmt.Sprint(i, " ", i*value) } }
	loadertest.Rows("ml.t", "id:long price:long", "bucket(2,id)", 40, row(1)).In(t, w)
	loadertest.Rows("features.prices", "id:long price:long", "bucket(2,id)", 40, row(10)).In(t, w)
	loadertest.Rows("features.scores", "id:long score:long", "bucket(2,id)", 40, row(100)).In(t, w)
	loadertest.Rows("features.others", "id:long score:long", "bucket(2,id)", 40, row(1000)).In(t, w)
	return w
}

// TestAddedOverlaysAreAskedFor checks that a run does not get other values of a column that it reads because an overlay was
// added to its dataset, unless its query asks for the overlay.
//
// spec: cursor-32
func TestAddedOverlaysAreAskedFor(t *testing.T) {
	t.Parallel()
	w := priced(t)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.t"}}
	prices := dataset.Staging{Table: "features.prices", Join: rule.Overlay}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: w, Scan: w.Scan})
	old, err := scenario.Read(t.Context(), l, loadertest.OneShard(1, 8))
	require.NoError(t, err)
	resumed := dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{BatchRows: 8, Cursor: old[0].Cursors[1:2]}}
	first := func(q dataset.Query) string {
		rest, err := scenario.Read(t.Context(), l, q)
		require.NoError(t, err)
		require.Len(t, rest[0].Rows(), 24)
		return scenario.Texts(rest[0].Rows())[0]
	}
	before := first(resumed)

	with := resumed
	with.With = []dataset.Staging{prices}
	overlay := first(with)
	require.Equal(t, before[:len(before)-1]+"0]", overlay, "ten times the price: the query adds the overlay")

	changed := d
	changed.Staging = []dataset.Staging{prices}
	l.SetDatasets([]dataset.Dataset{changed.Defaults()})
	require.Equal(t, overlay, first(with), "the query still adds it")
	_, err = l.Plan(t.Context(), resumed)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "overlay prices of the dataset replaces column price, and the run of the cursor did not have it")
	require.Contains(t, fault.As(err).Remedy, "name the snapshot of prices in snapshots")

	narrow := resumed
	narrow.Columns = []dataset.Column{{Column: "id"}}
	require.NotEmpty(t, first(narrow), "the column is not read")
	asked := resumed
	now, err := l.Plan(t.Context(), dataset.Query{Rows: dataset.Rows{Dataset: "d"}})
	require.NoError(t, err)
	asked.Pin = dataset.Pin{Staging: map[string]dataset.TablePin{"prices": {Snapshot: now.Rows.Pin.Staging["prices"].Snapshot}}}
	require.Equal(t, overlay, first(asked), "the query names its snapshot")

	rest, err := scenario.Read(t.Context(), l, asked)
	require.NoError(t, err)
	later := resumed
	later.Cursor = rest[0].Cursors[:1]
	again, err := scenario.Read(t.Context(), l, later)
	require.NoError(t, err)
	require.Len(t, again[0].Rows(), 16, "the run has it from there on")
}

// TestAnEntryOfTheSameNameMustBeTheSameTable checks that a cursor does not resume with another table under the name of one
// that it pins.
//
// spec: cursor-33
func TestAnEntryOfTheSameNameMustBeTheSameTable(t *testing.T) {
	t.Parallel()
	w := priced(t)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.t"}, Staging: []dataset.Staging{{Table: "features.scores", Name: "s"}}}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	old, err := scenario.Read(t.Context(), l, loadertest.OneShard(1, 8))
	require.NoError(t, err)
	d.Staging = []dataset.Staging{{Table: "features.others", Name: "s"}}
	l.SetDatasets([]dataset.Dataset{d.Defaults()})
	resumed := dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{Cursor: old[0].Cursors[:1]}}
	_, err = l.Plan(t.Context(), resumed)
	require.Equal(t, fault.Expired, fault.KindOf(err))
	require.ErrorContains(t, err, "staging table s")
	require.Contains(t, fault.As(err).Remedy, "give it another name")

	d.Staging[0].Name = "t"
	l.SetDatasets([]dataset.Dataset{d.Defaults()})
	rest, err := scenario.Read(t.Context(), l, resumed)
	require.NoError(t, err)
	require.Len(t, rest[0].Rows(), 32)
}

// TestAddedEntriesArePinnedFromThereOn checks that an added entry is read at its state when the run resumes, and at that
// state when it resumes again, whatever was committed in between; and at the query's snapshot, so that all ranks agree.
//
// spec: pin-14, pin-15
func TestAddedEntriesArePinnedFromThereOn(t *testing.T) {
	t.Parallel()
	w := priced(t)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.t"}}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: w, Scan: w.Scan})
	old, err := scenario.Read(t.Context(), l, loadertest.OneShard(1, 8))
	require.NoError(t, err)
	d.Staging = []dataset.Staging{{Table: "features.scores", Duplicates: rule.DuplicatesLast}}
	l.SetDatasets([]dataset.Dataset{d.Defaults()})
	resume := func(from dataset.Cursor, pin dataset.Pin) scenario.Shard {
		rest, err := scenario.Read(t.Context(), l, dataset.Query{Rows: dataset.Rows{Dataset: "d", Pin: pin}, Reading: dataset.Reading{Cursor: dataset.Cursors{from}}})
		require.NoError(t, err)
		return rest[0]
	}
	rest := resume(old[0].Cursors[1], dataset.Pin{})
	table, err := w.Table(t.Context(), "features.scores", dataset.Ref{})
	require.NoError(t, err)
	b, err := scenario.Rows(table.Fields, []string{"39 -1"})
	require.NoError(t, err)
	defer b.Release()
	require.NoError(t, w.Append(table, 0, b, 0))

	rows := scenario.Texts(rest.Rows())
	again := resume(rest.Cursors[0], dataset.Pin{})
	require.Equal(t, rows[len(rest.Batches[0]):], scenario.Texts(again.Rows()))
	other := resume(old[0].Cursors[1], dataset.Pin{})
	require.NotEqual(t, rows, scenario.Texts(other.Rows()), "without it, the state of now")
	pinned := resume(old[0].Cursors[1], dataset.Pin{Staging: map[string]dataset.TablePin{"scores": rest.Cursors[0].Pin.Staging["scores"]}})
	require.Equal(t, rows, scenario.Texts(pinned.Rows()))
}

// TestFaultsOfAddedEntriesNameTheirPlaceInTheQuery checks the errors that planning finds in the tables.
//
// spec: resolve-93
func TestFaultsOfAddedEntriesNameTheirPlaceInTheQuery(t *testing.T) {
	t.Parallel()
	w := priced(t)
	loadertest.Rows("features.texts", "id:string v:long", "bucket(2,id)", 4, func(i int) string { return fmt.Sprint(i, " 1") }).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.t"}, Staging: []dataset.Staging{{Table: "features.scores"}}}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	for _, c := range []struct {
		entry       dataset.Staging
		field, says string
	}{
		{dataset.Staging{Table: "features.texts"}, "with[0].key", "with[0].key: ml.t.id is int64 and features.texts.id is utf8: keys of these types cannot be equal"},
		{dataset.Staging{Table: "features.others"}, "with[0]", `set prefix: "others_"`},
		{dataset.Staging{Table: "features.others", Columns: []dataset.Column{{Column: "none"}}}, "with[0].columns[0]", `no column "none"`},
	} {
		_, err := l.Plan(t.Context(), dataset.Query{Rows: dataset.Rows{Dataset: "d", With: []dataset.Staging{c.entry}}})
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.Equal(t, c.field, fault.As(err).Faults[0].Field)
		require.ErrorContains(t, err, c.says)
	}
}
