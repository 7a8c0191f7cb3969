package resolve

import (
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// castTypes are the Iceberg types to which a column can be cast, by name.
func castTypes() map[string]arrow.DataType {
	return map[string]arrow.DataType{
		"int":         arrow.PrimitiveTypes.Int32,
		"long":        arrow.PrimitiveTypes.Int64,
		"float":       arrow.PrimitiveTypes.Float32,
		"double":      arrow.PrimitiveTypes.Float64,
		"date":        arrow.FixedWidthTypes.Date32,
		"timestamp":   &arrow.TimestampType{Unit: arrow.Microsecond},
		"timestamptz": &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
	}
}

// shape adds a column's shape to an output, and returns the faults.
func (o *Output) shape(c dataset.Column, at string) []fault.Field {
	if c.First == 0 && c.Last == 0 && c.As == "" {
		return nil
	}
	if c.As == dataset.Category {
		return []fault.Field{{Field: at, Message: "category belongs to a query, not to a dataset; write it in the query's columns"}}
	}
	var faults []fault.Field
	from := o.Type()
	shape := Shape{First: c.First, Last: c.Last}
	if c.First < 0 || c.Last < 0 || c.First > 0 && c.Last > 0 {
		faults = append(faults, fault.Field{Field: at, Message: "first and last must be positive numbers, and cannot be combined"})
	}
	if (c.First != 0 || c.Last != 0) && from.ID() != arrow.LIST {
		faults = append(faults, fault.Field{Field: at, Message: "column \"" + c.Column + "\" is " + from.String() + ": only lists have first and last elements"})
	}
	if c.As != "" {
		types := castTypes()
		to := types[c.As]
		shape.As = castTo(from, to)
		switch known := slices.Sorted(maps.Keys(types)); {
		case to == nil:
			faults = append(faults, fault.Field{
				Field: at, Nearest: fault.Nearest(c.As, known),
				Message: "\"" + c.As + "\" is not a type to cast to: use " + strings.Join(known, ", "),
			})
		case shape.As == nil:
			faults = append(faults, fault.Field{
				Field: at,
				Message: "column \"" + c.Column + "\" is " + from.String() + ", which cannot be cast to " + c.As +
					": numbers are cast to numbers, dates and timestamps to one another, and lists by their elements",
			})
		}
	}
	o.Shapes = append(slices.Clone(o.Shapes), shape)
	return faults
}

// category makes an output a category, or returns why it cannot be one.
func (o *Output) category(c dataset.Column, at string) []fault.Field {
	if c.First != 0 || c.Last != 0 || o.Type().ID() != arrow.STRING {
		return []fault.Field{{
			Field:   at,
			Message: "column \"" + c.Column + "\" is " + o.Type().String() + ": only texts have categories, and they have neither first nor last; omit as: category",
		}}
	}
	o.Category = true
	return nil
}

// castTo returns the type to which values are cast. For a list, this is a list of the given type.
// It returns nil if values of type from cannot be cast. Whether a single value can be cast is
// checked when the value is read.
func castTo(from, to arrow.DataType) arrow.DataType {
	if to == nil {
		return nil
	}
	if list, ok := from.(*arrow.ListType); ok {
		element := list.ElemField()
		if element.Type = castTo(element.Type, to); element.Type == nil {
			return nil
		}
		return arrow.ListOfField(element)
	}
	if arrow.TypeEqual(from, to) || number(from) && number(to) || temporal(from) && temporal(to) {
		return to
	}
	return nil
}

func number(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.BOOL, arrow.DECIMAL128:
		return true
	default:
		return false
	}
}

func temporal(t arrow.DataType) bool { return t.ID() == arrow.DATE32 || t.ID() == arrow.TIMESTAMP }
