package parquet_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// TestNamedAssignsFieldIDs reads testdata/make.py's file without field ids, in which
// elements are called "item".
//
// spec: resolve-74
func TestNamedAssignsFieldIDs(t *testing.T) {
	content, err := os.ReadFile("testdata/without-ids.parquet")
	require.NoError(t, err)
	file := object(t, content)
	footer, err := parquet.ReadFooter(t.Context(), file, parquet.FooterLimits{})
	require.NoError(t, err)
	require.False(t, footer.HasFieldIDs())
	require.False(t, footer.HasAnyFieldID())
	ids := map[string]int{"l": 1, "l.element": 2, "m": 3, "m.key": 4, "m.value": 5, "s": 6, "s.x": 7, "s.x.element": 8, "s.x.element.y": 9}
	var asked []string
	named, err := footer.ApplyNameMapping(func(path []string) (int, int, bool) {
		asked = append(asked, strings.Join(path, "."))
		id, ok := ids[strings.Join(path, ".")]
		return id, 0, ok
	})
	require.NoError(t, err)
	require.Equal(t, []string{"l", "l.element", "m", "m.key", "m.value", "s", "s.x", "s.x.element", "s.x.element.y"}, asked)
	require.True(t, named.HasFieldIDs())
	require.True(t, named.HasStruct(6))
	require.False(t, named.HasStruct(8), "inside a list")
	require.False(t, footer.HasAnyFieldID(), "the footer is unchanged")
	require.Equal(t, footer.Bytes(), named.Bytes())

	identified := func(id string, f arrow.Field) arrow.Field {
		f.Nullable, f.Metadata = true, arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{id})
		return f
	}
	long := arrow.PrimitiveTypes.Int64
	key := identified("4", arrow.Field{Name: "key", Type: arrow.BinaryTypes.String})
	key.Nullable = false
	y := identified("9", arrow.Field{Name: "why", Type: long})
	want := arrow.NewSchema([]arrow.Field{
		identified("3", arrow.Field{Name: "m", Type: arrow.MapOfFields(key, identified("5", arrow.Field{Name: "value", Type: long}))}),
		identified("1", arrow.Field{Name: "l", Type: arrow.ListOfField(identified("2", arrow.Field{Name: "element", Type: long}))}),
		identified("6", arrow.Field{Name: "s", Type: arrow.StructOf(identified("7", arrow.Field{Name: "ex", Type: arrow.ListOfField(
			identified("8", arrow.Field{Name: "element", Type: arrow.StructOf(y)}))}))}),
	}, nil)
	f, err := parquet.Open(t.Context(), file, parquet.Options{Footer: named})
	require.NoError(t, err)
	got := mustRead(t, f, parquet.ReadOptions{Fields: []int{3, 1, 6}, Schema: want})
	var lines []string
	for i := range 3 {
		lines = append(lines, got.Column(0).ValueStr(i)+" "+got.Column(1).ValueStr(i)+" "+got.Column(2).ValueStr(i))
	}
	require.Equal(t, []string{
		`[{"key":"a","value":1}] [1,null] {"ex":[{"why":5}]}`, `(null) (null) (null)`, `[{"key":"b","value":null}] [] {"ex":null}`,
	}, lines)

	delete(ids, "s.x.element.y")
	_, err = footer.ApplyNameMapping(func(path []string) (int, int, bool) {
		id, ok := ids[strings.Join(path, ".")]
		return id, 0, ok
	})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "for column s.x.element of the file, but none for any field inside it")
}

