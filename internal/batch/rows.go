package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// longRun is the mean length from which on runs of kept rows are copied whole.
const longRun = 4

// Filter returns the rows of a batch that keep names, by ascending row
// numbers, with memory from mem. Of dictionary columns the indices are
// filtered and the dictionary is shared with the batch. When all rows are
// kept, the batch itself is returned, retained.
func Filter(b arrow.RecordBatch, keep []int32, mem memory.Allocator) (arrow.RecordBatch, error) {
	rows := int(b.NumRows())
	if low, high := extent(keep); len(keep) > 0 && (low < 0 || high >= rows) {
		return nil, fault.New(fault.Internal, "rows %d to %d of %d are to be kept", low, high, rows)
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
		parts := []part{{data: c.Data(), base: c.Data().Offset(), selection: kept}}
		column, err := g.column(dt, parts, kept.rows)
		if err != nil {
			return nil, fault.Op(err, "filter column %s", b.ColumnName(i))
		}
		columns[i] = array.MakeFromData(column)
		g.owned = append(g.owned, columns[i])
	}
	return array.NewRecordBatch(b.Schema(), columns, int64(len(keep))), nil
}

// ascending makes a selection of row numbers: spans where runs are long.
func ascending(keep []int32) *selection {
	runs := 0
	for i, row := range keep {
		if i == 0 || row != keep[i-1]+1 {
			runs++
		}
	}
	s := &selection{rows: len(keep)}
	if runs*longRun > len(keep) {
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

// Concat returns the rows of the arrays one after the other, with memory from
// mem. They must be of one type, and at least one. Dictionary columns pass
// where they share one dictionary.
func Concat(arrays []arrow.Array, mem memory.Allocator) (arrow.Array, error) {
	if len(arrays) == 0 {
		return nil, fault.New(fault.Internal, "no arrays have no type to be concatenated as")
	}
	g := gathering{mem: mem, dictionaries: true, remedy: remedyBatch}
	return g.array(arrays[0].DataType(), whole(arrays))
}

func whole(arrays []arrow.Array) []Segment {
	segments := make([]Segment, len(arrays))
	for i, a := range arrays {
		segments[i] = Segment{Values: a, Rows: a.Len()}
	}
	return segments
}

// Take returns some rows of an array in any order, each as often as it stands in
// rows, with memory from mem. Of a dictionary column the indices are taken, and the
// dictionary is shared with the array.
func Take(a arrow.Array, rows []int32, mem memory.Allocator) (arrow.Array, error) {
	g := gathering{mem: mem, dictionaries: true, remedy: remedyBatch}
	return g.array(a.DataType(), []Segment{{Values: a, Indices: rows}})
}
