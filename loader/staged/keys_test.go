package staged_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/keyset"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/scan"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/staged"
)

// training is the training table of the tests. Its n rows have n different items and n/5 different
// requests.
const training = "ml.train"

func newDatasets(t *testing.T, rows int, configured ...dataset.Dataset) staged.Datasets {
	t.Helper()
	of, _ := loadertest.NewParquetTable(t, rows, rows).Loader(t, scan.Options{})
	of.SetDatasets(configured)
	return staged.Datasets{Loader: of, Same: func(a, b string) bool { return a == b }}
}

func longs(names ...string) []arrow.Field {
	var out []arrow.Field
	for _, name := range names {
		out = append(out, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64})
	}
	return out
}

// joins returns a dataset that joins table features.history by column rid of its key, and another
// table by other columns.
func joins(name string) dataset.Dataset {
	return dataset.Dataset{
		Name: name, Training: dataset.Training{Table: training},
		Staging: []dataset.Staging{
			{Name: "h", Table: "features.history", Key: []dataset.KeyPair{{Training: "req", Staging: "rid"}}, Duplicates: rule.DuplicatesLast},
			{Name: "o", Table: "features.other", Key: []dataset.KeyPair{{Training: "item", Staging: "rid"}}},
		},
	}
}

// The keys of a dataset are the values of the columns by which it joins the table.
//
// spec: stage-50
func TestKeysAreThoseThatTheDatasetJoins(t *testing.T) {
	d := newDatasets(t, 50, joins("clicks"))
	has := func(k staged.Keys, want map[int64]bool, columns ...string) {
		key := longs(columns...)
		keys, err := k.Read(t.Context(), key)
		require.NoError(t, err)
		defer keys.Release()
		for value, in := range want {
			b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(key, nil))
			b.Field(0).(*array.Int64Builder).Append(value)
			one, found := b.NewRecordBatch(), []bool{false}
			b.Release()
			require.NoError(t, keys.Contains(t.Context(), one, found))
			one.Release()
			require.Equal(t, in, found[0], "%d of %v", value, columns)
		}
	}
	has(staged.Keys{Datasets: d, Of: "clicks", Staged: "features.history"}, map[int64]bool{9: true, 10: false}, "rid")
	has(staged.Keys{Datasets: d, Of: "clicks", Staged: "features.other"}, map[int64]bool{9: true, 49: true, 50: false}, "rid")
	has(staged.Keys{Datasets: d, Of: training, Staged: "features.history"}, map[int64]bool{49: true, 50: false}, "item")

	_, err := staged.Keys{Datasets: d, Of: "clicks", Staged: "features.history"}.Read(t.Context(), longs("country"))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "by column country of its key")
	_, err = staged.Keys{Datasets: d, Of: "click", Staged: "features.history"}.Read(t.Context(), longs("rid"))
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	texts := []arrow.Field{{Name: "item", Type: arrow.BinaryTypes.String}}
	_, err = staged.Keys{Datasets: d, Of: training, Staged: "features.history"}.Read(t.Context(), texts)
	require.ErrorContains(t, err, "keys of these types cannot be compared")
}

// Keys that do not fit in memory are an error that contains the sufficient amount of memory.
//
// spec: stage-50
func TestKeysThatDoNotFit(t *testing.T) {
	const rows, share = 60_000, 4
	of := staged.Keys{Datasets: newDatasets(t, rows), Of: training, Staged: "features.history"}
	enough := share * keyset.BytesFor(rows)
	of.Budget = budget.New(enough / 3)
	_, err := of.Read(t.Context(), longs("item"))
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, fmt.Sprintf("need up to %d bytes", keyset.BytesFor(rows)))
	require.Contains(t, fault.As(err).Remedy, fmt.Sprintf("set memory to %d bytes", enough))
	require.Zero(t, of.Budget.Used())
	of.Budget = budget.New(enough)
	keys, err := of.Read(t.Context(), longs("item"))
	require.NoError(t, err)
	keys.Release()
	require.Zero(t, of.Budget.Used())
}

// The readers of a table are the dataset entries that read it. Entries that accept only one row of
// a key need unique keys.
//
// spec: stage-113
func TestReadersOfATable(t *testing.T) {
	filter, err := dataset.ParseFilter("rid > 3")
	require.NoError(t, err)
	hidden := joins("hidden")
	hidden.Staging[1].Filter = filter
	semi := joins("semi")
	semi.Staging[1].Join = rule.Semi
	timed := joins("timed")
	timed.Staging[1].PointInTime, timed.Staging[1].Align = &dataset.PointInTime{Training: "at", Staging: "ts"}, &dataset.Align{Training: "day"}
	d := newDatasets(t, 5, joins("clicks"), hidden, semi, timed)
	key := []dataset.KeyPair{{Training: "item", Staging: "rid"}}
	shown := func(name string) bool { return name != "hidden" }
	require.Equal(t, []stage.DatasetReader{
		{Dataset: "clicks", Entry: "o", Training: training, Key: key, Unique: true},
		{Training: training, Key: key},
		{Dataset: "semi", Entry: "o", Training: training, Key: key},
		{Dataset: "timed", Entry: "o", Training: training, Key: key, Unique: true, Time: "ts", Aligned: true},
	}, d.Readers("features.other", shown))
	for _, r := range d.Readers("features.history", shown) {
		require.False(t, r.Unique, "the last row of a key is taken")
	}
	require.Equal(t, stage.DatasetReader{Dataset: "clicks", Training: training}, d.Readers(training, shown)[0])
	require.Empty(t, d.Readers("features.unread", shown))
}

// The row order of a table matters only if a dataset takes the first or last row of a key. The
// error names only datasets that are shown.
//
// spec: compact-7, change-8
func TestTablesWhoseOrderMatters(t *testing.T) {
	d := newDatasets(t, 5, joins("clicks"))
	all := func(string) bool { return true }
	err := d.CheckAnyOrder("features.history", all)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "dataset clicks takes")
	err = d.CheckAnyOrder("features.history", func(string) bool { return false })
	require.ErrorContains(t, err, "a dataset of the server takes")
	require.NotContains(t, err.Error(), "clicks")
	require.NoError(t, d.CheckAnyOrder("features.other", all))
	require.NoError(t, d.CheckAnyOrder(training, all))
}
