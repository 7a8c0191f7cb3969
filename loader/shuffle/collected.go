package shuffle

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// collected is the rows of a window, in the batches in which the join gave them.
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
func (c *collected) add(ctx context.Context, held *room, b arrow.RecordBatch) error {
	if c.columns == nil {
		c.columns = make([][]arrow.Array, b.NumCols())
	}
	keep := make([]arrow.Array, 0, 2*b.NumCols())
	for i, column := range b.Columns() {
		if i == c.joined.Ordinal {
			continue
		}
		keep = append(keep, column)
		if c.joined.refersToItself(i) {
			keep = append(keep, dictionaryOf(column))
			continue
		}
		if last := len(c.columns[i]) - 1; last >= 0 {
			if before := dictionaryOf(c.columns[i][last]); before != nil && before.Data() != dictionaryOf(column).Data() {
				keep = append(keep, before)
			}
		}
	}
	if err := held.grow(ctx, c.kept.Add(keep)); err != nil {
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

// dictionariesOf returns what each of some columns refers to.
func dictionariesOf(columns []arrow.Array) []arrow.Array {
	dictionaries := make([]arrow.Array, len(columns))
	for i, column := range columns {
		dictionaries[i] = dictionaryOf(column)
	}
	return dictionaries
}

// settle sees that all references of a column are into one dictionary: where batches have
// dictionaries of their own, the rows that they refer to become one, behind row 0, which
// all of them have alike.
func (c *collected) settle(ctx context.Context, held *room) error {
	for number, parts := range c.columns {
		if len(parts) == 0 || dictionaryOf(parts[0]) == nil || oneDictionary(parts) {
			continue
		}
		if err := held.grow(ctx, c.rows*int64(arrow.Int32SizeBytes)); err != nil {
			return err
		}
		own := c.joined.refersToItself(number) // where row 0 is like any other
		var rows []batch.Segment
		places, first := make([][]int32, len(parts)), 0
		if !own {
			rows, first = append(rows, batch.Segment{Values: dictionaryOf(parts[0]), Rows: 1}), 1
		}
		for i, part := range parts {
			one := batch.Segment{Values: dictionaryOf(part)}
			one.Indices, places[i] = neighbours(referencesOf(part), first, own)
			rows, first = append(rows, one), first+len(one.Indices)
		}
		dictionary, err := c.gather(ctx, held, rows)
		if err != nil {
			return err
		}
		if own {
			held.Shrink(c.kept.Remove(dictionariesOf(parts)))
		}
		for i, part := range parts {
			parts[i] = referring(part.DataType(), dictionary, places[i])
			part.Release()
		}
		dictionary.Release()
	}
	return nil
}

// gather gathers segments once they are paid for.
func (c *collected) gather(ctx context.Context, held *room, segments []batch.Segment) (arrow.Array, error) {
	g := batch.NewGatherer(c.memory)
	defer g.Release()
	dt := segments[0].Values.DataType()
	bytes, err := g.Size(dt, segments)
	if err != nil {
		return nil, err
	}
	if err := held.grow(ctx, bytes); err != nil {
		return nil, err
	}
	return g.Gather(dt, segments)
}

// choose makes a batch of some rows: of each its batch, and its number there.
func (c *collected) choose(ctx context.Context, schema *arrow.Schema, held *room, batches, rows []int32) (arrow.RecordBatch, error) {
	count := 0
	for _, parts := range c.columns {
		count = max(count, len(parts))
	}
	of, err := batch.NewChoice(count, batches, rows, c.memory)
	if err != nil {
		return nil, err
	}
	chosen := choice{Choice: of, batches: batches, rows: rows}
	columns := make([]arrow.Array, 0, len(c.columns))
	defer func() {
		for _, a := range columns {
			a.Release()
		}
	}()
	for _, parts := range c.columns {
		one, err := chosen.column(ctx, held, parts)
		if err != nil {
			return nil, err
		}
		columns = append(columns, one)
	}
	return array.NewRecordBatch(schema, columns, int64(len(rows))), nil
}

// choice is some rows of a window: of each its batch, and its number there.
type choice struct {
	*batch.Choice
	batches, rows []int32
}

// column makes one column of what the batches have of it, once it is paid for.
func (c choice) column(ctx context.Context, held *room, parts []arrow.Array) (arrow.Array, error) {
	if len(parts) == 0 {
		return array.NewNull(len(c.rows)), nil
	}
	if dictionary := dictionaryOf(parts[0]); dictionary != nil {
		if err := held.grow(ctx, int64(len(c.rows)*arrow.Int32SizeBytes)); err != nil {
			return nil, err
		}
		of := make([][]int32, len(parts))
		for i, part := range parts {
			of[i] = referencesOf(part)
		}
		references := make([]int32, len(c.rows))
		for i, row := range c.rows {
			references[i] = of[c.batches[i]][row]
		}
		return referring(parts[0].DataType(), dictionary, references), nil
	}
	bytes, err := c.Size(parts[0].DataType(), parts)
	if err != nil {
		return nil, err
	}
	if err := held.grow(ctx, bytes); err != nil {
		return nil, err
	}
	return c.Column(parts[0].DataType(), parts)
}

func referencesOf(column arrow.Array) []int32 {
	return column.(*array.Dictionary).Indices().(*array.Int32).Int32Values()
}

// referring makes a column of references into a dictionary.
func referring(dt arrow.DataType, dictionary arrow.Array, references []int32) arrow.Array {
	data := array.NewData(arrow.PrimitiveTypes.Int32, len(references), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(references))}, nil, 0, 0)
	defer data.Release()
	indices := array.NewInt32Data(data)
	defer indices.Release()
	return array.NewDictionaryArray(dt, indices, dictionary)
}

func oneDictionary(parts []arrow.Array) bool {
	for _, part := range parts[1:] {
		if dictionaryOf(part).Data() != dictionaryOf(parts[0]).Data() {
			return false
		}
	}
	return true
}

// neighbours returns references without those that are as the one before, since rows of
// one request follow each other, and where each is then, counted from first. Unless zero
// is a row like any other it stays 0.
func neighbours(references []int32, first int, zero bool) (rows, places []int32) {
	rows, places = []int32{}, make([]int32, len(references))
	for i, r := range references {
		if r == 0 && !zero {
			continue
		}
		if i == 0 || r != references[i-1] {
			rows = append(rows, r)
		}
		places[i] = int32(first + len(rows) - 1)
	}
	return rows, places
}
