package conform

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
)

// Conformer converts the batches of one stream. It is immutable.
type Conformer struct {
	from, to *arrow.Schema
	changed  []bool // by column
}

// New makes a Conformer of batches of a schema. It fails with Invalid, and names every column
// of a type that tables do not have.
func New(schema *arrow.Schema) (*Conformer, error) {
	c := &Conformer{from: schema}
	var fields []arrow.Field
	var faults []fault.Field
	for _, f := range schema.Fields() {
		to, why := typeOf(f.Type)
		if why != "" {
			faults = append(faults, fault.Field{Field: f.Name, Message: why})
		}
		c.changed = append(c.changed, why == "" && !arrow.TypeEqual(f.Type, to))
		fields = append(fields, arrow.Field{Name: f.Name, Type: to, Nullable: f.Nullable})
	}
	if len(faults) > 0 {
		return nil, fault.As(fault.Fields(faults)).WithRemedy("cast these columns, or leave them out")
	}
	c.to = arrow.NewSchema(fields, nil)
	return c, nil
}

// Schema returns the schema of converted batches, without metadata.
func (c *Conformer) Schema() *arrow.Schema { return c.to }

// maxPrecision is the number of digits that a decimal of a table may have.
const maxPrecision = 38

// typeOf returns the type that columns of a type are converted to, or why they are refused.
func typeOf(dt arrow.DataType) (to arrow.DataType, why string) {
	switch dt := dt.(type) {
	case *arrow.BooleanType, *arrow.Int32Type, *arrow.Int64Type, *arrow.Float32Type, *arrow.Float64Type,
		*arrow.Date32Type, *arrow.FixedSizeBinaryType, *arrow.StringType, *arrow.BinaryType:
		return dt, ""
	case *arrow.LargeStringType, *arrow.StringViewType:
		return arrow.BinaryTypes.String, ""
	case *arrow.LargeBinaryType, *arrow.BinaryViewType:
		return arrow.BinaryTypes.Binary, ""
	case *arrow.Decimal128Type:
		if dt.Precision >= 1 && dt.Precision <= maxPrecision && dt.Scale >= 0 && dt.Scale <= dt.Precision {
			return dt, ""
		}
	case *arrow.Time64Type:
		if dt.Unit == arrow.Microsecond {
			return dt, ""
		}
	case *arrow.TimestampType:
		return timestampOf(dt)
	case *arrow.DictionaryType:
		if to, why := typeOf(dt.ValueType); why == "" && !arrow.IsNested(to.ID()) {
			return to, ""
		}
	case *arrow.ListType:
		return listOf(dt, dt.ElemField())
	case *arrow.LargeListType:
		return listOf(dt, dt.ElemField())
	case *arrow.FixedSizeListType:
		if isNumber(dt.Elem()) {
			return arrow.ListOfField(dt.ElemField()), ""
		}
	case *arrow.MapType:
		return mapOf(dt)
	case *arrow.StructType:
		return structOf(dt)
	case arrow.ExtensionType:
		if dt.ExtensionName() == "arrow.uuid" {
			return dt.StorageType(), ""
		}
	}
	return dt, refusal(dt)
}

func refusal(dt arrow.DataType) string {
	return fmt.Sprintf("tables have no columns of type %s", dt)
}

// timestampOf converts the type of a timestamp.
func timestampOf(dt *arrow.TimestampType) (to arrow.DataType, why string) {
	switch {
	case dt.Unit != arrow.Microsecond && dt.Unit != arrow.Nanosecond:
		return dt, refusal(dt)
	case dt.TimeZone == "" || dt.TimeZone == "UTC":
		return dt, ""
	default: // the values are in UTC whatever the zone is
		return &arrow.TimestampType{Unit: dt.Unit, TimeZone: "UTC"}, ""
	}
}

// listOf converts the type of a list.
func listOf(dt arrow.DataType, elem arrow.Field) (to arrow.DataType, why string) {
	inner, why := typeOf(elem.Type)
	if why != "" {
		return dt, why
	}
	if dt.ID() == arrow.LIST && arrow.TypeEqual(inner, elem.Type) {
		return dt, ""
	}
	elem.Type = inner
	return arrow.ListOfField(elem), ""
}

// isNumber reports whether fixed-size lists of a type become lists.
func isNumber(dt arrow.DataType) bool {
	switch dt.ID() {
	case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64:
		return true
	}
	return false
}

func mapOf(dt *arrow.MapType) (to arrow.DataType, why string) {
	key, why := typeOf(dt.KeyType())
	if why != "" {
		return dt, why
	}
	item, why := typeOf(dt.ItemType())
	if why != "" {
		return dt, why
	}
	if arrow.TypeEqual(key, dt.KeyType()) && arrow.TypeEqual(item, dt.ItemType()) {
		return dt, ""
	}
	keyField, itemField := dt.KeyField(), dt.ItemField()
	keyField.Type, itemField.Type = key, item
	return arrow.MapOfFields(keyField, itemField), ""
}

func structOf(dt *arrow.StructType) (to arrow.DataType, why string) {
	if dt.NumFields() == 0 { // Parquet has none
		return dt, refusal(dt)
	}
	fields, changed := slices.Clone(dt.Fields()), false
	for i, f := range fields {
		inner, why := typeOf(f.Type)
		if why != "" {
			return dt, f.Name + ": " + why
		}
		changed = changed || !arrow.TypeEqual(inner, f.Type)
		fields[i].Type = inner
	}
	if !changed {
		return dt, ""
	}
	return arrow.StructOf(fields...), ""
}
