package stage_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// spec: stage-94
func TestPropertiesAskForBloomFilters(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	const option = "write.parquet.bloom-filter-enabled.column."
	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
		Table: stagetest.History, Columns: []commit.NewColumn{
			{ID: 1, Name: "id", Type: "long"},
			{ID: 2, Name: "day", Type: "date"},
			{ID: 4, Name: "country", Type: "string"},
			{ID: 3, Name: "items", Type: `{"type":"list","element-id":5,"element":"long","element-required":false}`},
		},
		Partition:  []commit.PartitionBy{{Column: 2, Name: "day", Transform: "identity"}},
		Properties: map[string]string{option + "id": "true", option + "country": "TRUE", option + "day": "false", option + "items": "true", option + "gone": "true"},
	}))
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Key: []string{"id"}}, stagetest.Schema(), stagetest.Few)
	paths := r.Parquet(t)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		f, err := file.OpenParquetFile(path, false)
		require.NoError(t, err)
		got := map[string]bool{}
		for i := range f.MetaData().Schema.NumColumns() {
			chunk, err := f.MetaData().RowGroup(0).ColumnChunk(i)
			require.NoError(t, err)
			got[f.MetaData().Schema.Column(i).Path()] = chunk.BloomFilterOffset() > 0
		}
		require.NoError(t, f.Close())
		require.Equal(t, map[string]bool{"id": true, "day": false, "country": true, "items.list.element": false}, got)
	}
}
