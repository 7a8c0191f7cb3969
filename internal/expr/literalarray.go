package expr

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/expr/operator"
)

// literalArray returns a literal as an array of one value.
func literalArray(l literal) (arrow.Array, error) {
	dt, err := literalType(l)
	if err != nil {
		return nil, err
	}
	if l.list != nil {
		l.list.value.Retain()
		return l.list.value, nil
	}
	builder := array.NewBuilder(memory.DefaultAllocator, dt)
	defer builder.Release()
	if list, ok := builder.(*array.ListBuilder); ok {
		list.Append(true)
		for _, item := range l.items {
			appendLiteral(list.ValueBuilder(), item)
		}
	} else {
		appendLiteral(builder, l)
	}
	return builder.NewArray(), nil
}

// nulls returns an array of one null.
func nulls(dt arrow.DataType) arrow.Array {
	builder := array.NewBuilder(memory.DefaultAllocator, dt)
	defer builder.Release()
	builder.AppendNull()
	return builder.NewArray()
}

// literalType returns the type of a literal.
func literalType(l literal) (arrow.DataType, error) {
	switch l.kind {
	case numberLiteral:
		return numberType(l)
	case textLiteral:
		return arrow.BinaryTypes.String, nil
	case binaryLiteral:
		return arrow.BinaryTypes.Binary, nil
	case booleanLiteral:
		return arrow.FixedWidthTypes.Boolean, nil
	case dateLiteral:
		return arrow.FixedWidthTypes.Date32, nil
	case timeLiteral:
		return arrow.FixedWidthTypes.Time64us, wholeMicros(l)
	case timestampLiteral:
		if err := wholeMicros(l); err != nil {
			return nil, err
		}
		if l.instant.zoned {
			return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, nil
		}
		return &arrow.TimestampType{Unit: arrow.Microsecond}, nil
	case nullLiteral:
		return arrow.Null, nil
	case fittedLiteral:
		if l.list == nil {
			return nil, fmt.Errorf("the dataset has no fitted list with the values %s: its files may have changed since the text was written", l)
		}
		return l.list.value.DataType(), nil
	case listLiteral:
	}
	return listType(l.items)
}

func numberType(l literal) (arrow.DataType, error) {
	units, whole := l.number.floor(0)
	switch {
	case math.IsInf(l.number.float(64), 0): // an error in Spark
		return nil, fmt.Errorf("the number %s is not within double", shorten(l.number.text()))
	case l.double || !whole:
		return arrow.PrimitiveTypes.Float64, nil
	case units.IsInt64() && int64(int32(units.Int64())) == units.Int64():
		return arrow.PrimitiveTypes.Int32, nil
	case units.IsInt64():
		return arrow.PrimitiveTypes.Int64, nil
	default:
		return nil, fmt.Errorf("the number %s is not within long: write %s for a double", shorten(l.number.text()), shorten(l.number.scientific()))
	}
}

// listType returns the type of a list of literals, in which integers are long.
func listType(items []literal) (arrow.DataType, error) {
	var common arrow.DataType
	for _, item := range items {
		dt, err := literalType(item)
		switch {
		case err != nil:
			return nil, err
		case common == nil:
			common = dt
		}
		joined := operator.Common(common, dt)
		if joined == nil {
			return nil, fmt.Errorf("a list has values of one type, and not %s and %s", operator.Name(common), operator.Name(dt))
		}
		common = joined
	}
	if common.ID() == arrow.INT32 {
		common = arrow.PrimitiveTypes.Int64
	}
	return arrow.ListOf(common), nil
}

// wholeMicros refuses a time that is not a whole number of microseconds.
func wholeMicros(l literal) error {
	if _, whole := l.instant.units(int64(arrow.Microsecond.Multiplier())).floor(0); !whole {
		return errors.New("a time in an expression has at most 6 digits after the second")
	}
	return nil
}

// appendLiteral appends a literal as a value of the builder's type, which listType or literalType
// returned.
func appendLiteral(to array.Builder, l literal) {
	units := func(n number) int64 { v, _ := n.floor(0); return v.Int64() }
	switch to := to.(type) {
	case *array.Int32Builder:
		to.Append(int32(units(l.number)))
	case *array.Int64Builder:
		to.Append(units(l.number))
	case *array.Float64Builder:
		to.Append(l.number.float(64))
	case *array.StringBuilder:
		to.Append(l.text)
	case *array.BinaryBuilder:
		to.AppendString(l.text)
	case *array.BooleanBuilder:
		to.Append(l.boolean)
	case *array.Date32Builder:
		to.Append(arrow.Date32(l.instant.days))
	case *array.Time64Builder:
		to.Append(arrow.Time64(units(l.instant.units(int64(arrow.Microsecond.Multiplier())))))
	case *array.TimestampBuilder:
		to.Append(arrow.Timestamp(units(l.instant.units(int64(arrow.Microsecond.Multiplier())))))
	default:
		to.AppendNull()
	}
}
