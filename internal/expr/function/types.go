package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// The types of most results.
func int64Type() arrow.DataType   { return arrow.PrimitiveTypes.Int64 }
func float64Type() arrow.DataType { return arrow.PrimitiveTypes.Float64 }
func boolType() arrow.DataType    { return arrow.FixedWidthTypes.Boolean }

func isInteger(dt arrow.DataType) bool { return dt.ID() == arrow.INT32 || dt.ID() == arrow.INT64 }

func isFloat(dt arrow.DataType) bool { return dt.ID() == arrow.FLOAT32 || dt.ID() == arrow.FLOAT64 }

func isNumber(dt arrow.DataType) bool { return isInteger(dt) || isFloat(dt) }

func isList(dt arrow.DataType) bool { return dt.ID() == arrow.LIST }

// commonType returns the type to which all types convert: NULL converts to every type, and numbers
// convert to wider numbers. An integer and a float32 convert to float64. It returns false if there is no such type.
func commonType(types ...arrow.DataType) (arrow.DataType, bool) {
	out := arrow.DataType(arrow.Null)
	for _, dt := range types {
		switch {
		case dt.ID() == arrow.NULL || arrow.TypeEqual(out, dt):
		case out.ID() == arrow.NULL:
			out = dt
		case isInteger(out) && isInteger(dt):
			out = int64Type()
		case isNumber(out) && isNumber(dt):
			out = float64Type()
		default:
			return nil, false
		}
	}
	return out, out.ID() != arrow.NULL
}

// isComparable reports whether values of a type are ordered, so that greatest and nullif accept it.
func isComparable(dt arrow.DataType) bool {
	switch dt.ID() {
	case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128, arrow.BOOL,
		arrow.STRING, arrow.BINARY, arrow.DATE32, arrow.TIMESTAMP, arrow.TIME64:
		return true
	default:
		return false
	}
}

// isSupported reports whether functions that return one of their arguments accept a type.
func isSupported(dt arrow.DataType) bool {
	if isList(dt) {
		return isComparable(dt.(arrow.ListLikeType).Elem()) //nolint:forcetypeassert // a list
	}
	return isComparable(dt)
}

// conversion converts the arguments of a call to one type. An argument's length stays the same.
type conversion struct{ to arrow.DataType }

// size returns the bytes that the conversion of arguments of given types allocates.
func (c conversion) size(args []Argument, rows int) int64 {
	sum := int64(0)
	for _, a := range args {
		if !arrow.TypeEqual(a.Type, c.to) {
			sum += fixedSize(rows, widestValue) + padded(1) // offsets of an empty list or text need no more
		}
	}
	return sum
}

// widestValue is the width of a decimal, in bytes.
const widestValue = 16

// run returns the arguments as the type. The caller releases them.
func (c conversion) run(args []arrow.Array, mem memory.Allocator) []arrow.Array {
	out := make([]arrow.Array, len(args))
	for i, a := range args {
		switch {
		case arrow.TypeEqual(a.DataType(), c.to):
			a.Retain()
			out[i] = a
		case a.DataType().ID() == arrow.NULL:
			out[i] = batch.Nulls(c.to, 1, mem)
		default:
			out[i] = c.widen(a, mem)
		}
	}
	return out
}

func releaseAll(args []arrow.Array) {
	for _, a := range args {
		if a != nil {
			a.Release()
		}
	}
}

func (c conversion) widen(a arrow.Array, mem memory.Allocator) arrow.Array {
	o := newOutput(a.Len(), mem)
	defer o.close()
	v := o.common([]arrow.Array{a})
	out := o.buffer(a.Len() * arrow.Int64SizeBytes)
	switch {
	case isInteger(c.to):
		widen(values[int64](out), vectorOf[int32](a, a.Len()))
	case a.DataType().ID() == arrow.INT32:
		widen(values[float64](out), vectorOf[int32](a, a.Len()))
	case a.DataType().ID() == arrow.INT64:
		widen(values[float64](out), vectorOf[int64](a, a.Len()))
	default:
		widen(values[float64](out), vectorOf[float32](a, a.Len()))
	}
	return o.array(c.to, v, out)
}

func widen[I int32 | int64 | float32, O int64 | float64](out []O, in vector[I]) {
	for i := range out {
		out[i] = O(in.at(i))
	}
}

// typesOf returns the types of arguments.
func typesOf(args []Argument) []arrow.DataType {
	out := make([]arrow.DataType, len(args))
	for i, a := range args {
		out[i] = a.Type
	}
	return out
}
