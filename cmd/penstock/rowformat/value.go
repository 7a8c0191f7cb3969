package rowformat

import (
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/jsontext"
)

// valueText returns the text of a value that is not null. A string is its own text, and lists and
// structs are JSON. The text of a timestamp ends with Z only if its type has a time zone. A UUID
// has its usual 36 characters, and other binary values are base64.
func valueText(column arrow.Array, i int) string {
	if quoted, nested := traits(column.DataType()); quoted && !nested {
		return scalarText(column, i)
	}
	return string(AppendJSON(nil, column, i))
}

// AppendJSON appends a value as JSON. Whole numbers keep all of their digits. Decimals, times and
// binary values are JSON strings, and so are the floats that JSON does not have ("NaN", "Infinity",
// "-Infinity").
func AppendJSON(b []byte, column arrow.Array, i int) []byte {
	if column.IsNull(i) {
		return append(b, "null"...)
	}
	switch a := column.(type) {
	case *array.Struct:
		return appendStruct(b, a, i)
	case *array.Map:
		return appendMap(b, a, i)
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		b = append(b, '[')
		for k := from; k < to; k++ {
			if k > from {
				b = append(b, ',')
			}
			b = AppendJSON(b, a.ListValues(), int(k))
		}
		return append(b, ']')
	case *array.Dictionary:
		return AppendJSON(b, a.Dictionary(), a.GetValueIndex(i))
	case *array.Float32:
		return appendFloat(b, float64(a.Value(i)), 32)
	case *array.Float64:
		return appendFloat(b, a.Value(i), 64)
	case array.ExtensionArray:
		if !isUUID(a.DataType()) {
			return AppendJSON(b, a.Storage(), i)
		}
	}
	if quoted, _ := traits(column.DataType()); quoted {
		return appendString(b, scalarText(column, i))
	}
	return append(b, column.ValueStr(i)...)
}

func appendStruct(b []byte, a *array.Struct, i int) []byte {
	b = append(b, '{')
	for k, f := range a.DataType().(*arrow.StructType).Fields() {
		if k > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, f.Name), ':')
		b = AppendJSON(b, a.Field(k), i)
	}
	return append(b, '}')
}

// appendMap appends a map as a list of pairs, because the keys of a map need not be strings.
func appendMap(b []byte, a *array.Map, i int) []byte {
	from, to := a.ValueOffsets(i)
	b = append(b, '[')
	for k := from; k < to; k++ {
		if k > from {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = append(AppendJSON(b, a.Keys(), int(k)), ',')
		b = append(AppendJSON(b, a.Items(), int(k)), ']')
	}
	return append(b, ']')
}

// appendFloat appends the shortest digits that parse to the same float.
func appendFloat(b []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `"NaN"`...)
	case math.IsInf(v, 0):
		return append(b, map[bool]string{true: `"Infinity"`, false: `"-Infinity"`}[v > 0]...)
	}
	const minPlain, maxPlain = 1e-6, 1e21 // floats between these bounds have no exponent, as in JavaScript
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < minPlain || a >= maxPlain) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, bits)
}

// appendString appends a JSON string, without escaping <, > and &.
func appendString(b []byte, text string) []byte {
	return append(b, jsontext.Of(text)...)
}

// scalarText returns the text of a value whose JSON is a string.
func scalarText(column arrow.Array, i int) string {
	switch a := column.(type) {
	case *array.Timestamp:
		t := a.DataType().(*arrow.TimestampType)
		layout := "2006-01-02T15:04:05.999999999"
		if t.TimeZone != "" {
			layout += "Z07:00"
		}
		return a.Value(i).ToTime(t.Unit).Format(layout)
	case *array.Decimal128:
		return a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale) // ValueStr drops trailing zeros
	}
	return column.ValueStr(i)
}

// traits reports two facts about the values of a type: whether their JSON is a string, and whether
// they contain other values.
func traits(t arrow.DataType) (quoted, nested bool) {
	switch t.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64,
		arrow.FLOAT32, arrow.FLOAT64:
		return false, false
	}
	switch t := t.(type) {
	case *arrow.DictionaryType:
		return false, true
	case arrow.ExtensionType:
		if !isUUID(t) {
			return traits(t.StorageType())
		}
		return true, false
	}
	_, nested = t.(arrow.NestedType)
	return !nested, nested
}

// isUUID reports whether a type is that of UUIDs, whose values have a text form.
func isUUID(t arrow.DataType) bool {
	extension, ok := t.(arrow.ExtensionType)
	return ok && extension.ExtensionName() == "arrow.uuid"
}

// isCuttable reports whether a table may cut values of a type. Numbers, times and UUIDs are never cut,
// because a part of one would be wrong.
func isCuttable(t arrow.DataType) bool {
	_, nested := traits(t)
	return nested || arrow.IsBaseBinary(t.ID()) || arrow.IsFixedSizeBinary(t.ID()) && !arrow.IsDecimal(t.ID())
}

// isNumber reports whether values of a type are set flush right.
func isNumber(t arrow.DataType) bool {
	return arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) || arrow.IsDecimal(t.ID())
}
