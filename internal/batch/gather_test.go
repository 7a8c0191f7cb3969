package batch_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// segments returns random segments of type dt, and their values.
func (s source) segments(dt arrow.DataType) ([]batch.Segment, []any) {
	segments, want := []batch.Segment{}, []any{}
	for range s.IntN(6) {
		if s.IntN(8) == 0 {
			rows := s.IntN(12)
			segments, want = append(segments, batch.Segment{Rows: rows}), append(want, make([]any, rows)...)
			continue
		}
		rows := 1 + s.IntN(40)
		values := s.array(dt, rows, s.IntN(3) > 0)
		if s.IntN(2) == 0 {
			from := s.IntN(rows + 1)
			n := s.IntN(rows - from + 1)
			segments = append(segments, batch.Segment{Values: values, From: from, Rows: n})
			want = append(want, valuesOf(values)[from:from+n]...)
			continue
		}
		indices := s.indices(rows)
		segments = append(segments, batch.Segment{Values: values, Indices: indices})
		for _, i := range indices {
			want = append(want, valueAt(values, int(i)))
		}
	}
	return segments, want
}

func requireGathered(t *testing.T, s source, dt arrow.DataType) (rows, nulls int) {
	t.Helper()
	segments, want := s.segments(dt)
	got, err := batch.Gather(dt, segments, nil)
	require.NoError(t, err)
	defer got.Release()
	require.True(t, arrow.TypeEqual(dt, got.DataType()))
	require.Equal(t, want, valuesOf(got), "%s", dt)
	requireTidy(t, got.Data())
	requirePlain(t, got.Data())
	return got.Len(), got.NullN()
}

// requirePlain checks that buffers are aligned and not owned by an allocator.
func requirePlain(t *testing.T, data arrow.ArrayData) {
	t.Helper()
	for _, b := range data.Buffers() {
		if b == nil {
			continue
		}
		require.Nil(t, b.Parent())
		require.False(t, b.Mutable())
		if b.Len() > 0 {
			require.Zero(t, uintptr(unsafe.Pointer(&b.Bytes()[0]))%64)
		}
	}
	for _, child := range data.Children() {
		requirePlain(t, child)
	}
}

func TestGatherEveryType(t *testing.T) {
	for i, dt := range leaves() {
		t.Run(dt.String(), func(t *testing.T) {
			s, rows, nulls := newSource(uint64(i)), 0, 0
			for range 40 {
				r, n := requireGathered(t, s, dt)
				rows, nulls = rows+r, nulls+n
			}
			require.Greater(t, rows, 200, "the generator must make rows")
			require.Greater(t, nulls, 20, "the generator must make nulls")
		})
	}
}

func TestGatherNested(t *testing.T) {
	for seed := range uint64(1000) {
		s := newSource(seed)
		requireGathered(t, s, s.dataType(3))
	}
}

func FuzzGather(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		s := newSource(seed)
		requireGathered(t, s, s.dataType(4))
	})
}

func int64s(values ...int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	return b.NewArray()
}

func TestGatherWithoutRows(t *testing.T) {
	for _, dt := range append(leaves(), arrow.ListOf(arrow.BinaryTypes.String), arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int8)) {
		none := []batch.Segment{{}, {Values: newSource(1).array(dt, 3, true), Indices: []int32{}}}
		for _, segments := range [][]batch.Segment{nil, none} {
			got, err := batch.Gather(dt, segments, nil)
			require.NoError(t, err)
			require.Zero(t, got.Len())
			require.Zero(t, got.NullN())
		}
	}
}

// TestGatherCopiesItsSources reads a gathered array after its sources were freed.
func TestGatherCopiesItsSources(t *testing.T) {
	checked := memory.NewCheckedAllocator(batch.Default())
	b := array.NewStringBuilder(checked)
	b.AppendValues([]string{"a", "bc", "def"}, nil)
	values := b.NewArray()
	b.Release()
	got, err := batch.Gather(arrow.BinaryTypes.String, []batch.Segment{{Values: values, Indices: []int32{2, 0, 2}}}, nil)
	require.NoError(t, err)
	values.Release()
	checked.AssertSize(t, 0)
	require.Equal(t, []any{"def", "a", "def"}, valuesOf(got))
	got.Release()
}

func TestBuffersGatheredOnTheHeapOutliveRelease(t *testing.T) {
	got, err := batch.Gather(arrow.PrimitiveTypes.Int64, []batch.Segment{{Values: int64s(1, 2, 3), Rows: 3}}, nil)
	require.NoError(t, err)
	kept := got.Data().Buffers()[1].Bytes()
	got.Release()
	require.Equal(t, []int64{1, 2, 3}, arrow.Int64Traits.CastFromBytes(kept))
}

