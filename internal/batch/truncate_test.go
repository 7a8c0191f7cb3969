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

// spec: join-82
func TestFirstAndLastAgainstSlices(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	kept, cut := 0, 0
	for seed := range uint64(400) {
		s := newSource(seed)
		elem := s.dataType(2)
		dt := arrow.DataType(arrow.ListOf(elem))
		if seed%3 == 0 {
			dt = arrow.LargeListOf(elem)
		}
		a := s.array(dt, s.IntN(40), seed%2 == 0)
		for n := 1; n <= 4; n++ {
			for name, truncate := range map[string]func(arrow.Array, int, memory.Allocator) (arrow.Array, error){"first": batch.First, "last": batch.Last} {
				got, err := truncate(a, n, mem)
				require.NoError(t, err)
				require.True(t, arrow.TypeEqual(dt, got.DataType()))
				want := valuesOf(a)
				for i, row := range want {
					list, ok := row.([]any)
					if ok && len(list) > n && name == "first" {
						want[i] = list[:n]
					} else if ok && len(list) > n {
						want[i] = list[len(list)-n:]
					}
				}
				require.Equal(t, want, valuesOf(got), "seed %d, %s %d of %s", seed, name, n, dt)
				if got == a {
					kept++
				} else {
					cut++
					requireTidy(t, got.Data())
				}
				got.Release()
			}
		}
	}
	require.Greater(t, kept, 100)
	require.Greater(t, cut, 100)
}

func TestFirstAndLastRefuseTypesAndLengths(t *testing.T) {
	s := newSource(1)
	for _, dt := range []arrow.DataType{
		arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String, arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32),
		arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int32), arrow.StructOf(),
	} {
		_, err := batch.First(s.array(dt, 3, true), 1, nil)
		require.Equal(t, fault.Internal, fault.KindOf(err), dt)
	}
	lists := s.array(arrow.ListOf(arrow.PrimitiveTypes.Int32), 3, true)
	for _, n := range []int{0, -1} {
		_, err := batch.Last(lists, n, nil)
		require.Equal(t, fault.Internal, fault.KindOf(err))
	}
}

func TestFirstLastAndCastOfEmptyArrays(t *testing.T) {
	empty := array.NewBuilder(memory.DefaultAllocator, arrow.ListOf(arrow.BinaryTypes.String)).NewArray()
	for _, truncate := range []func(arrow.Array, int, memory.Allocator) (arrow.Array, error){batch.First, batch.Last} {
		got, err := truncate(empty, 3, nil)
		require.NoError(t, err)
		require.Zero(t, got.Len())
	}
	got, err := batch.Cast(empty, arrow.ListOf(arrow.BinaryTypes.String), nil)
	require.NoError(t, err)
	require.Zero(t, got.Len())
	ints := array.NewBuilder(memory.DefaultAllocator, arrow.ListOf(arrow.PrimitiveTypes.Int32)).NewArray()
	got, err = batch.Cast(ints, arrow.ListOf(arrow.PrimitiveTypes.Float32), nil)
	require.NoError(t, err)
	require.Zero(t, got.Len())
}

func BenchmarkTruncateAndCast(b *testing.B) {
	const rows = 8192
	lists := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	doubles := array.NewFloat64Builder(memory.DefaultAllocator)
	longs := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range rows {
		lists.Append(true)
		for j := range 64 {
			lists.ValueBuilder().(*array.Int64Builder).Append(int64(i * j))
		}
		doubles.Append(float64(i) / 3)
		longs.Append(int64(i))
	}
	list, double, long := lists.NewArray(), doubles.NewArray(), longs.NewArray()
	for name, run := range map[string]func() (arrow.Array, error){
		"last 16 of 64":   func() (arrow.Array, error) { return batch.Last(list, 16, nil) },
		"last 64 of 64":   func() (arrow.Array, error) { return batch.Last(list, 64, nil) },
		"double to float": func() (arrow.Array, error) { return batch.Cast(double, arrow.PrimitiveTypes.Float32, nil) },
		"long to float":   func() (arrow.Array, error) { return batch.Cast(long, arrow.PrimitiveTypes.Float32, nil) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				out, err := run()
				if err != nil {
					b.Fatal(err)
				}
				out.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
