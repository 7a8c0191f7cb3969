package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/dataset"
)

// mappedField is a field of a name mapping, in the JSON form of the table property.
type mappedField struct {
	ID     *int          `json:"field-id"`
	Names  []string      `json:"names"`
	Fields []mappedField `json:"fields"`
}

// nameMapping returns the table's current name mapping, restricted to the fields of a schema. It
// returns nil if the table has no name mapping.
func (m *Loaded) nameMapping(schema *iceberg.Schema) (catalog.NameMapping, error) {
	return m.mappingOf(m.Properties(), schema)
}

func (m *Loaded) mappingOf(properties map[string]string, schema *iceberg.Schema) (catalog.NameMapping, error) {
	text, ok := properties[nameMappingProperty]
	if !ok {
		return nil, nil
	}
	var written []mappedField
	err := json.Unmarshal([]byte(text), &written)
	if err == nil {
		err = unambiguous(written, map[int]bool{})
	}
	if err != nil {
		return nil, fault.New(fault.Corrupt, "property %s of table %s: %w", nameMappingProperty, m.Name, err).
			In(m.Name, m.File.Location).WithRemedy("set it to the name mapping of the table's columns")
	}
	return within(written, schema.Fields()), nil
}

// unambiguous returns an error if two fields have the same name or field id, or if a field without
// an id contains a field with an id.
func unambiguous(fields []mappedField, ids map[int]bool) error {
	names := map[string]int{}
	for i, f := range fields {
		for _, name := range f.Names {
			if at, used := names[name]; used && at != i {
				return fmt.Errorf("name %q stands for two fields", name)
			}
			names[name] = i
		}
		if f.ID == nil && anyID(f.Fields) {
			return fmt.Errorf("field %s has no field-id, and a field in it has one", strings.Join(f.Names, ", "))
		}
		if f.ID != nil {
			if ids[*f.ID] {
				return fmt.Errorf("field-id %d stands for two fields", *f.ID)
			}
			ids[*f.ID] = true
		}
		if err := unambiguous(f.Fields, ids); err != nil {
			return err
		}
	}
	return nil
}

func anyID(fields []mappedField) bool {
	return slices.ContainsFunc(fields, func(f mappedField) bool { return f.ID != nil || anyID(f.Fields) })
}

// within returns the part of a mapping that is about the given fields. The rest of the mapping does
// not affect reads. The result is not nil.
func within(written []mappedField, fields []iceberg.NestedField) catalog.NameMapping {
	out := catalog.NameMapping{}
	for _, f := range fields {
		at := slices.IndexFunc(written, func(w mappedField) bool { return w.ID != nil && *w.ID == f.ID })
		if at < 0 {
			continue
		}
		out = append(out, catalog.MappedField{ID: f.ID, Names: written[at].Names, Fields: within(written[at].Fields, inside(f))})
	}
	return out
}

// inside returns the fields inside a struct, list or map, with the names that mappings use for
// them.
func inside(f iceberg.NestedField) []iceberg.NestedField {
	if nested, ok := f.Type.(iceberg.NestedType); ok {
		return nested.Fields()
	}
	return nil
}

// ownNames returns the mapping in which each field has exactly the name that it has in the schema.
func ownNames(fields []iceberg.NestedField) catalog.NameMapping {
	out := catalog.NameMapping{}
	for _, f := range fields {
		out = append(out, catalog.MappedField{ID: f.ID, Names: []string{f.Name}, Fields: ownNames(inside(f))})
	}
	return out
}

// Mapped adds the table's current name mapping to a pin. Files without field ids are read with this
// mapping, even if the table property changes later.
func (m *Loaded) Mapped(pin dataset.TablePin, schema *iceberg.Schema) (dataset.TablePin, error) {
	now, err := m.nameMapping(schema)
	switch {
	case err != nil:
		return pin, err
	case now == nil:
		pin.Mapping = dataset.NoMapping
	case now.Digest() == ownNames(schema.Fields()).Digest():
		pin.Mapping = dataset.OwnNames
	default:
		pin.Mapping = now.Digest()
	}
	return pin, nil
}

// mapping returns the name mapping of a pin. It can always return the mapping in which fields have
// the names of the schema. It finds any other mapping only if the current metadata has it, or a
// metadata file in the table's metadata log.
func (s *Source) mapping(ctx context.Context, m *Loaded, pin dataset.TablePin, schema *iceberg.Schema) (catalog.NameMapping, error) {
	switch pin.Mapping {
	case dataset.NoMapping:
		return nil, nil
	case dataset.OwnNames:
		return ownNames(schema.Fields()), nil
	}
	now, err := m.nameMapping(schema)
	if err == nil && now != nil && now.Digest() == pin.Mapping {
		return now, nil
	}
	log := slices.Collect(m.PreviousFiles())
	for _, entry := range slices.Backward(log) {
		before, err := s.mappingBefore(ctx, m, entry.MetadataFile, schema)
		if err != nil {
			return nil, err
		}
		if before != nil && before.Digest() == pin.Mapping {
			return before, nil
		}
	}
	return nil, catalog.ExpiredMapping(m.Name)
}

// mappingBefore returns the name mapping in an older metadata file of the table. It returns nil if
// this metadata has no name mapping, or if the file no longer exists.
func (s *Source) mappingBefore(ctx context.Context, m *Loaded, location string, schema *iceberg.Schema) (catalog.NameMapping, error) {
	held := s.Hold(m.Name)
	defer held.Release()
	file := s.Allow(metafile.Subject{What: "metadata", Table: m.Name, Location: location}, held)
	if err := m.May(file.What, location); err != nil {
		return nil, err
	}
	content, err := s.Read(ctx, m.Files, file)
	if fault.KindOf(err) == fault.Corrupt {
		return nil, nil // the file may no longer exist
	}
	if err != nil {
		return nil, err
	}
	text, err := file.Text(content)
	if err == nil {
		err = file.ChargeParsing(text)
	}
	var before struct {
		Properties map[string]string `json:"properties"`
	}
	if err == nil {
		err = json.Unmarshal(text, &before)
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, metafile.Corrupt(m.Name, location, "metadata of table %s cannot be read: %w", m.Name, err)
	}
	mapping, err := m.mappingOf(before.Properties, schema)
	if err != nil {
		return nil, nil //nolint:nilerr // a pin never has an invalid mapping, so this is not the mapping of the pin
	}
	return mapping, nil
}
