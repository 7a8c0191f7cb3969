package operator

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// maxPrecision is the maximum number of digits of a decimal.
const maxPrecision = 38

// ParseType returns the type of a name, as in CAST(x AS name). arguments are the numbers in
// parentheses after the name, which only decimal has: its precision and scale.
func ParseType(name string, arguments ...int) (arrow.DataType, error) {
	name = strings.ToLower(name)
	if name == "decimal" || name == "numeric" {
		return parseDecimal(arguments)
	}
	if len(arguments) > 0 {
		return nil, fmt.Errorf("type %s takes no numbers in parentheses", name)
	}
	switch name {
	case "int", "integer", "int32":
		return arrow.PrimitiveTypes.Int32, nil
	case "long", "bigint", "int64":
		return arrow.PrimitiveTypes.Int64, nil
	case "float", "real", "float32":
		return arrow.PrimitiveTypes.Float32, nil
	case "double", "float64":
		return arrow.PrimitiveTypes.Float64, nil
	case "boolean", "bool":
		return arrow.FixedWidthTypes.Boolean, nil
	case "string", "varchar", "text":
		return arrow.BinaryTypes.String, nil
	case "date":
		return arrow.FixedWidthTypes.Date32, nil
	case "timestamp":
		return &arrow.TimestampType{Unit: arrow.Microsecond}, nil
	case "timestamptz":
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, nil
	default:
		return nil, fmt.Errorf("there is no type %s to cast to: the types are int, long, float, double, boolean, string, date, timestamp, timestamptz and decimal(p, s)", name)
	}
}

func parseDecimal(arguments []int) (arrow.DataType, error) {
	if len(arguments) != 2 {
		return nil, errors.New("a decimal has a precision and a scale, as in decimal(10, 2)")
	}
	precision, scale := arguments[0], arguments[1]
	if precision < 1 || precision > maxPrecision || scale < 0 || scale > precision {
		return nil, fmt.Errorf("decimal(%d, %d) is not possible: the precision is 1 to %d, and the scale at most the precision", precision, scale, maxPrecision)
	}
	return &arrow.Decimal128Type{Precision: int32(precision), Scale: int32(scale)}, nil
}

// Name returns the name of a type in expressions and messages. For types that ParseType returns, it
// is a text that names the type after AS.
func Name(dt arrow.DataType) string {
	switch t := dt.(type) {
	case *arrow.Int32Type:
		return "int"
	case *arrow.Int64Type:
		return "long"
	case *arrow.Float32Type:
		return "float"
	case *arrow.Float64Type:
		return "double"
	case *arrow.BooleanType:
		return "boolean"
	case *arrow.StringType, *arrow.LargeStringType:
		return "string"
	case *arrow.Date32Type:
		return "date"
	case *arrow.TimestampType:
		switch {
		case t.Unit == arrow.Microsecond && t.TimeZone == "":
			return "timestamp"
		case t.Unit == arrow.Microsecond:
			return "timestamptz"
		}
	case *arrow.Decimal128Type:
		return "decimal(" + strconv.Itoa(int(t.Precision)) + ", " + strconv.Itoa(int(t.Scale)) + ")"
	case *arrow.ListType:
		return "list of " + Name(t.Elem())
	case *arrow.NullType:
		return "NULL"
	}
	return dt.String()
}
