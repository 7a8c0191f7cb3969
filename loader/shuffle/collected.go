package shuffle

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// collected holds the rows of a window, in the batches of the join.
type collected struct {
	joined     JoinedColumns
	memory     memory.Allocator
	columns    [][]arrow.Array // by column, then by batch; empty for those of Joined
	priorities []arrow.Array
	places     []StoredPlace // of the first rows of the batches
	rows       int64
	kept       batch.Retained // the memory that is reserved
	// earlier has, by column, the dictionaries that are reserved because a later batch has another one.
	earlier map[int][]arrow.Array
	outputs [][]arrow.Array // by column: the rest of its arrays that are permuted already, see permute
	taken   int             // rows of the first of these that were returned
	copies  bool            // whether a batch has a copy of its part of these, since it would keep too much
}

func (c *collected) release() {
	for _, parts := range slices.Concat(c.columns, c.outputs, [][]arrow.Array{c.priorities}) {
		for _, a := range parts {
			a.Release()
		}
	}
	c.columns, c.outputs, c.priorities = nil, nil, nil
}

// add reserves and retains a joined batch. A dictionary that the join reuses is reserved by
// its build side; one that was made for a batch is reserved here.
func (c *collected) add(ctx context.Context, held *room, b arrow.RecordBatch, at StoredPlace) error {
	if c.columns == nil {
		c.columns, c.earlier = make([][]arrow.Array, b.NumCols()), map[int][]arrow.Array{}
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
		if before := c.replacedBy(i, column); before != nil {
			keep = append(keep, before)
			c.earlier[i] = append(c.earlier[i], before)
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
	c.places = append(c.places, at)
	c.rows += b.NumRows()
	return nil
}

// replacedBy returns the dictionary of the last batch of a column if the next batch has another one; otherwise nil.
func (c *collected) replacedBy(number int, next arrow.Array) arrow.Array {
	last := len(c.columns[number]) - 1
	if last < 0 {
		return nil
	}
	before := dictionaryOf(c.columns[number][last])
	if before == nil || before.Data() == dictionaryOf(next).Data() {
		return nil
	}
	return before
}

// inStoredOrder puts the batches in the order in which their rows are stored, which is the order of
// rows of equal priority.
func (c *collected) inStoredOrder() {
	order := make([]int, len(c.places))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return c.places[a].compare(c.places[b]) })
	c.priorities = reordered(c.priorities, order)
	for i, parts := range c.columns {
		if len(parts) > 0 {
			c.columns[i] = reordered(parts, order)
		}
	}
}

// reordered returns elements in a new order, given the old index of each.
func reordered(of []arrow.Array, order []int) []arrow.Array {
	out := make([]arrow.Array, len(of))
	for i, at := range order {
		out[i] = of[at]
	}
	return out
}

// dictionaryOf returns the dictionary of a column; nil if it has none.
func dictionaryOf(column arrow.Array) arrow.Array {
	if d, ok := column.(*array.Dictionary); ok {
		return d.Dictionary()
	}
	return nil
}

// dictionariesOf returns the dictionaries of some columns.
func dictionariesOf(columns []arrow.Array) []arrow.Array {
	dictionaries := make([]arrow.Array, len(columns))
	for i, column := range columns {
		dictionaries[i] = dictionaryOf(column)
	}
	return dictionaries
}

// mergeDictionaries makes all references of a column refer to one dictionary. If batches
// have different dictionaries, the rows to which they refer are merged into a new one,
// after row 0, which all of them share.
func (c *collected) mergeDictionaries(ctx context.Context, held *room) error {
	for number, parts := range c.columns {
		if len(parts) == 0 || dictionaryOf(parts[0]) == nil || oneDictionary(parts) {
			continue
		}
		if err := held.grow(ctx, c.rows*int64(arrow.Int32SizeBytes)); err != nil {
			return err
		}
		own := c.joined.refersToItself(number) // row 0 is then like any other
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
		replaced := c.earlier[number]
		if own {
			replaced = dictionariesOf(parts)
		}
		held.Shrink(c.kept.Remove(replaced))
		for i, part := range parts {
			parts[i] = referring(part.DataType(), dictionary, places[i])
			c.kept.Add(parts[i : i+1]) // reserved above
			held.Shrink(c.kept.Remove([]arrow.Array{part}))
			part.Release()
		}
		dictionary.Release()
	}
	return nil
}

