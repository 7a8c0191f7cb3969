package stage_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// training creates the table ml.impressions with buckets of a key, given the key's type.
func training(t *testing.T, r *stagetest.Rig, key, buckets string) {
	t.Helper()
	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
		Table:     "ml.impressions",
		Columns:   []commit.NewColumn{{ID: 1, Name: "id", Type: key}},
		Partition: []commit.PartitionBy{{Column: 1, Name: "b", Transform: buckets}},
	}))
}

// A request whose layout differs from the table's is refused before a row is read. A request with
// the same layout is accepted.
//
// spec: stage-57
func TestLayoutsOfTablesAreNotChanged(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	training(t, r, "long", "bucket[7]")
	first := stagetest.Create()
	first.Partition, first.Sort = []string{"day(day)"}, []string{"country", "id desc"}
	r.Stage(t, first, stagetest.Schema(), stagetest.Few)
	r.Stage(t, first, stagetest.Schema(), stagetest.Few)

	for want, request := range map[string]dataset.TableWrite{
		"buckets: table ml.history is partitioned by day(day), bucket[4](id), and the call names 8 buckets":    {Buckets: 8},
		"like: table ml.history is partitioned by day(day), bucket[4](id), and the call names 7 buckets":       {Like: "ml.impressions"},
		"partition: table ml.history is partitioned by day(day), bucket[4](id), and the call names month(day)": {Partition: []string{"day(day)", "month(day)"}},
		"partition: table ml.history is partitioned by day(day), bucket[4](id), and the call names country":    {Partition: []string{"country"}},
		`partition: "week(day)" has an unknown transform week`:                                                 {Partition: []string{"week(day)"}},
		"sort: table ml.history is sorted by country, id desc, and the call names id":                          {Sort: []string{"id"}},
		"sort: table ml.history is sorted by country, id desc, and the call names country, id":                 {Sort: []string{"country", "id"}},
	} {
		request.Table = stagetest.History
		_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, unread(t, stagetest.Schema()))
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, want)
	}
	require.Len(t, r.Column(t, "", "id"), 8)

	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{Table: "ml.flat", Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}}}))
	flat := dataset.TableWrite{Table: "ml.flat", Key: []string{"id"}, Buckets: 4}
	of := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, flat, unread(t, of))
	require.ErrorContains(t, err, "table ml.flat is not partitioned by any column, and the call names 4 buckets")
}

// Keys whose type cannot equal that of the table in Like are refused before a row is read, for new
// and existing tables. An int can equal a long.
//
// spec: stage-58
func TestKeysOfOtherTypesAreRefused(t *testing.T) {
	for typed, want := range map[string]string{
		"string": "column id of the rows has type int64, and column id of table ml.impressions has type utf8: keys of these types cannot be equal",
		"int":    "",
	} {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		training(t, r, typed, "bucket[4]")
		for _, exists := range []bool{false, true} {
			if exists {
				r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
			}
			request := dataset.TableWrite{Table: stagetest.History, Key: []string{"id"}, Like: "ml.impressions"}
			if want == "" {
				request.DryRun = true
				r.Stage(t, request, stagetest.Schema(), stagetest.Few)
				continue
			}
			_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, unread(t, stagetest.Schema()))
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "cast the column to utf8")
		}
	}
}

// The index of a pandas data frame does not become a column, unless the table already has the
// column.
//
// spec: stage-34
func TestIndicesOfPandasAreRefused(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	of := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "__index_level_0__", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, stagetest.Create(), unread(t, of))
	require.ErrorContains(t, err, `column "__index_level_0__": it is the index of a pandas data frame`)
	require.Equal(t, fault.Invalid, fault.KindOf(err))

	r.Stage(t, stagetest.Create(), arrow.NewSchema(of.Fields()[:1], nil), `[{"id": 1}]`)
	request := dataset.TableWrite{Table: stagetest.History, Evolve: true}
	_, err = r.Stager.Stage(t.Context(), stage.CallOptions{}, request, unread(t, of))
	require.ErrorContains(t, err, "it is the index of a pandas data frame")

	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
		Table: "ml.indexed", Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}, {ID: 2, Name: "__index_level_0__", Type: "long"}},
	}))
	request = dataset.TableWrite{Table: "ml.indexed"}
	require.EqualValues(t, 1, r.Stage(t, request, of, `[{"id": 1, "__index_level_0__": 0}]`).Rows)
}
