package column

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// initialDefaults has the initial defaults of a schema's fields, by field id, decoded from the text
// of the metadata. The defaults that iceberg-go decodes are inexact, because it decodes numbers as
// floats.
type initialDefaults map[int]any

// Defaults returns the initial defaults of a schema's fields, by field id: the values that the
// fields have in files that lack them. It decodes them from the text of the table's metadata, and
// charges the memory for that to file. See catalog.Table.
func Defaults(file metafile.Allowance, text []byte, schema *iceberg.Schema) (map[int]arrow.Array, error) {
	fields := withDefaults(nil, schema.Fields())
	if len(fields) == 0 {
		return nil, nil //nolint:nilnil // having none is no error
	}
	m := metadata{file: file, text: text}
	written, err := m.defaults(schema.ID)
	if err != nil {
		return nil, err
	}
	out := make(map[int]arrow.Array, len(fields))
	for _, f := range fields {
		t, ok := convertType(f.Type, plain)
		if !ok {
			continue // the field cannot be read
		}
		b := array.NewBuilder(memory.DefaultAllocator, t)
		if err := written.field(b, f); err != nil {
			return nil, m.corrupt("the initial default of column %q (field id %d) of table %s: %w", f.Name, f.ID, file.Table, err)
		}
		out[f.ID] = b.NewArray()
		b.Release()
	}
	return out, nil
}

// withDefaults appends the fields that have an initial default, at any depth.
func withDefaults(out, fields []iceberg.NestedField) []iceberg.NestedField {
	for _, f := range fields {
		if f.InitialDefault != nil {
			out = append(out, f)
		}
		if nested, ok := f.Type.(iceberg.NestedType); ok {
			out = withDefaults(out, nested.Fields())
		}
	}
	return out
}

// field appends the initial default of a field. The default of a struct does not contain the values
// of its fields: each of these has its own default or is null.
func (d initialDefaults) field(b array.Builder, f iceberg.NestedField) error {
	value, there := d[f.ID]
	t, isStruct := f.Type.(*iceberg.StructType)
	switch {
	case !there && f.Required:
		return fmt.Errorf("its field %q is required, and has none", f.Name)
	case !there:
		b.AppendNull()
		return nil
	case !isStruct:
		return appendSingle(b, f.Type, value)
	}
	if fields, ok := value.(map[string]any); !ok || len(fields) > 0 {
		return noneOf(t, value)
	}
	to := b.(*array.StructBuilder) //nolint:forcetypeassert // convertType chose it
	to.Append(true)
	for i, field := range t.FieldList {
		if err := d.field(to.FieldBuilder(i), field); err != nil {
			return err
		}
	}
	return nil
}

// metadata is the text of a table's metadata file.
type metadata struct {
	file metafile.Allowance
	text []byte
}

func (m metadata) corrupt(format string, args ...any) error {
	return metafile.Corrupt(m.file.Table, m.file.Location, format, args...)
}

func (m metadata) unreadable(err error) error {
	return m.corrupt("metadata of table %s cannot be read: %w", m.file.Table, err)
}

// schemaText has the parts of a schema, or of a nested type in a schema, that lead to the initial
// defaults.
type schemaText struct {
	ID     *int        `json:"schema-id"`
	Fields []fieldText `json:"fields"`

	Element, Key, Value json.RawMessage
}

type fieldText struct {
	ID      int             `json:"id"`
	Type    json.RawMessage `json:"type"`
	Default json.RawMessage `json:"initial-default"`
}

// defaults reads the initial defaults of a schema.
func (m metadata) defaults(schema int) (initialDefaults, error) {
	// Decoding copies the text twice: once into the schemas, and once into their fields.
	if err := m.file.Charge(2 * int64(len(m.text))); err != nil {
		return nil, err
	}
	var all struct {
		Schemas []schemaText `json:"schemas"`
		Schema  *schemaText  `json:"schema"` // in format version 1, in addition to the list or instead of it
	}
	if err := json.Unmarshal(m.text, &all); err != nil {
		return nil, m.unreadable(err)
	}
	out := initialDefaults{}
	at := slices.IndexFunc(all.Schemas, func(s schemaText) bool { return s.ID != nil && *s.ID == schema })
	switch {
	case at >= 0:
		return out, m.collect(out, all.Schemas[at])
	case all.Schema != nil:
		return out, m.collect(out, *all.Schema)
	default:
		return nil, fault.New(fault.Internal, "schema %d of table %s is not in its metadata's text", schema, m.file.Table).In(m.file.Table, m.file.Location)
	}
}

// collect reads the defaults of a schema or a nested type.
func (m metadata) collect(into initialDefaults, in schemaText) error {
	types := []json.RawMessage{in.Element, in.Key, in.Value}
	for _, f := range in.Fields {
		types = append(types, f.Type)
		if len(f.Default) == 0 || string(f.Default) == "null" {
			continue
		}
		exact := json.NewDecoder(bytes.NewReader(f.Default))
		exact.UseNumber()
		var value any
		if err := exact.Decode(&value); err != nil {
			return m.unreadable(err)
		}
		into[f.ID] = value
	}
	for _, t := range types {
		if !bytes.HasPrefix(t, []byte("{")) {
			continue // a primitive type, which is only a name
		}
		var nested schemaText
		if err := json.Unmarshal(t, &nested); err != nil {
			return m.unreadable(err)
		}
		if err := m.collect(into, nested); err != nil {
			return err
		}
	}
	return nil
}