// gather reserves and gathers segments.
func (c *collected) gather(ctx context.Context, held *room, segments []batch.Segment) (arrow.Array, error) {
	g := batch.NewGatherer(c.memory)
	defer g.Release()
	values, _, err := gather(ctx, held, g, segments)
	return values, err
}

// gather reserves and gathers segments, and returns the bytes that it reserved.
func gather(ctx context.Context, held *room, g *batch.Gatherer, segments []batch.Segment) (arrow.Array, int64, error) {
	dt := segments[0].Values.DataType()
	bytes, err := g.Size(dt, segments)
	if err != nil {
		return nil, 0, err
	}
	if err := held.grow(ctx, bytes); err != nil {
		return nil, 0, err
	}
	values, err := g.Gather(dt, segments)
	return values, bytes, err
}

// choose returns the next batch of the result: some rows, given the columns of it that are made already. The others are
// reserved by held.
func (c *collected) choose(ctx context.Context, schema *arrow.Schema, held *room, of order, made []arrow.Array) (arrow.RecordBatch, error) {
	columns, chosen := slices.Clone(made), &choice{order: of, memory: c.memory}
	for number, parts := range c.columns {
		var one arrow.Array
		var err error
		switch {
		case made[number] == nil:
			one, err = chosen.column(ctx, held, parts)
		case c.copies:
			one, err = c.copied(ctx, held, made[number])
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		defer one.Release()
		columns[number] = one
	}
	return array.NewRecordBatch(schema, columns, int64(len(of.numbers))), nil
}

// choice is a selection of rows of a window.
type choice struct {
	order
	memory memory.Allocator
	choice *batch.Choice // nil until a column needs it
}

// column reserves and returns one column of the chosen rows, given its batches.
func (c *choice) column(ctx context.Context, held *room, parts []arrow.Array) (arrow.Array, error) {
	if len(parts) == 0 {
		return array.NewNull(len(c.numbers)), nil
	}
	if c.choice == nil {
		var err error
		if c.choice, err = batch.NewChoice(len(parts), c.batches, c.numbers, c.memory); err != nil {
			return nil, err
		}
	}
	bytes, err := c.choice.Size(parts[0].DataType(), parts)
	if err != nil {
		return nil, err
	}
	if err := held.grow(ctx, bytes); err != nil {
		return nil, err
	}
	return c.choice.Column(parts[0].DataType(), parts)
}

func referencesOf(column arrow.Array) []int32 { return ownValues(column).(*array.Int32).Int32Values() }

// ownValues returns a column without its dictionary: its references, or the column itself if it has none.
func ownValues(column arrow.Array) arrow.Array {
	if d, ok := column.(*array.Dictionary); ok {
		return d.Indices()
	}
	return column
}

// withDictionary returns a column of a type, given its own values and its dictionary, if it has one. It takes ownership of the
// values.
func withDictionary(values arrow.Array, dt arrow.DataType, dictionary arrow.Array) arrow.Array {
	if dictionary == nil {
		return values
	}
	defer values.Release()
	return array.NewDictionaryArray(dt, values, dictionary)
}

// referring returns a column of references to a dictionary.
func referring(dt arrow.DataType, dictionary arrow.Array, references []int32) arrow.Array {
	data := array.NewData(arrow.PrimitiveTypes.Int32, len(references), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(references))}, nil, 0, 0)
	defer data.Release()
	return withDictionary(array.NewInt32Data(data), dt, dictionary)
}

func oneDictionary(parts []arrow.Array) bool {
	for _, part := range parts[1:] {
		if dictionaryOf(part).Data() != dictionaryOf(parts[0]).Data() {
			return false
		}
	}
	return true
}

// neighbours drops references that equal the one before, as of rows of one request, and
// returns the new position of each reference, counted from first. 0 stays 0 unless zero is
// true: then row 0 is like any other.
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
