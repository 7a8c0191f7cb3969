package scenario

import (
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/scenario/cell"
	"github.com/penstock/penstock/loader/dataset"
)

// shapedType returns the type of a column after its cast. Lists are cast by their
// elements.
func shapedType(dt arrow.DataType, column dataset.Column) arrow.DataType {
	if column.As == "" {
		return dt
	}
	if list, ok := dt.(*arrow.ListType); ok {
		element := list.ElemField()
		element.Type = plainTypes[column.As]
		return arrow.ListOfField(element)
	}
	return plainTypes[column.As]
}

// shaped returns a value after a column's truncation and cast.
func shaped(dt arrow.DataType, v any, column dataset.Column) any {
	list, ok := v.([]any)
	if ok && column.First > 0 {
		list = list[:min(column.First, len(list))]
	}
	if ok && column.Last > 0 {
		list = list[max(0, len(list)-column.Last):]
	}
	if ok {
		v = list
	}
	if column.As == "" {
		return v
	}
	return castValue(dt, v, plainTypes[column.As])
}

// castValue casts a value to a type that can represent it; a fraction becomes the nearest
// float.
func castValue(from arrow.DataType, v any, to arrow.DataType) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = castValue(elementOf(from), element, to)
		}
		return list
	case bool:
		return castValue(plainTypes["int"], int64(cell.Rank(v)), to)
	case int64:
		n := new(big.Rat).Mul(new(big.Rat).SetInt64(v), cell.UnitOf(from))
		return ofNumber(n.Quo(n, cell.UnitOf(to)), to)
	case cell.Decimal:
		return ofNumber(v.Number(), to)
	default:
		return v
	}
}

// ofNumber returns a number as a value of a type.
func ofNumber(n *big.Rat, to arrow.DataType) any {
	switch to.ID() {
	case arrow.FLOAT64:
		f, _ := n.Float64()
		return f
	case arrow.FLOAT32:
		f, _ := n.Float32()
		return float64(f)
	default:
		return n.Num().Int64()
	}
}

// casts returns the types to which every generated value of a type can be cast. Casts to other
// types could fail, depending on which rows are read.
func casts(dt arrow.DataType) []string {
	switch dt := dt.(type) {
	case *arrow.Int32Type:
		return []string{"long", "double"}
	case *arrow.BooleanType:
		return []string{"int", "long", "float", "double"}
	case *arrow.Float32Type:
		return []string{"double"}
	case *arrow.Decimal128Type:
		if dt.Scale == 0 {
			return []string{"long"}
		}
		return []string{"double"}
	case *arrow.Date32Type:
		return []string{"timestamp", "timestamptz"}
	case *arrow.TimestampType:
		if dt.Unit == arrow.Microsecond {
			return []string{"timestamp", "timestamptz"}
		}
	}
	return nil
}
