package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// category is a column of the result that has codes and a dictionary. The dictionary has the
// distinct values of the column's rows, in the order of their first occurrence. It does not depend
// on the forms and the dictionaries of the ranges' batches.
type category struct {
	gathered
	// working is the memory that the method column uses besides its result, until it returns.
	// unused is the part of the size that column did not use, since the size is an upper bound.
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

// working returns the maximum memory that making the columns of a batch uses besides their size.
// The columns are made one after the other.
func working(of []source) int64 {
	most := int64(0)
	for _, one := range of {
		if c, ok := one.(*category); ok {
			most = max(most, c.working)
		}
	}
	return most
}

// unused returns by how many bytes the columns of a batch are smaller than the sizes that were
// reserved for them.
func unused(of []source) int64 {
	sum := int64(0)
	for _, one := range of {
		if c, ok := one.(*category); ok {
			sum += c.unused
		}
	}
	return sum
}

// text returns the view's rows of a column of texts or binary values. The result is in the form of
// the view's field, codes or values, since the batch of a group may have the column in the other
// form.
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

// gather copies a column into new memory, which the view's reservation covers.
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
