package datafile

import (
	"encoding/json"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// fieldNumbers assigns field ids to new columns.
type fieldNumbers struct {
	last    int // the last id that is used
	version int // format version of the table
	// required determines which fields inside of lists, maps and structs become required: if it is
	// true, the fields that are not nullable; otherwise, only the keys of maps.
	required bool
}

// nanosecondVersion is the first format version with timestamps in nanoseconds.
const nanosecondVersion = 3

// uuidType is Iceberg's name of uuid. Its Arrow type is the same as that of fixed[16].
const uuidType = "uuid"

func (n *fieldNumbers) next() int {
	n.last++
	return n.last
}

// isRequired reports whether a field inside of a type becomes a required field.
func (n *fieldNumbers) isRequired(f arrow.Field) bool { return n.required && !f.Nullable }

// column returns an optional column for a field, and the field's type with field ids. The type of
// the field must be one that tables can have. raw is the field in the input.
func (n *fieldNumbers) column(f, raw arrow.Field) (commit.NewColumn, arrow.DataType, error) {
	out := commit.NewColumn{ID: n.next(), Name: f.Name}
	if isUUID(raw) {
		out.Type = uuidType
		return out, f.Type, nil
	}
	form, typed, err := n.form(f.Type)
	if err != nil {
		return out, nil, err
	}
	if name, primitive := form.(string); primitive {
		out.Type = name
		return out, typed, nil
	}
	text, err := json.Marshal(form)
	out.Type = string(text)
	return out, typed, err
}

// isUUID reports whether a field has the extension type of UUIDs, or is declared as such.
func isUUID(f arrow.Field) bool {
	if x, ok := f.Type.(arrow.ExtensionType); ok {
		return x.ExtensionName() == catalog.UUIDExtension
	}
	name, _ := f.Metadata.GetValue(ipc.ExtensionTypeKeyName)
	return name == catalog.UUIDExtension && arrow.TypeEqual(f.Type, &arrow.FixedSizeBinaryType{ByteWidth: 16})
}

// nestedForm is a field of a struct in the JSON form of Iceberg's types.
type nestedForm struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Required bool   `json:"required"`
	Type     any    `json:"type"`
}

// form returns the JSON form of a type, and the type with field ids.
func (n *fieldNumbers) form(t arrow.DataType) (any, arrow.DataType, error) {
	switch t := t.(type) {
	case *arrow.ListType:
		id := n.next()
		element, typed, err := n.form(t.Elem())
		if err != nil {
			return nil, nil, err
		}
		required := n.isRequired(t.ElemField())
		return map[string]any{"type": "list", "element-id": id, "element": element, "element-required": required},
			arrow.ListOfField(identified("element", typed, id, !required)), nil
	case *arrow.MapType:
		keyID, valueID := n.next(), n.next()
		key, keyType, err := n.form(t.KeyType())
		if err != nil {
			return nil, nil, err
		}
		value, valueType, err := n.form(t.ItemType())
		if err != nil {
			return nil, nil, err
		}
		required := n.isRequired(t.ItemField())
		return map[string]any{"type": "map", "key-id": keyID, "key": key, "value-id": valueID, "value": value, "value-required": required},
			arrow.MapOfFields(identified("key", keyType, keyID, false), identified("value", valueType, valueID, !required)), nil
	case *arrow.StructType:
		forms, fields := make([]nestedForm, t.NumFields()), make([]arrow.Field, t.NumFields())
		for i, f := range t.Fields() {
			if err := checkName(t, i); err != nil {
				return nil, nil, err
			}
			id := n.next()
			form, typed, err := n.form(f.Type)
			if err != nil {
				return nil, nil, err
			}
			required := n.isRequired(f)
			forms[i], fields[i] = nestedForm{ID: id, Name: f.Name, Required: required, Type: form}, identified(f.Name, typed, id, !required)
		}
		return map[string]any{"type": "struct", "fields": forms}, arrow.StructOf(fields...), nil
	default:
		name, err := n.primitive(t)
		return name, t, err
	}
}

// checkName returns an error if a field of a struct has no name, or has the name of another field.
func checkName(in *arrow.StructType, at int) error {
	name := in.Field(at).Name
	if other := alike(name, fieldNames(in.Fields())); other != "" {
		return fault.New(fault.Invalid, "of its field %q: %s", name, otherCase(other))
	}
	if len(in.FieldIndices(name)) > 1 {
		return fault.New(fault.Invalid, "it has two fields %q", name)
	}
	if name == "" {
		return fault.New(fault.Invalid, "its field %d has no name", at+1)
	}
	return nil
}

// primitive returns Iceberg's name of a primitive type.
func (n *fieldNumbers) primitive(t arrow.DataType) (string, error) {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return "boolean", nil
	case *arrow.Int32Type:
		return "int", nil
	case *arrow.Int64Type:
		return "long", nil
	case *arrow.Float32Type:
		return "float", nil
	case *arrow.Float64Type:
		return "double", nil
	case *arrow.Date32Type:
		return "date", nil
	case *arrow.Time64Type:
		return "time", nil
	case *arrow.StringType:
		return "string", nil
	case *arrow.BinaryType:
		return "binary", nil
	case *arrow.FixedSizeBinaryType:
		return fmt.Sprintf("fixed[%d]", t.ByteWidth), nil
	case *arrow.Decimal128Type:
		return fmt.Sprintf("decimal(%d, %d)", t.Precision, t.Scale), nil
	case *arrow.TimestampType:
		name := "timestamp"
		if t.TimeZone != "" {
			name = "timestamptz"
		}
		if t.Unit == arrow.Microsecond {
			return name, nil
		}
		if n.version < nanosecondVersion {
			return "", fault.New(fault.Invalid, "timestamps in nanoseconds need a table of format version 3: cast them to microseconds")
		}
		return name + "_ns", nil
	}
	return "", fault.New(fault.Invalid, "tables have no type %s", t)
}

// NumberColumn returns an optional column for a field, and its Arrow type with field ids. Fields
// inside of the type are required unless they are nullable. The ids are greater than last. version is the format version of the table. The type of the field must be
// one that tables can have; if uuid is true, a type of 16 bytes becomes Iceberg's uuid.
func NumberColumn(f arrow.Field, uuid bool, last, version int) (commit.NewColumn, arrow.DataType, error) {
	numbers := fieldNumbers{last: last, version: version, required: true}
	if uuid {
		return commit.NewColumn{ID: numbers.next(), Name: f.Name, Type: uuidType}, f.Type, nil
	}
	return numbers.column(f, f)
}
