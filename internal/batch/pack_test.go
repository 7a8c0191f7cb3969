package batch_test

import (
	"math"
	"math/big"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// TestPackAgainstText packs columns of all numeric types from shuffled and consecutive
// rows, and compares the result with the numbers parsed from the rows' text.
//
// spec: wire-23, wire-25, wire-26
func TestPackAgainstText(t *testing.T) {
	t.Parallel()
	fill := float32(-2.5)
	for seed := range uint64(300) {
		mem := memory.NewCheckedAllocator(batch.Default())
		s := newSource(seed)
		types := []arrow.DataType{
			arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
			arrow.FixedWidthTypes.Boolean, &arrow.Decimal128Type{Precision: 20, Scale: 3},
		}
		columns := make([][]batch.Segment, 1+s.IntN(4))
		want := make([][]float32, len(columns))
		names := make([]string, len(columns))
		indices, from := s.indices(9), s.IntN(5)
		for k := range columns {
			dt := types[s.IntN(len(types))]
			a, b := s.array(dt, 9, seed%2 == 0), s.array(dt, 9, false)
			rows := 9 - from
			columns[k] = []batch.Segment{{Values: a, Indices: indices}, {Values: b, From: from, Rows: rows}}
			for _, i := range indices {
				want[k] = append(want[k], single(t, a, int(i), fill))
			}
			for i := range rows {
				want[k] = append(want[k], single(t, b, from+i, fill))
			}
		}
		dt := arrow.FixedSizeListOfNonNullable(int32(len(columns)), arrow.PrimitiveTypes.Float32)
		g := batch.NewGatherer(mem)
		size := g.PackedSize(columns)
		got, err := g.Pack(dt, names, columns, &fill)
		require.NoError(t, err)
		require.GreaterOrEqual(t, size+64, batch.ArraySize(got), "except for alignment")
		g.Release()
		values := got.(*array.FixedSizeList).ListValues().(*array.Float32).Float32Values()
		require.Equal(t, len(want[0]), got.Len())
		require.Zero(t, got.NullN())
		for row := range want[0] {
			for k := range columns {
				require.Equal(t, math.Float32bits(want[k][row]), math.Float32bits(values[row*len(columns)+k]), "seed %d, row %d, column %d of %s", seed, row, k, columns[k][0].Values.DataType())
			}
		}
		got.Release()
		mem.AssertSize(t, 0)
	}
}

// single returns the float32 nearest to a number, which it parses from its text.
func single(t *testing.T, a arrow.Array, row int, fill float32) float32 {
	t.Helper()
	text := a.ValueStr(row)
	switch {
	case a.IsNull(row):
		return fill
	case text == "true":
		return 1
	case text == "false":
		return 0
	}
	if n, ok := new(big.Rat).SetString(text); ok && a.DataType().ID() != arrow.FLOAT64 && a.DataType().ID() != arrow.FLOAT32 {
		f, _ := n.Float32()
		return f
	}
	f, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return float32(f)
}

// TestPackRefusesInvalidValues: a null without a fill, a number beyond float32, a text.
//
// spec: wire-25, wire-26
func TestPackRefusesInvalidValues(t *testing.T) {
	t.Parallel()
	doubles := array.NewFloat64Builder(memory.DefaultAllocator)
	doubles.AppendValues([]float64{1, math.Inf(1), math.NaN(), 3.5e38, math.MaxFloat32}, nil)
	doubles.AppendNull()
	a := doubles.NewArray()
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	texts.Append("1")
	pack := func(a arrow.Array, rows []int32, fill *float32) error {
		g := batch.NewGatherer(nil)
		defer g.Release()
		_, err := g.Pack(arrow.FixedSizeListOfNonNullable(1, arrow.PrimitiveTypes.Float32), []string{"price"}, [][]batch.Segment{{{Values: a, Indices: rows}}}, fill)
		return err
	}
	require.NoError(t, pack(a, []int32{0, 1, 2, 4}, nil), "infinities are kept")
	require.NoError(t, pack(a, []int32{5, 0}, new(float32)))
	err := pack(a, []int32{0, 5}, nil)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "column price has a null, and no fill is given for it")
	require.Contains(t, fault.As(err).Remedy, "fill")
	for _, whole := range []arrow.Array{a, array.NewSlice(a, 0, 5)} { // with and without nulls
		err = pack(whole, []int32{0, 3}, new(float32))
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, "column price has the value 3.5e+38, which is beyond float32")
	}
	require.Equal(t, fault.Internal, fault.KindOf(pack(texts.NewArray(), []int32{0}, nil)))
	require.Equal(t, fault.Internal, fault.KindOf(pack(a, []int32{6}, nil)))
}
