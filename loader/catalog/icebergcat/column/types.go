// Package column converts the columns of Iceberg schemas to Arrow: their types, and the initial
// defaults that columns have in older files, which lack them.
package column

import (
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/loader/catalog"
)

// utc is the time zone of every timestamp type with a time zone.
const utc = "UTC"

// Convert converts columns to the form that users see. If this version does not support a column's
// type, its Arrow type is null, and Catalog.Files returns an error if the column is to be read.
func Convert(fields []iceberg.NestedField) []catalog.Field {
	if len(fields) == 0 {
		return nil
	}
	out := make([]catalog.Field, len(fields))
	for i, f := range fields {
		t, ok := arrow.DataType(arrow.Null), !TooDeep(f.Type)
		if ok {
			t, ok = convertType(f.Type, plain)
		}
		if !ok {
			t = arrow.Null
		}
		out[i] = catalog.Field{ID: f.ID, Name: f.Name, Type: t, Required: f.Required}
		if _, nested := f.Type.(iceberg.NestedType); ok && nested {
			out[i].Stored, _ = convertType(f.Type, identified)
		}
		if ok && len(appendUUIDs(nil, f)) > 0 {
			declaredField, _ := convertField(f, declared)
			out[i].Declared = &declaredField
		}
	}
	return out
}

// Served reports whether columns of a type can be read.
func Served(t iceberg.Type) bool {
	if TooDeep(t) {
		return false
	}
	_, ok := convertType(t, plain)
	return ok
}

// MaxDepth is the maximum number of levels of a column's type. Arrow's messages can have 64 levels,
// and Penstock's stream formats need some of them.
const MaxDepth = 60

// TooDeep reports whether a type has more levels than MaxDepth. A map has two levels more than its
// keys or values.
func TooDeep(t iceberg.Type) bool { return deeper(t, MaxDepth) }

// deeper reports whether a type has more levels than the given number.
func deeper(t iceberg.Type, levels int) bool {
	if levels <= 0 {
		return true
	}
	switch t := t.(type) {
	case *iceberg.ListType:
		return deeper(t.Element, levels-1)
	case *iceberg.MapType:
		return deeper(t.KeyType, levels-2) || deeper(t.ValueType, levels-2)
	case *iceberg.StructType:
		return slices.ContainsFunc(t.FieldList, func(f iceberg.NestedField) bool { return deeper(f.Type, levels-1) })
	}
	return false
}

// All returns all columns of a schema that can be read, both top-level and nested columns.
func All(schema *iceberg.Schema) []iceberg.NestedField {
	return slices.Concat(schema.Fields(), Nested(schema))
}

// Nested returns the primitive columns inside the structs of a schema, down to the supported depth,
// but not those in lists and maps. The name of each is its path, and it is required if all fields
// on the path are required.
func Nested(schema *iceberg.Schema) []iceberg.NestedField {
	var out []iceberg.NestedField
	for _, f := range schema.Fields() {
		if !TooDeep(f.Type) {
			out = appendInside(out, f)
		}
	}
	return out
}

func appendInside(out []iceberg.NestedField, parent iceberg.NestedField) []iceberg.NestedField {
	s, ok := parent.Type.(*iceberg.StructType)
	if !ok {
		return out
	}
	for _, f := range s.FieldList {
		f.Name, f.Required = parent.Name+"."+f.Name, f.Required && parent.Required
		if f.InitialDefault == nil {
			f.InitialDefault = parent.InitialDefault
		}
		if _, ok := f.Type.(iceberg.PrimitiveType); ok {
			out = append(out, f)
		} else {
			out = appendInside(out, f)
		}
	}
	return out
}

// fieldMetadata says which metadata the nested fields of an Arrow type get.
type fieldMetadata int

const (
	plain      fieldMetadata = iota // none
	identified                      // field ids
	declared                        // the extension type of UUIDs
)

