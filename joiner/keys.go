package joiner

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// layout is the memory layout of a key column's values.
type layout int

const (
	layoutInt32 layout = iota
	layoutInt64
	layoutFixed   // width bytes each
	layoutDecimal // 16-byte integers, little-endian
	layoutShort   // bytes with 32-bit offsets
	layoutLong    // bytes with 64-bit offsets
)

// withZone ends the families of timestamps with a time zone.
const withZone = " with zone"

// keyType is the type of a key column. Values of two columns can be equal if and
// only if the columns have the same family.
type keyType struct {
	layout layout
	width  int // bytes per value, of layoutFixed and layoutDecimal
	family string
}

// sized reports whether all values of the type have one length.
func (t keyType) sized() bool { return t.layout != layoutShort && t.layout != layoutLong }

// integral reports whether values are read as int64.
func (t keyType) integral() bool { return t.layout == layoutInt32 || t.layout == layoutInt64 }

// keyTypeOf returns how a type is read as a key, and whether it can be one.
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
			family += withZone
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
		return nil, nil, fault.New(fault.Internal, "a join has no key column")
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

// times holds the times of some rows, in the unit of their column. The times of
// null rows are undefined.
type times struct {
	values []int64
	null   []bool // nil if every row has a time
}

// timeType returns how a time column is read.
func timeType(f arrow.Field) (keyType, error) {
	t, ok := keyTypeOf(f.Type)
	if !ok || !t.integral() {
		return t, fault.New(fault.Invalid, "column %s of type %s cannot be a time", f.Name, f.Type).
			WithRemedy("name a column of dates, timestamps or integers")
	}
	return t, nil
}

// timeColumn reads the time column of batches. It is not safe for concurrent use.
type timeColumn struct {
	at      int
	field   arrow.Field
	encoder *encoder
	times   times // of the current batch
}

func newTimeColumn(schema *arrow.Schema, at int) (*timeColumn, error) {
	fields, err := fieldsAt(schema, []int{at})
	if err != nil {
		return nil, err
	}
	t, err := timeType(fields[0])
	if err != nil {
		return nil, err
	}
	return &timeColumn{at: at, field: fields[0], encoder: newEncoder([]keyType{t})}, nil
}

// load reads the times of an array. They are valid until the next call, and as
// long as the array.
func (c *timeColumn) load(a arrow.Array) {
	v := c.encoder.encode([]arrow.Array{a})
	c.times = times{values: v.ints, null: v.null}
}

// maxRendered bounds the bytes that an error shows of a string or binary key.
const maxRendered = 80

// render returns a row's key for errors: "request_id=42, day=2026-10-01".
func render(fields []arrow.Field, arrays []arrow.Array, row int) string {
	values := make([]string, len(arrays))
	for i, a := range arrays {
		values[i] = fields[i].Name + "=" + renderValue(a, row)
	}
	return strings.Join(values, ", ")
}

func renderValue(a arrow.Array, row int) string {
	if a.IsNull(row) {
		return "null"
	}
	var form string
	var value []byte
	switch a := a.(type) {
	case *array.String:
		form, value = "%q", []byte(a.Value(row))
	case *array.LargeString:
		form, value = "%q", []byte(a.Value(row))
	case *array.Binary:
		form, value = "0x%x", a.Value(row)
	case *array.LargeBinary:
		form, value = "0x%x", a.Value(row)
	case *array.FixedSizeBinary:
		if form, value = "0x%x", a.Value(row); len(value) == len(uuid.UUID{}) {
			return batch.Text(a, row)
		}
	default:
		return a.ValueStr(row)
	}
	if len(value) > maxRendered {
		return fmt.Sprintf(form, value[:maxRendered]) + fmt.Sprintf("… (%d bytes)", len(value))
	}
	return fmt.Sprintf(form, value)
}
