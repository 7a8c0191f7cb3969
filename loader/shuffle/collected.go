package shuffle

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
)

// collected is the rows of a window, as the join gave them.
type collected struct {
	joined     Joined
	memory     memory.Allocator
	columns    [][]arrow.Array // by column, then by batch; those of Joined have none
	priorities []arrow.Array
	rows       int64
	kept       batch.Retained // what of them is paid for
}

func (c *collected) release() {
	for _, parts := range append(c.columns, c.priorities) {
		for _, a := range parts {
			a.Release()
		}
	}
	c.columns, c.priorities = nil, nil
}

// add retains a joined batch, and pays for it. A dictionary that the join uses again is
// paid for by its build side; one that was made for a batch is paid for here.
func (c *collected) add(ctx context.Context, held *budget.Reservation, b arrow.RecordBatch) error {
	if c.columns == nil {
		c.columns = make([][]arrow.Array, b.NumCols())
	}
	keep := make([]arrow.Array, 0, 2*b.NumCols())
	for i, column := range b.Columns() {
		if i == c.joined.Ordinal {
			continue
		}
		keep = append(keep, column)
		if last := len(c.columns[i]) - 1; last >= 0 {
			if before := dictionaryOf(c.columns[i][last]); before != nil && before.Data() != dictionaryOf(column).Data() {
				keep = append(keep, before)
			}
		}
	}
	if err := grow(ctx, held, c.kept.Add(keep)); err != nil {
		return err
	}
	for i, column := range b.Columns() {
		if i == c.joined.Ordinal {
			continue
		}
		column.Retain()
		if i == c.joined.Priority {
			c.priorities = append(c.priorities, column)
		} else {
			c.columns[i] = append(c.columns[i], column)
		}
	}
	c.rows += b.NumRows()
	return nil
}

// dictionaryOf returns what a column's values refer to; nil if they are values.
func dictionaryOf(column arrow.Array) arrow.Array {
	if d, ok := column.(*array.Dictionary); ok {
		return d.Dictionary()
	}
	return nil
}

// batch returns the rows in one batch. Column by column, what was collected is given
// back when it has been copied.
func (c *collected) batch(ctx context.Context, schema *arrow.Schema, held *budget.Reservation) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, len(c.columns))
	defer func() {
		for _, a := range columns {
			a.Release()
		}
	}()
	for i, parts := range c.columns {
		if len(parts) == 0 {
			columns = append(columns, array.NewNull(int(c.rows)))
			continue
		}
		one, err := c.one(ctx, held, parts)
		if err != nil {
			return nil, err
		}
		columns = append(columns, one)
		if len(parts) > 1 {
			held.Shrink(c.kept.Remove(parts))
		}
		for _, a := range parts {
			a.Release()
		}
		c.columns[i] = nil
	}
	return array.NewRecordBatch(schema, columns, c.rows), nil
}

// one makes one column of its parts.
func (c *collected) one(ctx context.Context, held *budget.Reservation, parts []arrow.Array) (arrow.Array, error) {
	if len(parts) == 1 {
		parts[0].Retain()
		return parts[0], nil
	}
	if dictionaryOf(parts[0]) != nil {
		return c.oneDictionary(ctx, held, parts)
	}
	return c.gather(ctx, held, parts[0].DataType(), wholes(parts))
}

func wholes(parts []arrow.Array) []batch.Segment {
	segments := make([]batch.Segment, len(parts))
	for i, a := range parts {
		segments[i] = batch.Segment{Values: a, Rows: a.Len()}
	}
	return segments
}

// gather gathers segments once they are paid for.
func (c *collected) gather(ctx context.Context, held *budget.Reservation, dt arrow.DataType, segments []batch.Segment) (arrow.Array, error) {
	g := batch.NewGatherer(c.memory)
	defer g.Release()
	bytes, err := g.Size(dt, segments)
	if err != nil {
		return nil, err
	}
	if err := grow(ctx, held, bytes); err != nil {
		return nil, err
	}
	return g.Gather(dt, segments)
}

// oneDictionary makes one column of references. Where the parts refer to dictionaries of
// their own, the rows that they refer to become one.
func (c *collected) oneDictionary(ctx context.Context, held *budget.Reservation, parts []arrow.Array) (arrow.Array, error) {
	if err := grow(ctx, held, c.rows*int64(arrow.Int32SizeBytes)); err != nil {
		return nil, err
	}
	references := make([]int32, 0, c.rows)
	dictionary := dictionaryOf(parts[0])
	if shareDictionary(parts) {
		for _, part := range parts {
			references = append(references, referencesOf(part)...)
		}
	} else {
		rows := make([]batch.Segment, len(parts))
		for i, part := range parts {
			rows[i].Values = dictionaryOf(part)
			rows[i].Indices, references = neighbours(referencesOf(part), references, count(rows[:i]))
		}
		var err error
		if dictionary, err = c.gather(ctx, held, dictionary.DataType(), rows); err != nil {
			return nil, err
		}
		defer dictionary.Release()
	}
	data := array.NewData(arrow.PrimitiveTypes.Int32, len(references), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(references))}, nil, 0, 0)
	defer data.Release()
	indices := array.NewInt32Data(data)
	defer indices.Release()
	return array.NewDictionaryArray(parts[0].DataType(), indices, dictionary), nil
}

func referencesOf(column arrow.Array) []int32 {
	return column.(*array.Dictionary).Indices().(*array.Int32).Int32Values()
}

func shareDictionary(parts []arrow.Array) bool {
	for _, part := range parts[1:] {
		if dictionaryOf(part).Data() != dictionaryOf(parts[0]).Data() {
			return false
		}
	}
	return true
}

// neighbours returns references without those that are as the one before, since rows of
// one request follow each other, and appends to at where each is then, counted from first.
func neighbours(references, at []int32, first int) (rows, places []int32) {
	for i, r := range references {
		if i == 0 || r != references[i-1] {
			rows = append(rows, r)
		}
		at = append(at, int32(first+len(rows)-1))
	}
	return rows, at
}

func count(segments []batch.Segment) int {
	n := 0
	for _, s := range segments {
		n += len(s.Indices)
	}
	return n
}
