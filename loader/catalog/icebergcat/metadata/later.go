package metadata

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// later describes the refs and types of a table that iceberg-go does not know. Because iceberg-go
// refuses metadata that has such refs or types, they are removed before the metadata is parsed. The
// text in Loaded.Text still has them.
type later struct {
	refs  map[string]string // kinds of refs that are neither branches nor tags, by name
	types map[int]string    // names of types, by the field id of the column or nested field
}

// unknownType is written in place of a type that is not known. Columns of this type cannot be read.
var unknownType = json.RawMessage(`"unknown"`) //nolint:gochecknoglobals // a constant

// remove removes refs and types that are not known from the fields of metadata, and reports whether there were any.
func (l *later) remove(fields map[string]json.RawMessage, file metafile.Allowance) (bool, error) {
	l.refs, l.types = map[string]string{}, map[int]string{}
	if err := l.removeRefs(fields); err != nil {
		return false, err
	}
	for _, name := range []string{"schema", "schemas"} { // format version 1 may have either or both
		if len(fields[name]) == 0 {
			continue
		}
		text, err := l.removeTypes(fields[name], file)
		if err != nil {
			return false, err
		}
		fields[name] = text
	}
	return len(l.refs)+len(l.types) > 0, nil
}

func (l *later) removeRefs(fields map[string]json.RawMessage) error {
	var refs map[string]json.RawMessage
	if len(fields["refs"]) == 0 {
		return nil
	}
	if err := json.Unmarshal(fields["refs"], &refs); err != nil {
		return err
	}
	for name, text := range refs {
		var ref struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(text, &ref); err != nil {
			return err
		}
		if kind := icetable.RefType(ref.Type); ref.Type != "" && kind != icetable.BranchRef && kind != icetable.TagRef {
			l.refs[name] = ref.Type
			delete(refs, name)
		}
	}
	if len(l.refs) == 0 {
		return nil
	}
	text, err := json.Marshal(refs)
	fields["refs"] = text
	return err
}

// levelCopies is the number of copies of a text that removeTypes makes: decoded and encoded.
const levelCopies = 2

// removeTypes replaces unknown types in a schema, in a list of schemas or fields, or in a nested
// type. It copies the text of each level of nesting, and charges these copies.
func (l *later) removeTypes(text json.RawMessage, file metafile.Allowance) (json.RawMessage, error) {
	if err := file.Charge(levelCopies * int64(len(text))); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, err
		}
		for i, one := range list {
			var err error
			if list[i], err = l.removeTypes(one, file); err != nil {
				return nil, err
			}
		}
		return json.Marshal(list)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	for name, id := range map[string]string{"type": "id", "element": "element-id", "key": "key-id", "value": "value-id"} {
		if len(object[name]) == 0 || len(object[id]) == 0 { // in an object without an id, "type" is the kind of a nested type
			continue
		}
		if err := l.removeType(object, name, id, file); err != nil {
			return nil, err
		}
	}
	if fields := object["fields"]; len(fields) > 0 {
		text, err := l.removeTypes(fields, file)
		if err != nil {
			return nil, err
		}
		object["fields"] = text
	}
	return json.Marshal(object)
}

// removeType replaces the type of a column, an element, a key or a value if it is not known.
func (l *later) removeType(object map[string]json.RawMessage, name, id string, file metafile.Allowance) error {
	kind, nested, err := typeKind(object[name])
	switch {
	case err != nil:
		return err
	case nested && slices.Contains([]string{"struct", "list", "map"}, kind):
		object[name], err = l.removeTypes(object[name], file)
		return err
	case !nested && knownType(object[name]):
		return nil
	}
	var field int
	if err := json.Unmarshal(object[id], &field); err != nil {
		return err
	}
	l.types[field] = kind
	object[name] = unknownType
	return nil
}

// typeKind returns the name of a type, and whether the type is a JSON object with a name.
func typeKind(text json.RawMessage) (kind string, nested bool, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		var object struct {
			Type string `json:"type"`
		}
		err := json.Unmarshal(text, &object)
		kind, nested = object.Type, true
		if err != nil {
			return "", nested, err
		}
	} else if err := json.Unmarshal(text, &kind); err != nil {
		return "", false, err
	}
	if kind == "" {
		return "", nested, iceberg.ErrInvalidTypeString
	}
	return kind, nested, nil
}

// knownType reports whether iceberg-go parses the name of a type.
func knownType(name json.RawMessage) bool {
	text := slices.Concat([]byte(`{"id":1,"name":"c","required":false,"type":`), name, []byte("}"))
	return json.Unmarshal(text, new(iceberg.NestedField)) == nil
}

// SameUnknownRefs reports whether the metadata m and other have the same refs of unknown kinds.
func (m *Loaded) SameUnknownRefs(other *Loaded) bool {
	return maps.Equal(m.later.refs, other.later.refs)
}

// UnknownRef returns an error if the kind of the named ref is not known.
func (m *Loaded) UnknownRef(name string) error {
	kind, ok := m.later.refs[name]
	if !ok {
		return nil
	}
	return fault.New(fault.Invalid, "ref %s of table %s is a %q, which this version does not support", name, m.Name, kind).
		In(m.Name, m.File.Location).WithRemedy("name a branch or a tag, or the id of a snapshot")
}

// TypeName returns the name that the metadata has for a field's type.
func (m *Loaded) TypeName(f iceberg.NestedField) string {
	if kind, ok := m.later.types[f.ID]; ok {
		return kind
	}
	return f.Type.String()
}

// KnowsTypes returns an error if a schema of the table has types that are not known.
func (m *Loaded) KnowsTypes() error {
	if len(m.later.types) == 0 {
		return nil
	}
	names := slices.Compact(slices.Sorted(maps.Values(m.later.types)))
	return m.Unserved("it has columns of type "+strings.Join(names, ", ")+", which this version does not know and cannot write",
		"write to it with an engine that knows the type")
}
