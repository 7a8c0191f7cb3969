package frames

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// TestDeepTypesAreSent: types of as many levels as catalogs serve fit in messages, also within the struct of an indexed column or
// the list of a grouped one.
//
// spec: catalog-12
func TestDeepTypesAreSent(t *testing.T) {
	t.Parallel()
	deep := arrow.DataType(arrow.PrimitiveTypes.Int64)
	for i := range 59 {
		if i%2 == 0 {
			deep = arrow.StructOf(arrow.Field{Name: "x", Type: deep, Nullable: true})
		} else {
			deep = arrow.ListOf(deep)
		}
	}
	for _, typ := range []arrow.DataType{deep, arrow.StructOf(arrow.Field{Name: "x", Type: arrow.ListOf(deep), Nullable: true})} {
		schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: typ, Nullable: true}}, nil)
		column := batch.Nulls(typ, 1, memory.DefaultAllocator)
		defer column.Release()
		batch := array.NewRecordBatch(schema, []arrow.Array{column}, 1)
		defer batch.Release()
		made, err := NewEncoder(schema).encode(batch)
		require.NoError(t, err)
		require.Len(t, made, 1)
	}
}
