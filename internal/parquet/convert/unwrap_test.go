package convert

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// TestUnwrapCombinesNulls unwraps structs whose fields are not null where the structs
// are, and slices of them.
//
// spec: join-85
func TestUnwrapCombinesNulls(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	values, _, err := array.FromJSON(mem, arrow.PrimitiveTypes.Int64, strings.NewReader(`[9, 0, 1, null, 3, 4, 5, 6, 7, 8]`))
	require.NoError(t, err)
	defer values.Release()
	bits := func(b ...byte) *memory.Buffer { return memory.NewBufferBytes(b) }
	leaf := array.NewSliceData(values.Data(), 1, 10) // 0, 1, null, 3, …
	defer leaf.Release()
	inner := array.NewData(arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true}), 9,
		[]*memory.Buffer{bits(0b11110111, 1)}, []arrow.ArrayData{leaf}, 1, 0)
	defer inner.Release()
	outer := array.NewData(arrow.StructOf(arrow.Field{Name: "in", Type: inner.DataType(), Nullable: true}), 9,
		[]*memory.Buffer{bits(0b11011111, 1)}, []arrow.ArrayData{inner}, 1, 0)
	defer outer.Release()
	for from, want := range map[int64]string{
		0: "[0 1 (null) (null) 4 (null) 6 7 8]", 2: "[(null) (null) 4 (null) 6 7 8]", 4: "[4 (null) 6 7 8]", 6: "[6 7 8]",
	} {
		part := array.NewSliceData(outer, from, 9)
		data := Unwrap(part, 2, mem)
		got := array.MakeFromData(data)
		require.Equal(t, want, got.String(), "from row %d", from)
		require.Equal(t, strings.Count(want, "null"), got.NullN())
		got.Release()
		data.Release()
		part.Release()
	}
}
