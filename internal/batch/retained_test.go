package batch_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

func TestRetainedCountsABufferOnce(t *testing.T) {
	whole := memory.NewBufferBytes(make([]byte, 100))
	column := func(from, to int) arrow.Array {
		b := memory.SliceBuffer(whole, from, to-from)
		return array.MakeFromData(array.NewData(arrow.PrimitiveTypes.Int8, to-from, []*memory.Buffer{nil, b}, nil, 0, 0))
	}
	a, b, c := column(0, 10), column(10, 30), column(0, 100)
	r := batch.Retained{}
	require.EqualValues(t, 100, r.Add([]arrow.Array{a, b}))
	require.EqualValues(t, 0, r.Add([]arrow.Array{c, c}))
	require.EqualValues(t, 0, r.Remove([]arrow.Array{a, c}))
	require.EqualValues(t, 0, r.Remove([]arrow.Array{c}))
	require.EqualValues(t, 100, r.Remove([]arrow.Array{b}))
	require.Empty(t, r)
	require.EqualValues(t, 130, batch.CopySize([]arrow.Array{a, a, b, c}))
}
