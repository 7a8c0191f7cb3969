package batch

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// WithFirst returns the rows of parts, which are of type dt, behind one row of
// another source: the one value of first, or null if that is nil. Memory comes
// from mem.
func WithFirst(dt arrow.DataType, first arrow.Array, parts []arrow.Array, mem memory.Allocator) (arrow.Array, error) {
	const remedy = "write the staging table with more buckets"
	segments, rows := append(make([]Segment, 0, len(parts)+1), Segment{Values: first, Rows: 1}), 1
	for _, p := range parts {
		segments = append(segments, Segment{Values: p, Rows: p.Len()})
		rows += p.Len()
	}
	if rows > math.MaxInt32 {
		return nil, fault.New(fault.Exhausted, "%d staging rows are more than 32-bit references reach", rows).WithRemedy(remedy)
	}
	g := gathering{mem: mem, remedy: remedy}
	return g.array(dt, segments)
}
