package batch_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
)

// TestGathererEqualsGather gathers columns of random batches that select rows by the
// same indices, some of them from sources with a null row.
func TestGathererEqualsGather(t *testing.T) {
	for seed := range uint64(300) {
		s := newSource(seed)
		mem := memory.NewCheckedAllocator(batch.Default())
		rows := 2 + s.IntN(40)
		parts := [][]int32{s.indices(rows), s.indices(rows)}
		g := batch.NewGatherer(mem)
		var kept []arrow.Array
		for range 1 + s.IntN(6) {
			dt := s.dataType(2)
			segments := []batch.Segment{{Values: s.array(dt, rows, s.IntN(2) == 0), Rows: s.IntN(rows)}}
			for _, indices := range parts {
				segments = append(segments, batch.Segment{Values: s.firstNull(dt, rows), Indices: indices})
			}
			want, err := batch.Gather(dt, segments, nil)
			require.NoError(t, err)
			got, err := g.Gather(dt, segments)
			require.NoError(t, err)
			require.Equal(t, valuesOf(want), valuesOf(got), "%s", dt)
			require.Equal(t, want.NullN(), got.NullN())
			requireTidy(t, got.Data())
			kept = append(kept, got)
		}
		g.Release()
		for _, a := range kept {
			require.NotNil(t, valuesOf(a), "arrays outlive the Gatherer")
			a.Release()
		}
		mem.AssertSize(t, 0)
	}
}

// TestDeferredCopies gathers the columns of random batches first with and then without Defer. The
// results are equal, whatever the number of cores that complete them.
func TestDeferredCopies(t *testing.T) {
	for seed := range uint64(400) {
		s, columns := newSource(seed), [][]batch.Segment{}
		mem := memory.NewCheckedAllocator(batch.Default())
		g := batch.NewGatherer(mem)
		var want, got []arrow.Array
		for _, deferred := range []bool{true, false} {
			if deferred {
				g.Defer()
			}
			for i := range 5 {
				if deferred {
					segments, _ := s.segments(s.dataType(2))
					columns = append(columns, append(segments, s.longSegments(segments)...))
				}
				if len(columns[i]) == 0 || columns[i][0].Values == nil {
					continue
				}
				one, err := g.Gather(columns[i][0].Values.DataType(), columns[i])
				require.NoError(t, err)
				if deferred {
					got = append(got, one)
				} else {
					want = append(want, one)
				}
			}
			require.NoError(t, g.Complete(cores.New(int(seed%4))))
			g.Release()
		}
		for i := range want {
			require.True(t, array.Equal(want[i], got[i]), "%s", want[i].DataType())
			require.Equal(t, valuesOf(want[i]), valuesOf(got[i]), "%s", want[i].DataType())
			requireTidy(t, got[i].Data())
		}
		batch.ReleaseAll(want...)
		batch.ReleaseAll(got...)
		mem.AssertSize(t, 0)
	}
}

// longSegments returns all rows of the segments' sources, and many of their rows in random order.
func (s source) longSegments(of []batch.Segment) []batch.Segment {
	var long []batch.Segment
	for _, segment := range of {
		if segment.Values == nil || segment.Values.Len() == 0 {
			continue
		}
		var indices []int32
		for range 20 {
			indices = append(indices, s.indices(segment.Values.Len())...)
		}
		long = append(long, batch.Segment{Values: segment.Values, Rows: segment.Values.Len()}, batch.Segment{Values: segment.Values, Indices: indices})
	}
	return long
}

// firstNull returns an array whose only null is the first row, or a random array.
func (s source) firstNull(dt arrow.DataType, rows int) arrow.Array {
	if s.IntN(3) == 0 {
		return s.array(dt, rows, true)
	}
	rest := s.array(dt, rows-1, false)
	made, err := batch.Gather(dt, []batch.Segment{{Rows: 1}, {Values: rest, Rows: rows - 1}}, nil)
	if err != nil {
		panic(err)
	}
	return made
}

// TestGathererChecksEverySource selects a row that is outside of the second source
// only.
func TestGathererChecksEverySource(t *testing.T) {
	g := batch.NewGatherer(nil)
	defer g.Release()
	indices := []int32{2, 0, 1}
	got, err := g.Gather(arrow.PrimitiveTypes.Int64, []batch.Segment{{Values: int64s(1, 2, 3), Indices: indices}})
	require.NoError(t, err)
	require.Equal(t, []int64{3, 1, 2}, got.(*array.Int64).Int64Values())
	_, err = g.Gather(arrow.PrimitiveTypes.Int64, []batch.Segment{{Values: int64s(1, 2), Indices: indices}})
	require.Equal(t, fault.Internal, fault.KindOf(err))
}