// TestNamedReadsSetsAsLists reads a map without values, whose only content a file calls
// "key", as a list: the mapping calls the elements of the table's list "element".
//
// spec: resolve-74
func TestNamedReadsSetsAsLists(t *testing.T) {
	t.Parallel()
	required, optional, repeated := arrowparquet.Repetitions.Required, arrowparquet.Repetitions.Optional, arrowparquet.Repetitions.Repeated
	content := handmade(t, schema.FieldList{
		group("c", optional, schema.MapLogicalType{}, -1, group("key_value", repeated, nil, -1, long64(t, "key", required, -1))),
	}, leafPages{[]int16{0, 1, 2, 2}, []int16{0, 0, 0, 1}, []int64{5, 6}})
	footer, err := parquet.ReadFooter(t.Context(), object(t, content), parquet.FooterLimits{})
	require.NoError(t, err)
	require.False(t, footer.HasAnyFieldID())
	ids := map[string]int{"c": 1, "c.element": 2}
	named, err := footer.ApplyNameMapping(func(path []string) (int, int, bool) {
		id, ok := ids[strings.Join(path, ".")]
		return id, 0, ok
	})
	require.NoError(t, err)
	f, err := parquet.Open(t.Context(), object(t, content), parquet.Options{Footer: named})
	require.NoError(t, err)
	element := arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int64, Metadata: arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{"2"})}
	sc := arrow.NewSchema([]arrow.Field{nullable("c", arrow.ListOfField(element))}, nil)
	got := mustRead(t, f, parquet.ReadOptions{Fields: []int{1}, Schema: sc})
	requireEqual(t, column(t, sc, `[null,[],[5,6]]`), got)
}

// TestStructsWithoutMappedFields expects that a struct in which the file has none of the
// mapped fields is not a column of the table, and neither is a struct of such structs.
//
// spec: resolve-74, resolve-75
func TestStructsWithoutMappedFields(t *testing.T) {
	t.Parallel()
	other := arrow.StructOf(nullable("other", arrow.PrimitiveTypes.Int64))
	sc := arrow.NewSchema([]arrow.Field{
		nullable("s", other), nullable("n", arrow.StructOf(nullable("x", other), nullable("z", arrow.PrimitiveTypes.Int64))),
		nullable("m", arrow.StructOf(nullable("x", other))), nullable("l", list(other, true)),
	}, nil)
	rows := table(t, sc, `[{"s":{"other":1},"n":{"x":{"other":2},"z":3},"m":{"x":{"other":4}},"l":null}]`)
	rdr, err := array.NewRecordReader(sc, []arrow.RecordBatch{rows})
	require.NoError(t, err)
	defer rdr.Release()
	var content bytes.Buffer
	require.NoError(t, parquettest.Write(&content, rdr, parquettest.Options{}))
	footer, err := parquet.ReadFooter(t.Context(), object(t, content.Bytes()), parquet.FooterLimits{})
	require.NoError(t, err)
	require.False(t, footer.HasAnyFieldID())
	ids := map[string][2]int{"s": {1, 1}, "n": {3, 2}, "n.x": {4, 1}, "n.z": {6, 0}, "m": {7, 1}, "m.x": {8, 1}}
	find := func(path []string) (int, int, bool) {
		id, ok := ids[strings.Join(path, ".")]
		return id[0], id[1], ok
	}
	named, err := footer.ApplyNameMapping(find)
	require.NoError(t, err)
	for id, there := range map[int]bool{1: false, 3: true, 4: false, 6: true, 7: false, 8: false} {
		_, field := named.Field(id)
		require.Equal(t, there, field || named.HasStruct(id), "field id %d", id)
	}

	ids["s"] = [2]int{1, 0}
	_, err = footer.ApplyNameMapping(find)
	require.Equal(t, fault.Invalid, fault.KindOf(err), "a mapping without fields inside the struct is incomplete: %v", err)
	require.ErrorContains(t, err, "for column s of the file, but none for any field inside it")
	ids["s"], ids["l"], ids["l.element"] = [2]int{1, 1}, [2]int{10, 1}, [2]int{11, 1}
	_, err = footer.ApplyNameMapping(find)
	require.ErrorContains(t, err, "for column l.element of the file, but none for any field inside it", "elements cannot be absent")
	require.NotEmpty(t, fault.As(err).Remedy)
}
