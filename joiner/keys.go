package joiner

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
)

// layout is how the values of a key column lie in memory.
type layout int

const (
	layoutInt32 layout = iota
	layoutInt64
	layoutFixed   // width bytes each
	layoutDecimal // numbers of 16 bytes, the lowest first
	layoutShort   // bytes behind 32-bit offsets
	layoutLong    // bytes behind 64-bit offsets
)

// keyType is what a key column holds. Values of two columns can be equal
// exactly when their families are.
type keyType struct {
	layout layout
	width  int // bytes per value, of layoutFixed and layoutDecimal
	family string
}

// sized says whether all values of the type have one length.
func (t keyType) sized() bool { return t.layout != layoutShort && t.layout != layoutLong }

// integral says whether values are read as an int64.
func (t keyType) integral() bool { return t.layout == layoutInt32 || t.layout == layoutInt64 }

// keyTypeOf returns how to read a type as a key, and whether it can be one.
func keyTypeOf(dt arrow.DataType) (keyType, bool) {
	switch dt := dt.(type) {
	case *arrow.Int32Type:
		return keyType{layout: layoutInt32, family: "integer"}, true
	case *arrow.Int64Type:
		return keyType{layout: layoutInt64, family: "integer"}, true
	case *arrow.Date32Type:
		return keyType{layout: layoutInt32, family: "date"}, true
	case *arrow.Time64Type:
		return keyType{layout: layoutInt64, family: fmt.Sprintf("time[%s]", dt.Unit)}, true
	case *arrow.TimestampType:
		family := fmt.Sprintf("timestamp[%s]", dt.Unit)
		if dt.TimeZone != "" {
			family += " with zone"
		}
		return keyType{layout: layoutInt64, family: family}, true
	case *arrow.Decimal128Type:
		return keyType{layout: layoutDecimal, width: 16, family: fmt.Sprintf("decimal of scale %d", dt.Scale)}, true
	case *arrow.FixedSizeBinaryType:
		return keyType{layout: layoutFixed, width: dt.ByteWidth, family: fmt.Sprintf("binary of %d bytes", dt.ByteWidth)}, true
	case *arrow.StringType:
		return keyType{layout: layoutShort, family: "string"}, true
	case *arrow.LargeStringType:
		return keyType{layout: layoutLong, family: "string"}, true
	case *arrow.BinaryType:
		return keyType{layout: layoutShort, family: "binary"}, true
	case *arrow.LargeBinaryType:
		return keyType{layout: layoutLong, family: "binary"}, true
	default:
		return keyType{}, false
	}
}

// keyFields returns the key columns of a schema and how they are read.
func keyFields(schema *arrow.Schema, at []int) ([]arrow.Field, []keyType, error) {
	if len(at) == 0 {
		return nil, nil, fault.New(fault.Internal, "a join without a key column")
	}
	fields, err := fieldsAt(schema, at)
	if err != nil {
		return nil, nil, err
	}
	types := make([]keyType, len(at))
	for i, f := range fields {
		t, ok := keyTypeOf(f.Type)
		if !ok {
			return nil, nil, fault.New(fault.Invalid, "column %s of type %s cannot be a key", f.Name, f.Type).
				WithRemedy("join on columns of integers, dates, times, timestamps, decimals, strings or binary values")
		}
		types[i] = t
	}
	return fields, types, nil
}
