package batch

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// WithFirst returns the rows of arrays of type dt after one leading row: the only
// row of first, or null if first is nil. Memory comes from mem.
func WithFirst(dt arrow.DataType, first arrow.Array, arrays []arrow.Array, mem memory.Allocator) (arrow.Array, error) {
	const remedy = "write the staging table with more buckets"
	segments := append([]Segment{{Values: first, Rows: 1}}, whole(arrays)...)
	rows := 0
	for _, s := range segments {
		rows += s.Rows
	}
	if rows > math.MaxInt32 {
		return nil, fault.New(fault.Exhausted, "%d staging rows exceed the range of 32-bit references", rows).WithRemedy(remedy)
	}
	g := gathering{mem: mem, remedy: remedy}
	return g.array(dt, segments)
}
