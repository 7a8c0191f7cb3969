package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// manyRuns is how many rows a run of one source must have on average to be
// gathered as a segment of its own.
const manyRuns = 16

// Choose returns an array of type dt whose row i is row at[i] of
// sources[which[i]]. Memory comes from mem. It takes the types that Gather
// takes, and fails as that does.
func Choose(dt arrow.DataType, sources []arrow.Array, which, at []int32, mem memory.Allocator) (arrow.Array, error) {
	if len(which) != len(at) {
		return nil, fault.New(fault.Internal, "%d sources for %d rows", len(which), len(at))
	}
	runs := 0
	for i, w := range which {
		if int(uint32(w)) >= len(sources) {
			return nil, fault.New(fault.Internal, "source %d of %d", w, len(sources))
		}
		if i == 0 || w != which[i-1] {
			runs++
		}
	}
	if runs*manyRuns > len(which) && runs > len(sources) {
		return interleave(dt, sources, which, at, mem)
	}
	segments := make([]Segment, 0, runs)
	for from := 0; from < len(which); {
		to := from + 1
		for to < len(which) && which[to] == which[from] {
			to++
		}
		segments = append(segments, Segment{Values: sources[which[from]], Indices: at[from:to]})
		from = to
	}
	return Gather(dt, segments, mem)
}

// interleave gathers the rows of each source first, and then puts them in
// order: two copies cost less than many short runs.
func interleave(dt arrow.DataType, sources []arrow.Array, which, at []int32, mem memory.Allocator) (arrow.Array, error) {
	ends := make([]int32, len(sources)+1)
	for _, w := range which {
		ends[w+1]++
	}
	for i := range sources {
		ends[i+1] += ends[i]
	}
	next := append([]int32(nil), ends...)
	indices, order := make([]int32, len(at)), make([]int32, len(at))
	for i, w := range which {
		indices[next[w]], order[i] = at[i], next[w]
		next[w]++
	}
	segments := make([]Segment, len(sources))
	for i, s := range sources {
		segments[i] = Segment{Values: s, Indices: indices[ends[i]:ends[i+1]]}
	}
	together, err := Gather(dt, segments, mem)
	if err != nil {
		return nil, err
	}
	defer together.Release()
	return Gather(dt, []Segment{{Values: together, Indices: order}}, mem)
}
