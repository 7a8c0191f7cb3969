package joined

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/resolve"
)

// computedColumn returns the column of a computed output, given where the columns are that its
// expression names. Each shape of the output is made of the column before it.
func computedColumn(o resolve.Output, named []lane.Column) lane.Column {
	made := &lane.Made{Columns: named, Schema: resolve.Schema(o.Parts), Expression: expression{o}}
	before := o
	before.Shapes, before.Category = nil, false
	for _, s := range o.Shapes {
		made = &lane.Made{
			Columns: []lane.Column{{Made: made}}, Schema: resolve.Schema([]resolve.Output{before}), Expression: shaped{o.Name, s},
		}
		before.Shapes = append(before.Shapes, s)
	}
	return lane.Column{Made: made}
}

// expression computes a computed output.
type expression struct{ resolve.Output }

// Evaluate implements lane.Expression.
func (x expression) Evaluate(columns arrow.RecordBatch, mem memory.Allocator) (arrow.Array, error) {
	out, err := x.Computed.Bound.Evaluate(columns, mem)
	if of := x.Computed.Dataset; of != "" {
		return out, fault.Op(err, "compute column %q of dataset %s", x.Name, of)
	}
	return out, fault.Op(err, "compute column %q", x.Name)
}

// Size implements lane.Expression.
func (x expression) Size(columns arrow.RecordBatch) int64 { return x.Computed.Bound.Size(columns) }

// shaped is a shape of a computed column, as an expression over the column without the shape.
type shaped struct {
	name  string
	shape resolve.Shape
}

// Evaluate implements lane.Expression.
func (x shaped) Evaluate(columns arrow.RecordBatch, mem memory.Allocator) (arrow.Array, error) {
	out, err := shape(columns.Column(0), x.shape, mem)
	return out, fault.Op(err, "shape column %q", x.name)
}

// Size implements lane.Expression. Truncation copies at most the array, and a cast to a number
// makes at most eight bytes of each value.
func (x shaped) Size(columns arrow.RecordBatch) int64 {
	of := columns.Column(0)
	bytes := batch.ArraySize(of)
	if x.shape.As == nil {
		return bytes
	}
	values := int64(of.Len())
	if list, ok := of.(interface{ ListValues() arrow.Array }); ok {
		values += int64(list.ListValues().Len())
	}
	return 2*bytes + int64(arrow.Int64SizeBytes)*values
}
