package promote_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// The field ids of the columns of row lineage.
const (
	updatedID = 2147483539
	rowID     = 2147483540
)

// addStored adds a file like those that Spark writes when it rewrites rows, with the columns of row
// lineage and their statistics.
func (r *rig) addStored(t *testing.T) {
	t.Helper()
	var fields []arrow.Field
	for _, name := range []string{"row", "key", catalog.RowIDColumn, catalog.UpdatedColumn} {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	schema := arrow.NewSchema(fields, nil)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[
		{"row": 5, "key": 1, "_row_id": 1, "_last_updated_sequence_number": 1},
		{"row": 6, "key": 2, "_row_id": 0, "_last_updated_sequence_number": null},
		{"row": 7, "key": 3, "_row_id": null, "_last_updated_sequence_number": null}]`))
	require.NoError(t, err)
	in, err := array.NewRecordReader(schema, []arrow.RecordBatch{b})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, parquettest.Write(&out, in, parquettest.Options{FieldIDs: []int{1, 2, rowID, updatedID}}))
	path := filepath.Join(r.dir, "ml", "rows", "data", "stored.parquet")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	file, err := iceberg.NewDataFileBuilder(iceberg.NewPartitionSpec(), iceberg.EntryContentData, "file://"+path, iceberg.ParquetFile, nil, nil, nil, b.NumRows(), int64(out.Len()))
	require.NoError(t, err)
	counts := map[int]int64{1: 3, 2: 3, rowID: 3, updatedID: 3}
	bound := map[int][]byte{rowID: make([]byte, 8)}
	file.FirstRowID(2).ValueCounts(counts).NullValueCounts(map[int]int64{1: 0, 2: 0, rowID: 1, updatedID: 2}).ColumnSizes(counts).LowerBoundValues(bound).UpperBoundValues(bound)
	tx := r.load(t).NewTransaction()
	require.NoError(t, tx.AddDataFiles(t.Context(), []iceberg.DataFile{file.Build()}, nil))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
}

// Rows keep their ids and sequence numbers, whether or not their file stores them.
//
// spec: promote-4, promote-17
func TestFilesThatStoreTheirLineage(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.tables.Create(t.Context(), commit.NewTable{
		Table: rowsTable, Version: 3, Columns: []commit.NewColumn{{ID: 1, Name: "row", Type: "long"}, {ID: 2, Name: "key", Type: "long"}},
	}))
	r.append(t, rowsTable, `{"row": 0, "key": 1}, {"row": 1, "key": 4}`)
	r.append(t, features, `{"key": 1, "f": 10}, {"key": 2, "f": 20}`)
	r.addStored(t)
	columns := []string{"row", catalog.RowIDColumn, catalog.UpdatedColumn}
	before := r.read(t, columns...)
	require.Equal(t, []string{"0 0 1", "1 1 1", "5 1 1", "6 0 2", "7 4 2"}, before)
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.EqualValues(t, 5, got.Rows)
	require.Equal(t, before, r.read(t, columns...))
	require.Equal(t, []string{"0 10", "1 (null)", "5 10", "6 20", "7 (null)"}, r.read(t, "row", "f"))
	state, err := r.tables.State(t.Context(), rowsTable, commit.Main)
	require.NoError(t, err)
	files, err := r.tables.DataFiles(t.Context(), state.Table, func(string) bool { return true })
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, f := range files {
		for _, id := range []int{rowID, updatedID} {
			require.NotContains(t, f.Values, id)
			require.NotContains(t, f.Lower, id)
		}
		require.Contains(t, f.Values, got.Columns[0].ID)
	}
}
