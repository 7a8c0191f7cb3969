package batch

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
)

// AppendValue appends a self-delimiting encoding of a value: values of one type have the
// same bytes exactly if they are equal. Integers of both widths have one encoding. Floats
// compare by their bits, except that all NaN are equal. The row must not be null. A nested
// type is Internal.
func AppendValue(dst []byte, column arrow.Array, row int) ([]byte, error) {
	if number, ok := IntegerAt(column, row); ok {
		return binary.BigEndian.AppendUint64(dst, uint64(number)), nil
	}
	switch a := column.(type) {
	case *array.Boolean:
		if a.Value(row) {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	case *array.Float32:
		return binary.BigEndian.AppendUint64(dst, floatBits(float64(a.Value(row)))), nil
	case *array.Float64:
		return binary.BigEndian.AppendUint64(dst, floatBits(a.Value(row))), nil
	case *array.Decimal128:
		v := a.Value(row)
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(v.HighBits())), v.LowBits()), nil
	case array.StringLike:
		text := a.Value(row)
		return append(binary.AppendUvarint(dst, uint64(len(text))), text...), nil
	case interface{ Value(row int) []byte }: // binary, fixed-size or not
		value := a.Value(row)
		return append(binary.AppendUvarint(dst, uint64(len(value))), value...), nil
	default:
		return dst, fault.New(fault.Internal, "values of type %s cannot be encoded as a key", column.DataType())
	}
}

// IntegerAt returns the value of an integer, date, time or timestamp column; false for
// columns of other types. The row must not be null.
func IntegerAt(column arrow.Array, row int) (int64, bool) {
	switch a := column.(type) {
	case *array.Int32:
		return int64(a.Value(row)), true
	case *array.Int64:
		return a.Value(row), true
	case *array.Date32:
		return int64(a.Value(row)), true
	case *array.Time64:
		return int64(a.Value(row)), true
	case *array.Timestamp:
		return int64(a.Value(row)), true
	default:
		return 0, false
	}
}

func floatBits(v float64) uint64 {
	if math.IsNaN(v) {
		v = math.NaN()
	}
	return math.Float64bits(v)
}
