package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// category is a column of the result that has codes of a dictionary: the distinct values of its rows, in
// the order of their first row, whatever the forms and dictionaries of the ranges' batches.
type category struct {
	gathered
	// working is memory that column takes besides the result until it returns. unused is the part of the
	// size, an upper bound, that column did not take.
	working, unused int64
}

func (c *category) size(g *batch.Gatherer) (bytes int64, err error) {
	bytes, c.working, err = g.SizeOfCodes(batch.ValueType(c.field.Type), c.segments)
	c.unused = bytes
	return bytes, fault.Op(err, "gather column %q", c.field.Name)
}

func (c *category) column(g *batch.Gatherer) (arrow.Array, error) {
	values, err := g.GatherCodes(batch.ValueType(c.field.Type), c.segments)
	if err != nil {
		return nil, fault.Op(err, "gather column %q", c.field.Name)
	}
	c.unused -= g.AllocatedCodes(values)
	return required(c.field, values)
}

// working returns the memory that the columns of a batch take besides their size while they are made, one
// after the other.
func working(of []source) int64 {
	most := int64(0)
	for _, one := range of {
		if c, ok := one.(*category); ok {
			most = max(most, c.working)
		}
	}
	return most
}

// unused returns the bytes that the columns of a batch have not taken of their size.
func unused(of []source) int64 {
	sum := int64(0)
	for _, one := range of {
		if c, ok := one.(*category); ok {
			sum += c.unused
		}
	}
	return sum
}

// text returns the view's rows of a column of texts, in the form of its field: the batch of a group may
// have another one than a member's.
func (v view) text(ctx context.Context, c arrow.Array, field arrow.Field) (arrow.Array, error) {
	if !arrow.TypeEqual(batch.ValueType(c.DataType()), batch.ValueType(field.Type)) {
		return nil, fault.New(fault.Internal, "it is %s instead of %s", c.DataType(), field.Type)
	}
	codes := field.Type.ID() == arrow.DICTIONARY
	if codes == batch.IsCoded(c) && (!codes || v.From == 0 && v.To == int64(c.Len())) {
		return array.NewSlice(c, v.From, v.To), nil
	}
	made := gathered{field: field, segments: []batch.Segment{{Values: c, From: int(v.From), Rows: int(v.To - v.From)}}}
	if codes {
		return v.gather(ctx, &category{gathered: made})
	}
	return v.gather(ctx, &made)
}

// gather makes a column in memory of the view's own.
func (v view) gather(ctx context.Context, of source) (arrow.Array, error) {
	g := batch.NewGatherer(v.Memory)
	defer g.Release()
	bytes, err := of.size(g)
	if err != nil {
		return nil, err
	}
	more := working([]source{of})
	if err := v.own.GrowWait(ctx, bytes+more); err != nil {
		return nil, err
	}
	column, err := of.column(g)
	v.own.Shrink(more + unused([]source{of}))
	return column, err
}
