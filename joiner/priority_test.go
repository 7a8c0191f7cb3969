package joiner

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// TestPrioritiesNeverChange: the order of a seed depends on these numbers, so a different hash
// would change the order of every seed.
//
// spec: order-24
func TestPrioritiesNeverChange(t *testing.T) {
	t.Parallel()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "small", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues([]int64{1, -5, 1, 0}, []bool{true, true, true, false})
	b.Field(1).(*array.Int32Builder).AppendValues([]int32{1, -5, 1, 0}, []bool{true, true, true, false})
	b.Field(2).(*array.StringBuilder).AppendValues([]string{"a", "request-17", "a", ""}, []bool{true, true, true, false})
	rows := b.NewRecordBatch()
	defer rows.Release()
	of := func(seed uint64, key ...int) []uint64 {
		keys, err := NewKeyReader(schema, key, nil)
		require.NoError(t, err)
		out := make([]uint64, 4)
		keys.Read(rows).Priorities(seed, out, func(row int) uint64 { return uint64(row) })
		return out
	}
	number, text := of(7, 0), of(7, 2)
	require.Equal(t, number, of(7, 1), "an int has the priority of the equal long")
	require.NotEqual(t, number, of(8, 0))
	require.Equal(t, []uint64{0x84c5340b3ed64fd5, 0x702a2b90e132b6e7, 0x84c5340b3ed64fd5, 0x3}, number)
	require.Equal(t, []uint64{0x9fc27c0b33766ebf, 0x8945767d1e0bcf64, 0x9fc27c0b33766ebf, 0x3}, text)
	require.Equal(t, []uint64{0x63ec7eba4dda5b0, 0x8800cb69559ebafb, 0x63ec7eba4dda5b0, 0x3}, of(7, 0, 2))
}
