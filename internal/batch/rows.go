package batch

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// minCopyRun is the minimum mean length of runs of kept rows for which the runs are copied as
// spans.
const minCopyRun = 4

// Filter returns the rows of a batch whose numbers are in keep, in ascending order,
// with memory from mem. For dictionary columns it filters the indices and shares the
// dictionary. If keep has all rows, the batch itself is retained and returned.
func Filter(b arrow.RecordBatch, keep []int32, mem memory.Allocator) (arrow.RecordBatch, error) {
	rows := int(b.NumRows())
	if low, high := extent(keep); len(keep) > 0 && (low < 0 || high >= rows) {
		return nil, fault.New(fault.Internal, "rows %d to %d to keep are outside of a batch of %d rows", low, high, rows)
	}
	if len(keep) == rows {
		b.Retain()
		return b, nil
	}
	g := gathering{mem: mem, dictionaries: true, remedy: remedyBatch}
	defer g.close()
	kept, columns := ascending(keep), make([]arrow.Array, b.NumCols())
	for i, c := range b.Columns() {
		dt := c.DataType()
		if err := g.check(dt); err != nil {
			return nil, fault.Op(err, "filter column %s", b.ColumnName(i))
		}
		if kept.rows == 0 {
			columns[i] = array.NewSlice(c, 0, 0)
			g.owned = append(g.owned, columns[i])
			continue
		}
		inputs := []input{{data: c.Data(), base: c.Data().Offset(), selection: kept}}
		column, err := g.column(dt, inputs, kept.rows)
		if err != nil {
			return nil, fault.Op(err, "filter column %s", b.ColumnName(i))
		}
		columns[i] = array.MakeFromData(column)
		g.owned = append(g.owned, columns[i])
	}
	return array.NewRecordBatch(b.Schema(), columns, int64(len(keep))), nil
}

// ascending returns a selection of rows whose numbers ascend. The selection has spans if runs are
// long, and otherwise indices.
func ascending(keep []int32) *selection {
	runs := 0
	for i, row := range keep {
		if i == 0 || row != keep[i-1]+1 {
			runs++
		}
	}
	s := &selection{rows: len(keep)}
	if runs*minCopyRun > len(keep) {
		s.indices, s.first = keep, len(keep) > 0 && keep[0] == 0
		return s
	}
	s.spans = make([]span, 0, runs)
	for i, row := range keep {
		if i == 0 || row != keep[i-1]+1 {
			s.spans = append(s.spans, span{from: int(row)})
		}
		s.spans[len(s.spans)-1].rows++
	}
	return s
}

// Concat returns the concatenation of arrays of one type, with memory from mem. There
// must be at least one. Dictionary columns must share one dictionary.
func Concat(arrays []arrow.Array, mem memory.Allocator) (arrow.Array, error) {
	if len(arrays) == 0 {
		return nil, fault.New(fault.Internal, "there are no arrays to concatenate")
	}
	g := gathering{mem: mem, dictionaries: true, remedy: remedyBatch}
	return g.array(arrays[0].DataType(), whole(arrays))
}

// whole returns segments of all rows of the arrays.
func whole(arrays []arrow.Array) []Segment {
	segments := make([]Segment, len(arrays))
	for i, a := range arrays {
		segments[i] = Segment{Values: a, Rows: a.Len()}
	}
	return segments
}

// Take returns the given rows of an array, in any order and with repetitions, with
// memory from mem. For a dictionary column it takes the indices and shares the
// dictionary.
func Take(a arrow.Array, rows []int32, mem memory.Allocator) (arrow.Array, error) {
	g := gathering{mem: mem, dictionaries: true, remedy: remedyBatch}
	return g.array(a.DataType(), []Segment{{Values: a, Indices: rows}})
}

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
