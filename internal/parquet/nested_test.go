package parquet_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// nestedKey is a table with a column user: struct<n, in: struct<key, tags>>, in which the
// given parts are nullable. The key has field id 5.
func nestedKey(kind arrow.DataType, outer, inner, leaf bool) *arrow.Schema {
	in := arrow.StructOf(
		arrow.Field{Name: "key", Type: kind, Nullable: leaf},
		arrow.Field{Name: "tags", Type: list(arrow.PrimitiveTypes.Int64, true), Nullable: true})
	user := arrow.StructOf(
		arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "in", Type: in, Nullable: inner})
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "user", Type: user, Nullable: outer},
	}, nil)
}

// spec: join-85
func TestColumnsInsideStructs(t *testing.T) {
	for name, c := range cases() {
		if arrow.IsNested(c.kind.ID()) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			forms := []int{7}
			if name == "int64" || name == "string" {
				forms = []int{0, 1, 2, 3, 4, 5, 6, 7}
			}
			for _, form := range forms {
				outer, inner, leaf := form&1 > 0, form&2 > 0, form&4 > 0
				var rows, keys []string
				for i := range 90 {
					key := c.values[i%3]
					switch {
					case outer && i%7 == 3:
						rows, key = append(rows, fmt.Sprintf(`{"id":%d,"user":null}`, i)), "null"
					case inner && i%5 == 1:
						rows, key = append(rows, fmt.Sprintf(`{"id":%d,"user":{"n":1,"in":null}}`, i)), "null"
					default:
						if leaf && i%4 == 2 {
							key = "null"
						}
						rows = append(rows, fmt.Sprintf(`{"id":%d,"user":{"n":%d,"in":{"key":%s,"tags":[%d]}}}`, i, i, key, i))
					}
					keys = append(keys, fmt.Sprintf(`{"key":%s,"id":%d}`, key, i))
				}
				schema := nestedKey(c.kind, outer, inner, leaf)
				written := table(t, schema, "["+strings.Join(rows, ",")+"]")
				wanted := arrow.NewSchema([]arrow.Field{
					{Name: "key", Type: c.kind, Nullable: outer || inner || leaf}, {Name: "id", Type: arrow.PrimitiveTypes.Int64},
				}, nil)
				want := table(t, wanted, "["+strings.Join(keys, ",")+"]")
				for _, opts := range []parquettest.Options{{}, {RowGroupRows: 40, Plain: true, PageV2: true}} {
					f := open(t, write(t, opts, written))
					require.True(t, f.HasNestedFieldIDs())
					for _, batchRows := range []int{0, 7} {
						got := mustRead(t, f, parquet.ReadOptions{Fields: []int{5, 1}, Schema: wanted, BatchRows: batchRows, Cores: cores.New(2)})
						requireEqual(t, want, got)
					}
					// Beside the struct that contains it.
					both := arrow.NewSchema(append(schema.Fields(), wanted.Field(0)), nil)
					got := mustRead(t, f, parquet.ReadOptions{Fields: []int{1, 2, 5}, Schema: both, BatchRows: 11})
					require.True(t, array.Equal(want.Column(0), got.Column(2)), "%v", got.Column(2))
					for i := range written.Column(1).Len() {
						require.Equal(t, written.Column(1).ValueStr(i), got.Column(1).ValueStr(i))
					}
				}
			}
		})
	}
}

func TestFieldsInsideStructs(t *testing.T) {
	schema := nestedKey(arrow.PrimitiveTypes.Int64, true, true, false)
	f := open(t, write(t, parquettest.Options{}, table(t, schema,
		`[{"id":1,"user":{"n":1,"in":{"key":70,"tags":[5]}}},{"id":2,"user":null},{"id":3,"user":{"n":1,"in":{"key":-4,"tags":[]}}}]`)))
	key, ok := f.Field(5)
	require.True(t, ok)
	require.Equal(t, "user.in.key", key.Name)
	require.True(t, key.Nullable)
	require.Equal(t, arrow.PrimitiveTypes.Int64, key.Type)
	for _, id := range []int{4, 6, 7, parquet.NoFieldID} {
		_, ok := f.Field(id)
		require.False(t, ok, "structs in structs, lists and elements are not columns: %d", id)
	}
	s, ok := f.Statistics(0, 5, arrow.PrimitiveTypes.Int64)
	require.True(t, ok)
	require.Equal(t, parquet.Statistics{Lower: int64(-4), Upper: int64(70), Rows: 3, Nulls: 1}, s)
	require.Positive(t, f.Stored(0, []int{5}))
	require.Less(t, f.Stored(0, []int{5}), f.Stored(0, []int{2}))

	required := arrow.NewSchema([]arrow.Field{{Name: "user.in.key", Type: arrow.PrimitiveTypes.Int64}}, nil)
	_, err := read(t, f, parquet.ReadOptions{Fields: []int{5}, Schema: required})
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	require.ErrorContains(t, err, "required column user.in.key has nulls")
	other := arrow.NewSchema([]arrow.Field{{Name: "user.in.key", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	_, err = read(t, f, parquet.ReadOptions{Fields: []int{5}, Schema: other})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "column user.in.key is stored as int64")
}

func TestMissingNestedFieldIDs(t *testing.T) {
	in := arrow.StructOf(arrow.Field{Name: "key", Type: arrow.PrimitiveTypes.Int64})
	schema := arrow.NewSchema([]arrow.Field{{Name: "user", Type: in, Metadata: arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{"1"})}}, nil)
	rows, err := array.NewRecordReader(schema, []arrow.RecordBatch{table(t, schema, `[{"user":{"key":1}}]`)})
	require.NoError(t, err)
	defer rows.Release()
	var out bytes.Buffer
	require.NoError(t, parquettest.Write(&out, rows, parquettest.Options{}))
	f := open(t, out.Bytes())
	require.True(t, f.HasFieldIDs())
	require.False(t, f.HasNestedFieldIDs())
}
