package icebergcat

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
)

// initialDefaults are those of a schema's fields, by field id, as the metadata writes
// them: iceberg-go's own are not exact, as it takes numbers for floats.
type initialDefaults map[int]any

// defaults returns what files that lack a field of a schema mean by that. See
// catalog.Table.
func (m *loaded) defaults(schema *iceberg.Schema) (map[int]arrow.Array, error) {
	fields := withDefaults(nil, schema.Fields())
	if len(fields) == 0 {
		return nil, nil //nolint:nilnil // none are no error
	}
	written, err := m.writtenDefaults(schema.ID)
	if err != nil {
		return nil, err
	}
	out := make(map[int]arrow.Array, len(fields))
	for _, f := range fields {
		t, ok := convertType(f.Type, plain)
		if !ok {
			continue // nobody can read it
		}
		b := array.NewBuilder(memory.NewGoAllocator(), t)
		if err := written.field(b, f); err != nil {
			return nil, corrupt(m.name, m.location, "the initial default of column %q (field id %d) of table %s: %w", f.Name, f.ID, m.name, err)
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

// field appends the initial default of a field. That of a struct is written without
// its fields, which have defaults of their own, or are null.
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
	to := b.(*array.StructBuilder) //nolint:forcetypeassert // as convertType has it
	to.Append(true)
	for i, field := range t.FieldList {
		if err := d.field(to.FieldBuilder(i), field); err != nil {
			return err
		}
	}
	return nil
}

// schemaText is a schema, or a nested type of one, as far as defaults lie in it.
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

// writtenDefaults reads the initial defaults of a schema out of the metadata's text.
func (m *loaded) writtenDefaults(schema int) (initialDefaults, error) {
	// What is decoded is copied: once into the schemas, once into the fields.
	if err := m.file.charge(2 * int64(len(m.text))); err != nil {
		return nil, err
	}
	var all struct {
		Schemas []schemaText `json:"schemas"`
		Schema  *schemaText  `json:"schema"` // of format version 1, beside the list or instead of it
	}
	if err := json.Unmarshal(m.text, &all); err != nil {
		return nil, corrupt(m.name, m.location, "metadata of table %s cannot be read: %w", m.name, err)
	}
	out := initialDefaults{}
	at := slices.IndexFunc(all.Schemas, func(s schemaText) bool { return s.ID != nil && *s.ID == schema })
	switch {
	case at >= 0:
		return out, m.collect(out, all.Schemas[at])
	case all.Schema != nil:
		return out, m.collect(out, *all.Schema)
	default:
		return nil, fault.New(fault.Internal, "schema %d of table %s is not in its metadata's text", schema, m.name).In(m.name, m.location)
	}
}

// collect reads the defaults of a schema or a nested type.
func (m *loaded) collect(into initialDefaults, in schemaText) error {
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
			return corrupt(m.name, m.location, "metadata of table %s cannot be read: %w", m.name, err)
		}
		into[f.ID] = value
	}
	for _, t := range types {
		if !bytes.HasPrefix(t, []byte("{")) {
			continue // the name of a type
		}
		var nested schemaText
		if err := json.Unmarshal(t, &nested); err != nil {
			return corrupt(m.name, m.location, "metadata of table %s cannot be read: %w", m.name, err)
		}
		if err := m.collect(into, nested); err != nil {
			return err
		}
	}
	return nil
}
