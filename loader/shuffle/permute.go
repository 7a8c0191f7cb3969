package shuffle

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
)

// order is the final order of the remaining rows of a window: the batch of each, and its number there.
type order struct {
	batches, numbers []int32
}

// first returns the first n rows, and from the others.
func (o order) first(n int) order { return order{o.batches[:n], o.numbers[:n]} }
func (o order) from(n int) order  { return order{o.batches[n:], o.numbers[n:]} }

// flat returns the numbers of the rows among those of all batches together, given a column of the batches.
func (o order) flat(batches []arrow.Array) []int32 {
	first := make([]int32, len(batches))
	for i := range first[1:] {
		first[i+1] = first[i] + int32(batches[i].Len())
	}
	rows := make([]int32, len(o.numbers))
	for i, number := range o.numbers {
		rows[i] = first[o.batches[i]] + number
	}
	return rows
}

// minOutputRows is the least number of rows of a permuted array that is followed by others: one costs some hundred bytes
// besides its values.
const minOutputRows = 4096

// permute puts the columns with values of a fixed width, and those that refer to dictionaries, into the final order,
// cut into one or more batches of the result, and releases what was collected of them. It goes column by column: the values
// of one column of a window fit in the processor's cache, so that only one copy in sequence reads them from memory.
// Choosing them batch by batch, as for other columns, takes four times as long. Lists and strings may be most of a
// window, and are not copied as a whole.
func (c *collected) permute(ctx context.Context, held *room, to order, batchRows int) error {
	c.outputs = make([][]arrow.Array, len(c.columns))
	bytes := int64(len(to.numbers) * arrow.Int32SizeBytes)
	if err := held.grow(ctx, bytes); err != nil {
		return err
	}
	defer held.Shrink(bytes)
	outputRows := (minOutputRows + batchRows - 1) / batchRows * batchRows
	c.copies = outputRows > 2*batchRows
	p := &permuting{window: c, held: held, outputRows: outputRows, gatherer: batch.NewGatherer(c.memory)}
	for number, parts := range c.columns {
		if len(parts) == 0 || !permutable(parts[0].DataType()) {
			continue
		}
		if p.rows == nil {
			p.rows = to.flat(parts)
		}
		if err := p.column(ctx, number); err != nil {
			return err
		}
	}
	return nil
}

// permutable reports whether columns of a type are permuted as a whole.
func permutable(dt arrow.DataType) bool {
	switch dt.(type) {
	case *arrow.DictionaryType, *arrow.BooleanType:
		return true
	case *arrow.StructType, *arrow.FixedSizeListType:
		return false
	}
	_, fixed := dt.(arrow.FixedWidthDataType)
	return fixed
}

// permuting permutes the columns of a window.
type permuting struct {
	window     *collected
	held       *room
	rows       []int32 // in their final order
	outputRows int     // of an array, a multiple of the rows of a batch
	gatherer   *batch.Gatherer
}

// column permutes one column.
func (p *permuting) column(ctx context.Context, number int) error {
	parts := p.window.columns[number]
	segments := make([]batch.Segment, len(parts))
	for i, part := range parts {
		segments[i] = batch.Segment{Values: ownValues(part), Rows: part.Len()}
	}
	dt, dictionary := parts[0].DataType(), dictionaryOf(parts[0])
	if dictionary != nil {
		dictionary.Retain() // longer than the parts
		defer dictionary.Release()
	}
	defer p.gatherer.Release() // of what it made; the rows stay checked
	values, bytes, err := gather(ctx, p.held, p.gatherer, segments)
	if err != nil {
		return err
	}
	defer p.held.Shrink(bytes)
	defer values.Release()
	p.gatherer.Release()
	p.held.Shrink(p.window.kept.Remove(parts))
	p.window.columns[number] = nil
	for _, part := range parts {
		part.Release()
	}
	for from := 0; from < len(p.rows); from += p.outputRows {
		rows := p.rows[from:min(from+p.outputRows, len(p.rows))]
		output, reserved, err := gather(ctx, p.held, p.gatherer, []batch.Segment{{Values: values, Indices: rows}})
		if err != nil {
			return err
		}
		p.held.Shrink(reserved - p.window.kept.Add([]arrow.Array{output}))
		p.window.outputs[number] = append(p.window.outputs[number], withDictionary(output, dt, dictionary))
	}
	return nil
}

// nextOutputs returns the next rows of the outputs, by column; nil for columns without outputs. The caller passes them to
// passed afterwards.
func (c *collected) nextOutputs(rows int) []arrow.Array {
	next := make([]arrow.Array, len(c.columns))
	from, to := c.taken, c.taken+rows
	c.taken = to
	for number, outputs := range c.outputs {
		if len(outputs) == 0 {
			continue
		}
		first, ends := outputs[0], to == outputs[0].Len()
		if ends {
			c.outputs[number], c.taken = outputs[1:], 0 // all columns have arrays of the same lengths
		}
		if ends && from == 0 {
			next[number] = first
			continue
		}
		next[number] = array.NewSlice(first, int64(from), int64(to))
		c.kept.Add(next[number : number+1]) // in memory that is reserved already
		if ends {
			c.kept.Remove(outputs[:1])
			first.Release()
		}
	}
	return next
}

// copied reserves and returns a copy of a part of an output.
func (c *collected) copied(ctx context.Context, held *room, part arrow.Array) (arrow.Array, error) {
	one, err := c.gather(ctx, held, []batch.Segment{{Values: ownValues(part), Rows: part.Len()}})
	if err != nil {
		return nil, err
	}
	return withDictionary(one, part.DataType(), dictionaryOf(part)), nil
}

// passed releases outputs, whose consumer has reserved them.
func (c *collected) passed(held *room, outputs []arrow.Array) {
	outputs = slices.DeleteFunc(outputs, func(a arrow.Array) bool { return a == nil })
	held.Shrink(c.kept.Remove(outputs))
	for _, output := range outputs {
		output.Release()
	}
}
