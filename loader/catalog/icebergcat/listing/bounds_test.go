package listing_test

import (
	"context"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// TestBoundsOfLongValuesIncludeThem writes values that are longer than the bounds that
// writers store: an upper bound that was only truncated would be below them.
func TestBoundsOfLongValuesIncludeThem(t *testing.T) {
	schema := iceberg.NewSchema(0, icebergtest.IDSchema().Field(0), icebergtest.Field(2, "s", iceberg.PrimitiveTypes.String), icebergtest.Field(3, "x", iceberg.PrimitiveTypes.Binary))
	for name, values := range map[string][]string{
		"letters":        {strings.Repeat("a", 40), strings.Repeat("z", 40)},
		"one value":      {strings.Repeat("k", 17)},
		"long letters":   {strings.Repeat("é", 30), strings.Repeat("\U0001f600", 30)},
		"the last there": {"b" + strings.Repeat("\U0010ffff", 30), strings.Repeat("\U0010ffff", 30)},
		"short":          {"", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			tbl := w.Create(t, icebergtest.Events, schema)
			columns, err := icetable.SchemaToArrowSchema(tbl.Schema(), nil, true, false)
			require.NoError(t, err)
			b := array.NewRecordBuilder(memory.DefaultAllocator, columns)
			for i, v := range values {
				b.Field(0).(*array.Int64Builder).Append(int64(i))
				b.Field(1).(*array.StringBuilder).Append(v)
				b.Field(2).(*array.BinaryBuilder).Append([]byte(strings.ReplaceAll(v, "z", "\xff")))
			}
			rows := b.NewRecordBatch()
			reader, err := array.NewRecordReader(columns, []arrow.RecordBatch{rows})
			require.NoError(t, err)
			ctx := compute.WithAllocator(context.WithoutCancel(t.Context()), memory.DefaultAllocator)
			_, err = tbl.Append(ctx, reader, nil)
			require.NoError(t, err)

			opened := w.Open(t)
			table, err := opened.Table(t.Context(), icebergtest.Events, dataset.Ref{})
			require.NoError(t, err)
			files, err := opened.Files(t.Context(), table, []int{2, 3}, []int{2, 3})
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.True(t, name == "short" || files[0].Ranges[2].HasLower && files[0].Ranges[3].HasLower)
			for i := range values {
				one := rows.NewSlice(int64(i), int64(i+1))
				for at, id := range map[int]int{1: 2, 2: 3} {
					value := expr.Text(one.Column(at).ValueStr(0))
					if x, ok := one.Column(at).(*array.Binary); ok {
						value = expr.Bytes(x.Value(0))
					}
					r := files[0].Ranges[id]
					if order, ok := r.Lower.Compare(value); r.HasLower {
						require.True(t, ok && order <= 0, "lower bound of %q", values[i])
					}
					if order, ok := r.Upper.Compare(value); r.HasUpper {
						require.True(t, ok && order >= 0, "upper bound of %q", values[i])
					}
				}
			}
		})
	}
}
