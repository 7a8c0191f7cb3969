package scenario

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
)

// Fields parses a header such as "request_id:long! label:float tags:list<long>
// user:struct<id:uuid,seen:date> votes:map<string,int!>": names and Iceberg
// types, "!" for required, field ids from 1.
func Fields(header string) ([]catalog.Field, error) {
	var fields []catalog.Field
	for i, word := range strings.Fields(header) {
		f, err := fieldOf(word)
		if err != nil {
			return nil, err
		}
		fields = append(fields, catalog.Field{ID: i + 1, Name: f.Name, Type: f.Type, Required: !f.Nullable})
	}
	return fields, nil
}

// fieldOf parses "name:type" or "name:type!".
func fieldOf(text string) (arrow.Field, error) {
	name, kind, _ := strings.Cut(text, ":")
	return typed(name, kind)
}

// typed returns a field of a type, which is required if the type ends with "!".
func typed(name, kind string) (arrow.Field, error) {
	kind, required := strings.CutSuffix(kind, "!")
	dt, err := typeOf(kind)
	return arrow.Field{Name: name, Type: dt, Nullable: !required}, err
}

// plainTypes are the types whose names take no arguments.
//
//nolint:gochecknoglobals // a constant table
var plainTypes = map[string]arrow.DataType{
	"int":            arrow.PrimitiveTypes.Int32,
	"long":           arrow.PrimitiveTypes.Int64,
	"float":          arrow.PrimitiveTypes.Float32,
	"double":         arrow.PrimitiveTypes.Float64,
	"string":         arrow.BinaryTypes.String,
	"binary":         arrow.BinaryTypes.Binary,
	"uuid":           &arrow.FixedSizeBinaryType{ByteWidth: uuidBytes},
	"boolean":        arrow.FixedWidthTypes.Boolean,
	"date":           arrow.FixedWidthTypes.Date32,
	"time":           arrow.FixedWidthTypes.Time64us,
	"timestamp":      &arrow.TimestampType{Unit: arrow.Microsecond},
	"timestamptz":    &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
	"timestamp_ns":   &arrow.TimestampType{Unit: arrow.Nanosecond},
	"timestamptz_ns": &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"},
}

// uuidBytes is the size of a UUID, for which Arrow has no type.
const uuidBytes = 16

func typeOf(kind string) (arrow.DataType, error) {
	if dt, ok := plainTypes[kind]; ok {
		return dt, nil
	}
	if outer, inner, ok := strings.Cut(strings.TrimSuffix(kind, ">"), "<"); ok {
		return nestedType(outer, arguments(inner))
	}
	var precision, scale int32
	var width int
	if n, _ := fmt.Sscanf(kind, "decimal(%d,%d)", &precision, &scale); n == 2 {
		return &arrow.Decimal128Type{Precision: precision, Scale: scale}, nil
	}
	if n, _ := fmt.Sscanf(kind, "fixed(%d)", &width); n == 1 {
		return &arrow.FixedSizeBinaryType{ByteWidth: width}, nil
	}
	return nil, fmt.Errorf("scenario knows no type %q", kind)
}

func nestedType(outer string, inner []string) (arrow.DataType, error) {
	switch {
	case outer == "list" && len(inner) == 1:
		element, err := typed("element", inner[0])
		return arrow.ListOfField(element), err
	case outer == "map" && len(inner) == 2:
		key, err := typed("key", inner[0]+"!")
		if err != nil {
			return nil, err
		}
		value, err := typed("value", inner[1])
		return arrow.MapOfFields(key, value), err
	case outer == "struct":
		fields := make([]arrow.Field, len(inner))
		for i, text := range inner {
			var err error
			if fields[i], err = fieldOf(text); err != nil {
				return nil, err
			}
		}
		return arrow.StructOf(fields...), nil
	default:
		return nil, fmt.Errorf("scenario knows no type %s of %v", outer, inner)
	}
}

// arguments splits a list at commas that are not in brackets.
func arguments(text string) []string {
	var parts []string
	depth, from := 0, 0
	for i, r := range text {
		switch r {
		case '<', '(':
			depth++
		case '>', ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, text[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, text[from:])
}
