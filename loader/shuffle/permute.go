package shuffle

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
)

// order is the final order of the remaining rows of a window. For each row, it has the row's batch
// and the row's number in that batch.
type order struct {
	batches, numbers []int32
}

// first returns the first n rows, and from returns the other rows.
func (o order) first(n int) order { return order{o.batches[:n], o.numbers[:n]} }
func (o order) from(n int) order  { return order{o.batches[n:], o.numbers[n:]} }

// flat returns the number of each row, counted over all batches. It gets the batches' numbers of
// rows from one of their columns.
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

// minOutputRows is the minimum number of rows of a permuted array, except for the last array of a
// column. Each array costs some hundred bytes in addition to its values.
const minOutputRows = 4096

// permute puts two kinds of columns into the final order: columns with values of a fixed width, and
// columns that refer to dictionaries. The results are arrays for one or more batches of the result;
// the collected values of these columns are released. permute handles one column after the other,
// since the values of one column of a window fit in the processor's cache. So they are read from
// memory only once, in sequence. Choosing the values batch by batch, as for other columns, takes
// four times as long. Lists and strings are not permuted as a whole, since they may take most of a
// window's memory.
func (c *collected) permute(ctx context.Context, held *room, to order, batchRows int) error {
	c.outputs = make([][]arrow.Array, len(c.columns))
	bytes := int64(len(to.numbers) * arrow.Int32SizeBytes)
	if err := held.grow(ctx, bytes); err != nil {
		return err
	}
	defer held.Shrink(bytes)
	outputRows := (minOutputRows + batchRows - 1) / batchRows * batchRows
	c.copies = outputRows > 2*batchRows
	p := &permuting{window: c, held: held, outputRows: outputRows, gatherer: batch.NewGatherer(c.memory), cores: c.cores}
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
	rows       []int32 // the numbers of the rows, in the final order
	outputRows int     // the rows of each array; a multiple of the rows of a batch
	gatherer   *batch.Gatherer
	cores      *cores.Cores
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
		dictionary.Retain() // the dictionary is needed longer than the parts
		defer dictionary.Release()
	}
	defer p.gatherer.Release() // releases what the gatherer has made; the check of the rows is kept
	values, bytes, err := p.gather(ctx, segments)
	if err != nil {
		return err
	}
	defer p.held.Shrink(bytes)
	defer values.Release()
	if err := p.gatherer.Complete(p.cores); err != nil {
		return err
	}
	p.gatherer.Release()
	p.held.Shrink(p.window.kept.Remove(parts))
	p.window.columns[number] = nil
	for _, part := range parts {
		part.Release()
	}
	for from := 0; from < len(p.rows); from += p.outputRows {
		rows := p.rows[from:min(from+p.outputRows, len(p.rows))]
		output, reserved, err := p.gather(ctx, []batch.Segment{{Values: values, Indices: rows}})
		if err != nil {
			return err
		}
		p.held.Shrink(reserved - p.window.kept.Add([]arrow.Array{output}))
		p.window.outputs[number] = append(p.window.outputs[number], withDictionary(output, dt, dictionary))
	}
	return p.gatherer.Complete(p.cores)
}

// gather reserves and gathers segments, and returns the bytes that it reserved. The values are
// copied when the gatherer is completed.
func (p *permuting) gather(ctx context.Context, segments []batch.Segment) (arrow.Array, int64, error) {
	bytes, err := reserved(ctx, p.held, p.gatherer, segments)
	if err != nil {
		return nil, 0, err
	}
	p.gatherer.Defer()
	values, err := p.gatherer.Gather(segments[0].Values.DataType(), segments)
	return values, bytes, err
}

// nextOutputs returns the next rows of the outputs, for each column; nil for columns without
// outputs. Afterwards, the caller calls passed with them.
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
		c.kept.Add(next[number : number+1]) // the memory is reserved already
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

// passed releases outputs after their consumer has reserved their memory.
func (c *collected) passed(held *room, outputs []arrow.Array) {
	outputs = slices.DeleteFunc(outputs, func(a arrow.Array) bool { return a == nil })
	held.Shrink(c.kept.Remove(outputs))
	for _, output := range outputs {
		output.Release()
	}
}
