package main

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// valueText renders a value that is not null as a text of its own: strings as
// they are, lists and structs as JSON, timestamps with a Z only where they
// have a zone, binary values in base64.
func valueText(column arrow.Array, i int) string {
	if quoted, nested := traits(column.DataType()); quoted && !nested {
		return scalarText(column, i)
	}
	return string(appendJSON(nil, column, i))
}

// appendJSON appends a value as JSON. Whole numbers keep all their digits;
// decimals, times and binary values are strings, and so are the floats that
// JSON does not have: "NaN", "Infinity", "-Infinity".
func appendJSON(b []byte, column arrow.Array, i int) []byte {
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
			b = appendJSON(b, a.ListValues(), int(k))
		}
		return append(b, ']')
	case *array.Dictionary:
		return appendJSON(b, a.Dictionary(), a.GetValueIndex(i))
	case *array.Float32:
		return appendFloat(b, float64(a.Value(i)), 32)
	case *array.Float64:
		return appendFloat(b, a.Value(i), 64)
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
		b = appendJSON(b, a.Field(k), i)
	}
	return append(b, '}')
}

// appendMap renders a map as a list of pairs: its keys need not be strings.
func appendMap(b []byte, a *array.Map, i int) []byte {
	from, to := a.ValueOffsets(i)
	b = append(b, '[')
	for k := from; k < to; k++ {
		if k > from {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = append(appendJSON(b, a.Keys(), int(k)), ',')
		b = append(appendJSON(b, a.Items(), int(k)), ']')
	}
	return append(b, ']')
}

// appendFloat writes the shortest digits that give the same float again.
func appendFloat(b []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `"NaN"`...)
	case math.IsInf(v, 0):
		return append(b, map[bool]string{true: `"Infinity"`, false: `"-Infinity"`}[v > 0]...)
	}
	const least, most = 1e-6, 1e21 // written without an exponent, as in JSON elsewhere
	form := byte('f')
	if a := math.Abs(v); a != 0 && (a < least || a >= most) {
		form = 'e'
	}
	return strconv.AppendFloat(b, v, form, -1, bits)
}

// appendString writes a JSON string without escaping for web pages.
func appendString(b []byte, text string) []byte {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		return b
	}
	return append(b, strings.TrimSuffix(out.String(), "\n")...)
}

// scalarText renders a value that JSON has as a string.
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
		return a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale) // ValueStr leaves zeros out
	}
	return column.ValueStr(i)
}

// traits says of a type whether JSON has its values as strings, and whether
// they hold other values.
func traits(t arrow.DataType) (quoted, nested bool) {
	switch t.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64,
		arrow.FLOAT32, arrow.FLOAT64:
		return false, false
	}
	if _, ok := t.(*arrow.DictionaryType); ok {
		return false, true
	}
	_, nested = t.(arrow.NestedType)
	return !nested, nested
}

// isCuttable says whether a part of a value's text can be taken for no other
// value: half a number is a wrong number.
func isCuttable(t arrow.DataType) bool {
	_, nested := traits(t)
	return nested || arrow.IsBaseBinary(t.ID()) || arrow.IsFixedSizeBinary(t.ID()) && !arrow.IsDecimal(t.ID())
}

// isNumber says whether values of a type are read better flush right.
func isNumber(t arrow.DataType) bool {
	return arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) || arrow.IsDecimal(t.ID())
}
