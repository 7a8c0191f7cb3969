package batch_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// references returns a dictionary<int32, struct> column, as the joiner does.
func (s source) references(rows int) *array.Dictionary {
	row := arrow.StructOf(
		arrow.Field{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
		arrow.Field{Name: "pins", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
	)
	dictionary := s.array(row, 9, false)
	indices := array.NewInt32Builder(memory.DefaultAllocator)
	for range rows {
		indices.Append(int32(s.IntN(9)))
	}
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: row}
	return array.NewDictionaryArray(dt, indices.NewArray(), dictionary)
}

func (s source) batch(rows int, references bool) arrow.RecordBatch {
	fields, columns := []arrow.Field{}, []arrow.Array{}
	add := func(name string, a arrow.Array) {
		fields = append(fields, arrow.Field{Name: name, Type: a.DataType(), Nullable: true})
		columns = append(columns, a)
	}
	for _, name := range []string{"a", "b", "c"} {
		add(name, s.array(s.dataType(2), rows, true))
	}
	if references {
		add("indexed", s.references(rows))
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(rows))
}

func TestFilter(t *testing.T) {
	for seed := range uint64(300) {
		mem := memory.NewCheckedAllocator(batch.NewAllocator())
		s := newSource(seed)
		rows := s.IntN(80)
		in, keep, often := s.batch(rows, true), []int32{}, 1+s.IntN(40)
		for row := range rows {
			if s.IntN(often) > 0 || often == 40 {
				keep = append(keep, int32(row))
			}
		}
		got, err := batch.Filter(in, keep, mem)
		require.NoError(t, err)
		require.EqualValues(t, len(keep), got.NumRows())
		require.True(t, in.Schema().Equal(got.Schema()))
		for c, column := range got.Columns() {
			want := []any{}
			for _, row := range keep {
				want = append(want, valueAt(in.Column(c), int(row)))
			}
			require.Equal(t, want, valuesOf(column), "%s", column.DataType())
		}
		indexed := got.Column(3).(*array.Dictionary)
		require.Same(t, in.Column(3).Data().Dictionary(), indexed.Data().Dictionary(), "the dictionary is shared")
		got.Release()
		mem.AssertSize(t, 0)
	}
}

func TestFilterOfAllRowsReturnsTheBatch(t *testing.T) {
	in := newSource(1).batch(3, true)
	got, err := batch.Filter(in, []int32{0, 1, 2}, memory.DefaultAllocator)
	require.NoError(t, err)
	require.Equal(t, in, got)
	got.Release()
}

func TestFilterRefusesRowsOutside(t *testing.T) {
	for _, keep := range [][]int32{{3}, {-1, 2}, {0, 1, 2, 3}} {
		_, err := batch.Filter(newSource(1).batch(3, false), keep, memory.DefaultAllocator)
		require.Equal(t, fault.Internal, fault.KindOf(err))
	}
}

func TestConcat(t *testing.T) {
	for seed := range uint64(300) {
		mem := memory.NewCheckedAllocator(batch.NewAllocator())
		s := newSource(seed)
		dt, arrays, want := s.dataType(3), []arrow.Array{}, []any{}
		for range 1 + s.IntN(4) {
			a := s.array(dt, s.IntN(20), s.IntN(2) == 0)
			arrays, want = append(arrays, a), append(want, valuesOf(a)...)
		}
		got, err := batch.Concat(arrays, mem)
		require.NoError(t, err)
		require.Equal(t, want, valuesOf(got), "%s", dt)
		requireTidy(t, got.Data())
		got.Release()
		mem.AssertSize(t, 0)
	}
}

func TestConcatOfDictionaries(t *testing.T) {
	s := newSource(3)
	a, other := s.references(10), s.references(4)
	got, err := batch.Concat([]arrow.Array{array.NewSlice(a, 2, 5), array.NewSlice(a, 1, 9)}, memory.DefaultAllocator)
	require.NoError(t, err)
	require.Equal(t, append(valuesOf(a)[2:5], valuesOf(a)[1:9]...), valuesOf(got))
	_, err = batch.Concat([]arrow.Array{a, other}, memory.DefaultAllocator)
	require.ErrorContains(t, err, "different dictionaries")
	_, err = batch.Concat(nil, memory.DefaultAllocator)
	require.Equal(t, fault.Internal, fault.KindOf(err))
	_, err = batch.Concat([]arrow.Array{a, int64s(1)}, memory.DefaultAllocator)
	require.Equal(t, fault.Internal, fault.KindOf(err))
}