// convertType maps an Iceberg type to the Arrow type that users see. It returns false for a type
// that this version does not support.
func convertType(t iceberg.Type, as fieldMetadata) (arrow.DataType, bool) {
	switch t := t.(type) {
	case iceberg.DecimalType:
		return &arrow.Decimal128Type{Precision: int32(t.Precision()), Scale: int32(t.Scale())}, true
	case iceberg.FixedType:
		return &arrow.FixedSizeBinaryType{ByteWidth: t.Len()}, true
	case *iceberg.ListType:
		element, ok := convertField(t.ElementField(), as)
		if !ok {
			return nil, false
		}
		return arrow.ListOfField(element), true
	case *iceberg.MapType:
		key, keyOK := convertField(t.KeyField(), as)
		value, valueOK := convertField(t.ValueField(), as)
		if !keyOK || !valueOK {
			return nil, false
		}
		key.Nullable = false
		return arrow.MapOfFields(key, value), true
	case *iceberg.StructType:
		fields := make([]arrow.Field, len(t.FieldList))
		for i, f := range t.FieldList {
			var ok bool
			if fields[i], ok = convertField(f, as); !ok {
				return nil, false
			}
		}
		return arrow.StructOf(fields...), true
	default:
		return convertPlain(t)
	}
}

func convertField(f iceberg.NestedField, as fieldMetadata) (arrow.Field, bool) {
	t, ok := convertType(f.Type, as)
	out := arrow.Field{Name: f.Name, Type: t, Nullable: !f.Required}
	_, isUUID := f.Type.(iceberg.UUIDType)
	switch {
	case as == identified:
		out.Metadata = arrow.NewMetadata([]string{catalog.FieldIDKey}, []string{strconv.Itoa(f.ID)})
	case as == declared && isUUID:
		out.Metadata = arrow.NewMetadata([]string{ipc.ExtensionTypeKeyName, ipc.ExtensionMetadataKeyName}, []string{catalog.UUIDExtension, ""})
	}
	return out, ok
}

// convertPlain converts a type that has no parameters.
func convertPlain(t iceberg.Type) (arrow.DataType, bool) {
	switch t.(type) {
	case iceberg.BooleanType:
		return arrow.FixedWidthTypes.Boolean, true
	case iceberg.Int32Type:
		return arrow.PrimitiveTypes.Int32, true
	case iceberg.Int64Type:
		return arrow.PrimitiveTypes.Int64, true
	case iceberg.Float32Type:
		return arrow.PrimitiveTypes.Float32, true
	case iceberg.Float64Type:
		return arrow.PrimitiveTypes.Float64, true
	case iceberg.DateType:
		return arrow.FixedWidthTypes.Date32, true
	case iceberg.TimeType:
		return arrow.FixedWidthTypes.Time64us, true
	case iceberg.TimestampType:
		return &arrow.TimestampType{Unit: arrow.Microsecond}, true
	case iceberg.TimestampTzType:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: utc}, true
	case iceberg.TimestampNsType:
		return &arrow.TimestampType{Unit: arrow.Nanosecond}, true
	case iceberg.TimestampTzNsType:
		return &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: utc}, true
	case iceberg.StringType:
		return arrow.BinaryTypes.String, true
	case iceberg.BinaryType:
		return arrow.BinaryTypes.Binary, true
	case iceberg.UUIDType:
		return &arrow.FixedSizeBinaryType{ByteWidth: 16}, true
	default:
		return nil, false
	}
}

// UUIDs returns the ids of all fields of type uuid, down to the supported depth.
func UUIDs(schema *iceberg.Schema) []int {
	var out []int
	for _, f := range schema.Fields() {
		if !TooDeep(f.Type) {
			out = appendUUIDs(out, f)
		}
	}
	return out
}

func appendUUIDs(out []int, f iceberg.NestedField) []int {
	switch t := f.Type.(type) {
	case iceberg.UUIDType:
		return append(out, f.ID)
	case *iceberg.ListType:
		return appendUUIDs(out, t.ElementField())
	case *iceberg.MapType:
		return appendUUIDs(appendUUIDs(out, t.KeyField()), t.ValueField())
	case *iceberg.StructType:
		for _, inner := range t.FieldList {
			out = appendUUIDs(out, inner)
		}
	}
	return out
}
