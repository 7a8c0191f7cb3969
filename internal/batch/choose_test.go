package batch_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// TestChoose chooses rows of several sources, in runs of any length.
func TestChoose(t *testing.T) {
	for seed := range uint64(400) {
		mem := memory.NewCheckedAllocator(batch.NewAllocator())
		s := newSource(seed)
		dt, sources, rows := s.dataType(2), []arrow.Array{}, 1+s.IntN(30)
		for range 1 + s.IntN(4) {
			sources = append(sources, s.array(dt, rows, true))
		}
		which, at, want := []int32{}, []int32{}, []any{}
		change := 1 + s.IntN(30)
		for i := range s.IntN(120) {
			w := int32(s.IntN(len(sources)))
			if i > 0 && s.IntN(change) > 0 {
				w = which[i-1]
			}
			which, at = append(which, w), append(at, int32(s.IntN(rows)))
			want = append(want, valueAt(sources[w], int(at[i])))
		}
		got, err := batch.Choose(dt, sources, which, at, mem)
		require.NoError(t, err)
		require.Equal(t, want, valuesOf(got))
		requireTidy(t, got.Data())
		got.Release()
		mem.AssertSize(t, 0)
	}
}

// TestChoiceSizeIsAnUpperBound compares Size with the size of the column.
func TestChoiceSizeIsAnUpperBound(t *testing.T) {
	for seed := range uint64(400) {
		s := newSource(seed)
		dt, sources, rows := s.dataType(2), []arrow.Array{}, 1+s.IntN(30)
		for range 1 + s.IntN(4) {
			sources = append(sources, s.array(dt, rows, true))
		}
		which, at := []int32{}, []int32{}
		for range s.IntN(120) {
			which, at = append(which, int32(s.IntN(len(sources)))), append(at, int32(s.IntN(rows)))
		}
		choice, err := batch.NewChoice(len(sources), which, at, batch.NewAllocator())
		require.NoError(t, err)
		size, err := choice.Size(dt, sources)
		require.NoError(t, err)
		got, err := choice.Column(dt, sources)
		require.NoError(t, err)
		require.GreaterOrEqual(t, size, batch.ArraySize(got), "%s", dt)
		got.Release()
	}
}

func TestChooseRefusesRowsOutOfRange(t *testing.T) {
	s := newSource(1)
	values := s.array(arrow.PrimitiveTypes.Int64, 3, true)
	cases := map[string]struct{ which, at []int32 }{
		"a source out of range":  {[]int32{0, 1}, []int32{0, 0}},
		"a negative source":      {[]int32{-1}, []int32{0}},
		"a row out of range":     {[]int32{0, 0}, []int32{0, 3}},
		"more sources than rows": {[]int32{0, 0}, []int32{0}},
		"a negative row":         {[]int32{0}, []int32{-1}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := batch.Choose(arrow.PrimitiveTypes.Int64, []arrow.Array{values}, c.which, c.at, nil)
			require.Equal(t, fault.Internal, fault.KindOf(err))
		})
	}
}

func TestWithFirst(t *testing.T) {
	for seed := range uint64(200) {
		mem := memory.NewCheckedAllocator(batch.NewAllocator())
		s := newSource(seed)
		dt, parts, want := s.dataType(2), []arrow.Array{}, []any{nil}
		var first arrow.Array
		if s.IntN(2) == 0 {
			first = s.array(dt, 1, true)
			want[0] = valueAt(first, 0)
		}
		for range s.IntN(4) {
			parts = append(parts, s.array(dt, s.IntN(20), true))
			want = append(want, valuesOf(parts[len(parts)-1])...)
		}
		got, err := batch.WithFirst(dt, first, parts, mem)
		require.NoError(t, err)
		require.Equal(t, want, valuesOf(got))
		requireTidy(t, got.Data())
		got.Release()
		mem.AssertSize(t, 0)
	}
	_, err := batch.WithFirst(arrow.PrimitiveTypes.Int64, nil, []arrow.Array{array.NewNull(1)}, nil)
	require.Equal(t, fault.Internal, fault.KindOf(err))
}

// BenchmarkChoose measures the cost of an overlay per row: a column, half of whose
// rows another source replaces, in runs of several lengths.
func BenchmarkChoose(b *testing.B) {
	const rows = 8192
	s := newSource(1)
	for _, dt := range []arrow.DataType{arrow.PrimitiveTypes.Float32, arrow.BinaryTypes.String} {
		sources := []arrow.Array{s.array(dt, rows, false), s.array(dt, rows, false)}
		for _, run := range []int{1, 10, 100} {
			which, at := make([]int32, rows), make([]int32, rows)
			for i := range rows {
				which[i], at[i] = int32(i/run%2), int32(i)
			}
			b.Run(fmt.Sprintf("%s/%d", dt, run), func(b *testing.B) {
				for b.Loop() {
					got, err := batch.Choose(dt, sources, which, at, nil)
					require.NoError(b, err)
					got.Release()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
			})
		}
	}
}
