package shuffle

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
)

// collected holds the rows of a window, in the batches in which the join returned them.
type collected struct {
	joined     JoinedColumns
	memory     memory.Allocator
	cores      *cores.Cores
	columns    [][]arrow.Array // by column, then by batch; empty for the columns Ordinal and Priority of joined
	priorities []arrow.Array
	places     []StoredPlace // the place of the first row of each batch
	rows       int64
	kept       batch.Retained // the arrays whose memory is reserved
	// earlier has, for each column, the dictionaries of earlier batches that are reserved here
	// because a later batch has another dictionary.
	earlier map[int][]arrow.Array
	outputs [][]arrow.Array // by column: the permuted arrays that were not completely returned yet, see permute
	taken   int             // how many rows of the first array in outputs were returned
	copies  bool            // whether batches have copies of their parts of outputs, since a slice would keep too much memory
}

func (c *collected) release() {
	for _, parts := range slices.Concat(c.columns, c.outputs, [][]arrow.Array{c.priorities}) {
		for _, a := range parts {
			a.Release()
		}
	}
	c.columns, c.outputs, c.priorities = nil, nil, nil
}

// add reserves and retains a joined batch. The memory of a dictionary that the join uses for all
// batches is reserved by the build side. A dictionary that was made for one batch is reserved here.
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

// replacedBy returns the dictionary that a column has in the last batch, if the next batch has
// another dictionary. Otherwise it returns nil.
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

// inStoredOrder sorts the batches by the stored order of their rows. Rows of equal priority are
// returned in this order.
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

// dictionaryOf returns the dictionary of a column, or nil if the column has no dictionary.
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

// mergeDictionaries makes all batches of a column refer to one dictionary. If batches have
// different dictionaries, the rows to which they refer are copied into a new dictionary. Row 0,
// which is the same in all dictionaries, comes first.
func (c *collected) mergeDictionaries(ctx context.Context, held *room) error {
	for number, parts := range c.columns {
		if len(parts) == 0 || dictionaryOf(parts[0]) == nil || oneDictionary(parts) {
			continue
		}
		if err := held.grow(ctx, c.rows*int64(arrow.Int32SizeBytes)); err != nil {
			return err
		}
		own := c.joined.refersToItself(number) // then row 0 is an ordinary row
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
	if _, err := reserved(ctx, held, g, segments); err != nil {
		return nil, err
	}
	return g.Gather(segments[0].Values.DataType(), segments)
}

// reserved reserves the memory that segments take when they are gathered, and returns its bytes.
func reserved(ctx context.Context, held *room, g *batch.Gatherer, segments []batch.Segment) (int64, error) {
	bytes, err := g.Size(segments[0].Values.DataType(), segments)
	if err != nil {
		return 0, err
	}
	return bytes, held.grow(ctx, bytes)
}

// choose returns the next batch of the result, given its rows (of) and those of its columns that
// exist already (made). The memory of its other columns is reserved in held.
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

// choice is a choice of rows of a window, for one batch of the result.
type choice struct {
	order
	memory memory.Allocator
	choice *batch.Choice // nil until a column needs it
}

// column reserves and returns one column of the chosen rows, given the column's batches.
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

// ownValues returns a column without its dictionary: the references to the dictionary, or the
// column itself if it has no dictionary.
func ownValues(column arrow.Array) arrow.Array {
	if d, ok := column.(*array.Dictionary); ok {
		return d.Indices()
	}
	return column
}

// withDictionary returns a column of a type. If dictionary is nil, values are the column; otherwise
// values are the references to the dictionary. withDictionary takes ownership of values.
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

// neighbours drops each reference that equals the reference before it, as is usual for rows of one
// request. It returns the remaining references as rows, and the position of each original reference
// among them, counted from first, as places. A reference to row 0 keeps the place 0, unless zero is
// true: then row 0 is an ordinary row.
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
