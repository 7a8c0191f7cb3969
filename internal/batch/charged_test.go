package batch_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
)

// TestChargedIsReservedUntilTheLastRelease: of the batch and of all its slices.
func TestChargedIsReservedUntilTheLastRelease(t *testing.T) {
	t.Parallel()
	b := budget.New(1000)
	held, err := b.Reserve("a batch", 100)
	require.NoError(t, err)
	column := int64s(1, 2, 3)
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	c := batch.NewCharged(array.NewRecordBatch(schema, []arrow.Array{column}, 3), held)
	require.Equal(t, int64(100), c.Bytes())
	c.Retain()
	c.Release()
	slice := c.NewSlice(1, 3)
	inner := slice.NewSlice(1, 2)
	require.Equal(t, int64(1), inner.NumRows())
	c.Release()
	require.Equal(t, int64(100), b.Used())
	slice.Release()
	require.Equal(t, int64(100), b.Used())
	inner.Release()
	require.Zero(t, b.Used())
}

// TestView makes batches over the memory of another one, with and without memory of their own.
func TestView(t *testing.T) {
	t.Parallel()
	b := budget.New(1000)
	held, err := b.Reserve("a batch", 100)
	require.NoError(t, err)
	own, err := b.Reserve("a view", 20)
	require.NoError(t, err)
	column := int64s(1, 2, 3)
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	base := batch.NewCharged(array.NewRecordBatch(schema, []arrow.Array{column}, 3), held)
	same := base.View(array.NewRecordBatch(schema, []arrow.Array{column}, 3), nil)
	more := base.View(array.NewRecordBatch(schema, []arrow.Array{column}, 3), own)
	require.Equal(t, int64(100), same.Bytes())
	require.Equal(t, int64(120), more.Bytes())
	require.Equal(t, base.Reserved(), same.Reserved())
	require.Equal(t, base.Reserved(), more.Reserved()[1:])
	require.Equal(t, int64(20), more.Reserved()[0].Bytes)
	base.Release()
	same.Release()
	require.Equal(t, int64(120), b.Used())
	more.Release()
	require.Zero(t, b.Used())
}