func TestGatherOmitsValidityWithoutNulls(t *testing.T) {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues([]int64{0, 1, 2, 3}, []bool{false, true, true, true})
	values := b.NewArray()
	for _, tc := range []struct {
		segment batch.Segment
		nulls   int
	}{
		{batch.Segment{Values: values, Indices: []int32{1, 3, 2, 2}}, 0},
		{batch.Segment{Values: values, Indices: []int32{1, 0, 2, 0}}, 2},
		{batch.Segment{Values: values, From: 1, Rows: 3}, 0},
		{batch.Segment{Values: values, From: 0, Rows: 3}, 1},
		{batch.Segment{Values: array.NewSlice(values, 0, 3), Indices: []int32{1, 2}}, 0},
	} {
		got, err := batch.Gather(arrow.PrimitiveTypes.Int64, []batch.Segment{tc.segment}, nil)
		require.NoError(t, err)
		require.Equal(t, tc.nulls, got.NullN())
		require.Equal(t, tc.nulls == 0, got.Data().Buffers()[0] == nil)
	}
}

func TestGatherRefusesInvalidSegmentsAndTypes(t *testing.T) {
	values, dt := int64s(1, 2, 3), arrow.DataType(arrow.PrimitiveTypes.Int64)
	for name, segment := range map[string]batch.Segment{
		"another type":      {Values: newSource(1).array(arrow.PrimitiveTypes.Int32, 3, false), Rows: 1},
		"too many rows":     {Values: values, Rows: 4},
		"a range outside":   {Values: values, From: 3, Rows: 1},
		"a negative start":  {Values: values, From: -1, Rows: 1},
		"negative rows":     {Values: values, From: 2, Rows: -1},
		"negative nulls":    {Rows: -1},
		"an index outside":  {Values: values, Indices: []int32{0, 3}},
		"a negative index":  {Values: values, Indices: []int32{0, -1}},
		"a very high index": {Values: values, Indices: []int32{math.MaxInt32}},
	} {
		_, err := batch.Gather(dt, []batch.Segment{segment}, nil)
		require.Error(t, err, name)
		require.Equal(t, fault.Internal, fault.KindOf(err), name)
	}
	for _, dt := range []arrow.DataType{
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String},
		arrow.ListOf(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}),
		arrow.BinaryTypes.StringView,
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64),
		arrow.ListViewOf(arrow.PrimitiveTypes.Int64),
	} {
		_, err := batch.Gather(dt, nil, nil)
		require.Error(t, err, dt)
		require.Equal(t, fault.Internal, fault.KindOf(err))
	}
}

// TestGatherFailsWhenOffsetsOverflow: 32-bit offsets end at 2 GiB, which must be
// noticed before that much memory is allocated.
func TestGatherFailsWhenOffsetsOverflow(t *testing.T) {
	const long = 1 << 20
	text := array.NewStringBuilder(memory.DefaultAllocator)
	text.Append(string(make([]byte, long)))
	list := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int8)
	list.Append(true)
	list.ValueBuilder().(*array.Int8Builder).AppendValues(make([]int8, long), nil)
	for _, values := range []arrow.Array{text.NewArray(), list.NewArray()} {
		_, err := batch.Gather(values.DataType(), []batch.Segment{{Values: values, Indices: make([]int32, math.MaxInt32/long+1)}}, nil)
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		require.ErrorContains(t, err, "batch_rows")
	}
}

// structs returns a struct array of random columns. In most of them the only null is
// row 0, as in the dictionaries of a join; some have no nulls, or more.
func (s source) structs(dt *arrow.StructType, rows int) arrow.Array {
	columns := make([]arrow.ArrayData, dt.NumFields())
	for i, field := range dt.Fields() {
		segments := []batch.Segment{{Rows: 1}, {Values: s.array(field.Type, rows, s.IntN(6) == 0), Rows: rows}}
		if s.IntN(3) == 0 {
			segments[0] = batch.Segment{Values: s.array(field.Type, 1, false), Rows: 1}
		}
		column, err := batch.Gather(field.Type, segments, nil)
		if err != nil {
			panic(err)
		}
		columns[i] = column.Data()
	}
	return array.NewStructData(array.NewData(dt, rows+1, []*memory.Buffer{nil}, columns, 0, 0))
}

// TestGatherAcrossNullRows gathers a batch from the dictionaries of several splits.
func TestGatherAcrossNullRows(t *testing.T) {
	dt := arrow.StructOf(
		arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "b", Type: arrow.BinaryTypes.String, Nullable: true},
		arrow.Field{Name: "c", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		arrow.Field{Name: "d", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		arrow.Field{Name: "e", Type: arrow.ListOf(arrow.PrimitiveTypes.Int16), Nullable: true},
	)
	for seed := range uint64(500) {
		s := newSource(seed)
		segments, want := []batch.Segment{}, []any{}
		for range 1 + s.IntN(4) {
			rows := 5 + s.IntN(10)
			values, indices := s.structs(dt, rows), s.indices(rows)
			if s.IntN(2) == 0 {
				indices = append(indices, 0, 1, 0)
			}
			segments = append(segments, batch.Segment{Values: values, Indices: indices})
			for _, i := range indices {
				want = append(want, valueAt(values, int(i)))
			}
		}
		got, err := batch.Gather(dt, segments, nil)
		require.NoError(t, err)
		require.Equal(t, want, valuesOf(got))
		requireTidy(t, got.Data())
	}
}
