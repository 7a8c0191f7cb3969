package batch_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// TestSizeEqualsAllocatedBytes compares sizes with an allocator's count.
func TestSizeEqualsAllocatedBytes(t *testing.T) {
	for seed := range uint64(100) {
		mem := memory.NewCheckedAllocator(batch.Default())
		s := newSource(seed)
		dt := arrow.StructOf(arrow.Field{Name: "a", Type: s.dataType(3), Nullable: true}, arrow.Field{Name: "b", Type: arrow.PrimitiveTypes.Int64})
		a, err := batch.Concat([]arrow.Array{s.array(dt, 1+s.IntN(100), true)}, mem)
		require.NoError(t, err)
		require.EqualValues(t, mem.CurrentAlloc(), batch.ArraySize(a), "%s", dt)
		require.EqualValues(t, mem.CurrentAlloc(), batch.ArraySize(a, a), "a buffer counts once")
		slice := array.NewSlice(a, 0, 1)
		require.EqualValues(t, mem.CurrentAlloc(), batch.ArraySize(slice), "a slice keeps the whole array")
		slice.Release()
		a.Release()
		mem.AssertSize(t, 0)
	}
}

func TestSizeCountsDictionaries(t *testing.T) {
	indexed := newSource(1).references(10)
	b := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "indexed", Type: indexed.DataType()}}, nil), []arrow.Array{indexed}, 10)
	require.Equal(t, batch.ArraySize(indexed.Indices(), indexed.Dictionary()), batch.Size(b))
	require.Positive(t, batch.ArraySize(indexed.Dictionary()))
}

func TestSizeOfSlicedBuffers(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	body := memory.NewResizableBuffer(mem)
	body.Resize(640)
	part := memory.SliceBuffer(body, 64, 80)
	body.Release()
	data := array.NewData(arrow.PrimitiveTypes.Int64, 10, []*memory.Buffer{nil, part}, nil, 0, 0)
	part.Release()
	a := array.MakeFromData(data)
	data.Release()
	require.EqualValues(t, 640, batch.ArraySize(a), "the whole body of the message stays in memory")
	a.Release()
	mem.AssertSize(t, 0)
}

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
