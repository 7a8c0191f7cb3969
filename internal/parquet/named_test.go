package parquet_test

import (
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
)

// TestNamed reads testdata/make.py's file without field ids, whose elements are called
// item there.
//
// spec: resolve-74
func TestNamed(t *testing.T) {
	content, err := os.ReadFile("testdata/without-ids.parquet")
	require.NoError(t, err)
	file := object(t, content)
	footer, err := parquet.ReadFooter(t.Context(), file, parquet.FooterLimits{})
	require.NoError(t, err)
	require.False(t, footer.HasFieldIDs())
	require.False(t, footer.HasAnyFieldID())
	ids := map[string]int{"l": 1, "l.element": 2, "m": 3, "m.key": 4, "m.value": 5, "s": 6, "s.x": 7, "s.x.element": 8, "s.x.element.y": 9}
	var asked []string
	named, err := footer.Named(func(path []string) (int, bool) {
		asked = append(asked, strings.Join(path, "."))
		id, ok := ids[strings.Join(path, ".")]
		return id, ok
	})
	require.NoError(t, err)
	require.Equal(t, []string{"l", "l.element", "m", "m.key", "m.value", "s", "s.x", "s.x.element", "s.x.element.y"}, asked)
	require.True(t, named.HasFieldIDs())
	require.True(t, named.HasStruct(6))
	require.False(t, named.HasStruct(8), "in a list")
	require.False(t, footer.HasAnyFieldID(), "it is left as it is")
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
	_, err = footer.Named(func(path []string) (int, bool) {
		id, ok := ids[strings.Join(path, ".")]
		return id, ok
	})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "for column s.x.element of the file, and for nothing that is in it")
}
