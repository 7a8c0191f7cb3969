package convert

import (
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

const (
	// NoFieldID stands for no field id.
	NoFieldID = -1
	// FieldIDKey is the key of the field id in the metadata of a field.
	FieldIDKey = "PARQUET:field_id"
	// MapEntryName is the name of the element of a list that represents a map.
	MapEntryName = "key_value"
	// Int96Bytes is the width of an INT96: nanoseconds of the day, and a Julian day.
	Int96Bytes = 12
)

// FieldID returns the id in a field's metadata, or NoFieldID.
func FieldID(field arrow.Field) int {
	text, ok := field.Metadata.GetValue(FieldIDKey)
	if !ok {
		return NoFieldID
	}
	id, err := strconv.Atoi(text)
	if err != nil || id < 0 {
		return NoFieldID
	}
	return id
}

// Int96 is the type of INT96 columns until they are converted to timestamps: fixed-size bytes, but
// a type of its own, so that INT96 columns can be told from other columns of fixed-size bytes.
type Int96 struct{ arrow.FixedSizeBinaryType }

// Name returns the name of the physical type.
func (*Int96) Name() string { return "int96" }

// String returns the name of the physical type.
func (*Int96) String() string { return "int96" }

// AllNull is the type of a column annotated to be all null, whatever its physical type.
type AllNull struct{ arrow.NullType }

// The types of integer columns with an unknown annotation. Unlike integers without an annotation,
// these are never read as dates or times.
type (
	unknownInt32 struct{ arrow.Int32Type }
	unknownInt64 struct{ arrow.Int64Type }
)

// OfUnknown returns the type under which a column with an unknown annotation is read.
func OfUnknown(physical arrow.DataType) arrow.DataType {
	switch physical.ID() {
	case arrow.INT32:
		return &unknownInt32{}
	case arrow.INT64:
		return &unknownInt64{}
	default:
		return physical
	}
}

// listElement returns the element of a list that does not represent a map.
func listElement(stored arrow.DataType) (arrow.Field, bool) {
	list, ok := stored.(*arrow.ListType)
	if !ok || list.ElemField().Name == MapEntryName {
		return arrow.Field{}, false
	}
	return list.ElemField(), true
}

// MapEntry returns the key and the value of a map, or of a list that represents one.
func MapEntry(stored arrow.DataType) ([]arrow.Field, bool) {
	switch t := stored.(type) {
	case *arrow.MapType:
		return []arrow.Field{t.KeyField(), t.ItemField()}, true
	case *arrow.ListType:
		pair, ok := t.Elem().(*arrow.StructType)
		if ok && t.ElemField().Name == MapEntryName && pair.NumFields() == 2 {
			return pair.Fields(), true
		}
	}
	return nil, false
}

// PlainSchema returns the schema of the batches.
func PlainSchema(want *arrow.Schema) *arrow.Schema {
	return arrow.NewSchema(plainFields(want.Fields()), nil)
}

func plainFields(fields []arrow.Field) []arrow.Field {
	fields = slices.Clone(fields)
	for i, f := range fields {
		fields[i] = plainField(f)
	}
	return fields
}

func plainField(f arrow.Field) arrow.Field {
	return arrow.Field{Name: f.Name, Type: plain(f.Type), Nullable: f.Nullable}
}

// plain returns a type without the metadata of its nested fields.
func plain(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.ListType:
		return arrow.ListOfField(plainField(t.ElemField()))
	case *arrow.MapType:
		m := arrow.MapOfFields(plainField(t.KeyField()), plainField(t.ItemField()))
		m.KeysSorted = t.KeysSorted
		return m
	case *arrow.StructType:
		return arrow.StructOf(plainFields(t.Fields())...)
	default:
		return t
	}
}
