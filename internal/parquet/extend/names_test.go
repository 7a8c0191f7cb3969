package extend_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/extend"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// A column whose name has dots is not the field of that path.
//
// spec: promote-14
func TestNamesWithDotsAreNotPaths(t *testing.T) {
	long := arrow.PrimitiveTypes.Int64
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.StructOf(arrow.Field{Name: "b", Type: long, Nullable: true}), Nullable: true}, {Name: "a.b", Type: long, Nullable: true},
	}, nil)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[{"a": {"b": 1}, "a.b": 2}]`))
	require.NoError(t, err)
	in, err := array.NewRecordReader(schema, []arrow.RecordBatch{b})
	require.NoError(t, err)
	var to bytes.Buffer
	require.NoError(t, parquettest.Write(&to, in, parquettest.Options{}))
	known := map[string]int{"a": 1, "a/b": 2, "a.b": 3}
	find := func(path []string) (int, int, bool) {
		id, ok := known[strings.Join(path, "/")]
		return id, 0, ok
	}
	made, _, err := add(t, to.Bytes(), 1, extend.Options{NameMapping: find})
	require.NoError(t, err)
	got := map[string]int32{}
	for _, e := range footer(t, made).FileMetaData.Schema[1:4] {
		got[e.Name] = *e.FieldID
	}
	require.Equal(t, map[string]int32{"a": 1, "b": 2, "a.b": 3}, got)
}
