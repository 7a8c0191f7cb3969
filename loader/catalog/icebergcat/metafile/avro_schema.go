package metafile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// The kinds of Avro types that have names or contain other types.
const (
	avroRecord = "record"
	avroError  = "error" // another name for a record
	avroFixed  = "fixed"
	avroEnum   = "enum"
	avroArray  = "array"
	avroMap    = "map"
)

// The names of manifest fields, and of attributes of Avro schemas, on the path to the partition
// fields.
const (
	dataFileField  = "data_file"
	partitionField = "partition"
	typeAttr       = "type"
	nameAttr       = "name"
	namespaceAttr  = "namespace"
	fieldsAttr     = "fields"
	fieldIDAttr    = "field-id"
	sizeAttr       = "size"
	logicalAttr    = "logicalType"
	precisionAttr  = "precision"
	scaleAttr      = "scale"
)

// avroSchema is the JSON schema in the header of an Avro file.
type avroSchema struct {
	root    any
	named   map[string]avroNamed // by full name
	changed bool                 // whether the schema was changed, so that it differs from the text in the file
}

// avroNamed is the definition of a named type.
type avroNamed struct {
	node  map[string]any
	space string // the namespace of the names in it
}

// recordForm has what is known about the records of an Avro file from its schema.
type recordForm struct {
	written []byte    // the text of the schema
	text    []byte    // the schema as passed to the decoder
	record  int64     // charged for each record, in addition to the bytes of its block
	fixed   *avroType // the type of the records, if they contain values of formFixed; else nil
}

// maxRemembered is the length in bytes of the longest schema that is remembered. The schema of a
// manifest has about 6,000 bytes, and about 100 more for each partition field.
const maxRemembered = 64 << 10

// partitionValues is the number of partition values that perRecord includes. A partition field
// counts as two values, because it may be null.
const partitionValues = 64

// Schemas keeps the schema that was parsed last, because the manifests of a table have only a
// few different schemas. Its zero value is ready to use. It is safe for concurrent use.
type Schemas struct{ last atomic.Pointer[recordForm] }

// of returns the recordForm for the text of a file's schema. The memory for parsing is charged to
// a.
func (r *Schemas) of(a Allowance, text []byte) (*recordForm, error) {
	if last := r.last.Load(); last != nil && bytes.Equal(last.written, text) {
		return last, nil
	}
	if err := a.ChargeParsing(text); err != nil {
		return nil, err
	}
	remembered := len(text) <= maxRemembered
	if remembered {
		text = bytes.Clone(text) // otherwise the text would keep the whole file in memory
	}
	out, err := formOf(text)
	if err == nil && remembered {
		r.last.Store(out)
	}
	return out, err
}

// formOf parses the schema of an Avro file. With types that refer to each other, a schema of a few
// bytes can define a record that has more values than fit in memory, while the record takes no byte
// in the file. So formOf returns an error if a record has more values than the text of the schema
// has bytes.
func formOf(text []byte) (*recordForm, error) {
	schema, err := parseAvroSchema(text)
	if err != nil {
		return nil, err
	}
	c, root, ok := schema.compile()
	if !ok {
		return nil, errors.New("its schema has a type that it does not define")
	}
	if root.width > len(text) {
		return nil, fmt.Errorf("its schema of %d bytes gives a record more values than that", len(text))
	}
	out := &recordForm{written: text, text: text, record: perRecord}
	if partition, ok := schema.partition(); ok {
		name, _ := fullName(partition.node, partition.space)
		out.record += perValue * int64(max(0, c.done[name].width-partitionValues))
		schema.mend(partition)
	}
	if schema.changed {
		if out.text, err = schema.encode(); err != nil {
			return nil, fmt.Errorf("its schema: %w", err)
		}
	}
	if c.fixed {
		out.fixed = root
	}
	return out, nil
}

// parseAvroSchema parses the text of a schema.
func parseAvroSchema(text []byte) (*avroSchema, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	out := &avroSchema{named: map[string]avroNamed{}}
	if err := decoder.Decode(&out.root); err != nil {
		return nil, fmt.Errorf("its schema: %w", noEnd(err))
	}
	if !out.collect(out.root, "") {
		return nil, errors.New("its schema defines a name twice")
	}
	return out, nil
}

// collect records the definitions of named types in a node. It returns false if a name is defined
// twice. The same fixed type may be defined again; such a definition becomes a reference, because
// PyIceberg 0.12 defines the same type at each field.
func (s *avroSchema) collect(node any, space string) bool {
	switch node := node.(type) {
	case []any:
		return !slices.ContainsFunc(node, func(branch any) bool { return !s.collect(branch, space) })
	case map[string]any:
		kind, named := node[typeAttr].(string)
		if !named {
			return s.collect(node[typeAttr], space)
		}
		if isNamed(kind) {
			name, inside := fullName(node, space)
			if first, twice := s.named[name]; twice {
				if !sameFixed(first.node, node) {
					return false
				}
				clear(node)
				node[typeAttr], s.changed = name, true
				return true
			}
			s.named[name] = avroNamed{node: node, space: inside}
			space = inside
		}
		return !slices.ContainsFunc(children(node, kind), func(child any) bool { return !s.collect(child, space) })
	default:
		return true
	}
}

// sameFixed reports whether two definitions define the same fixed type.
func sameFixed(a, b map[string]any) bool {
	same := func(name string) bool {
		switch a[name].(type) {
		case nil, string, json.Number:
			return a[name] == b[name]
		default:
			return false
		}
	}
	return a[typeAttr] == avroFixed && same(typeAttr) && same(sizeAttr) && same(logicalAttr) && same(precisionAttr) && same(scaleAttr)
}

func isNamed(kind string) bool {
	return kind == avroRecord || kind == avroError || kind == avroFixed || kind == avroEnum
}

// children returns the types inside a type of the given kind.
func children(node map[string]any, kind string) []any {
	switch kind {
	case avroArray:
		return []any{node["items"]}
	case avroMap:
		return []any{node["values"]}
	case avroRecord, avroError:
		var out []any
		for _, f := range fieldsOf(node) {
			out = append(out, f[typeAttr])
		}
		return out
	default:
		return nil
	}
}

// fieldsOf returns the fields of a record.
func fieldsOf(record map[string]any) []map[string]any {
	fields, _ := record[fieldsAttr].([]any)
	out := make([]map[string]any, 0, len(fields))
	for _, f := range fields {
		if f, ok := f.(map[string]any); ok {
			out = append(out, f)
		}
	}
	return out
}

// fullName returns the full name of a definition that is in a namespace, and the namespace for the
// names inside the definition.
func fullName(node map[string]any, space string) (name, inside string) {
	name, _ = node[nameAttr].(string)
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		return name, name[:at]
	}
	if own, ok := node[namespaceAttr].(string); ok {
		space = own
	}
	return qualified(name, space), space
}

func qualified(name, space string) string {
	if space == "" || strings.ContainsRune(name, '.') {
		return name
	}
	return space + "." + name
}

// definition returns the named type that a node defines or refers to.
func (s *avroSchema) definition(node any, space string) (avroNamed, bool) {
	name := ""
	switch node := node.(type) {
	case string:
		name = qualified(node, space)
	case map[string]any:
		kind, ok := node[typeAttr].(string)
		switch {
		case !ok:
			return avroNamed{}, false
		case isNamed(kind):
			name, _ = fullName(node, space)
		default:
			name = qualified(kind, space)
		}
	}
	out, ok := s.named[name]
	return out, ok
}

// partition returns the definition of the record that has a manifest's partition values.
func (s *avroSchema) partition() (avroNamed, bool) {
	at, ok := s.definition(s.root, "")
	for _, name := range []string{dataFileField, partitionField} {
		if !ok {
			return avroNamed{}, false
		}
		fields := fieldsOf(at.node)
		i := slices.IndexFunc(fields, func(f map[string]any) bool { return f[nameAttr] == name })
		if i < 0 {
			return avroNamed{}, false
		}
		at, ok = s.definition(fields[i][typeAttr], at.space)
	}
	return at, ok
}

// mend changes the fields of a manifest's partition values so that iceberg-go 0.7.0 can
// read them:
//
//   - If a name has characters that Avro's grammar does not allow, all fields are renamed
//     after their field ids, by which iceberg-go finds their values. Iceberg's Java library
//     writes letters of all scripts, and iceberg-go's Avro library rejects them.
//   - A reference to a fixed type becomes a definition with a name of its own. Writers
//     define a type once, and iceberg-go looks for the logical type of a field only at the
//     field itself, so it would leave the values of the second field unconverted.
//
// docs/upstream has the same fix as a patch for iceberg-go. The length of a definition that
// replaces a reference is limited, whatever the reference refers to. Fields that do not follow the
// specification are not changed.
func (s *avroSchema) mend(partition avroNamed) {
	fields := fieldsOf(partition.node)
	names, seen := make([]string, len(fields)), map[int]bool{}
	for i, f := range fields {
		id, ok := integer(f[fieldIDAttr])
		if !ok || id < 0 || seen[id] {
			return
		}
		names[i], seen[id] = "_"+strconv.Itoa(id), true
	}
	// Either all fields are renamed or none, so that no new name is equal to an old one.
	renamed := slices.ContainsFunc(fields, func(f map[string]any) bool {
		name, _ := f[nameAttr].(string)
		return !isAvroName(name)
	})
	for i, f := range fields {
		if renamed {
			f[nameAttr], s.changed = names[i], true
		}
		f[typeAttr] = s.defined(f[typeAttr], partition.space, names[i])
	}
}

// encode writes the schema as JSON.
func (s *avroSchema) encode() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(s.root)
	return out.Bytes(), err
}

// isAvroName reports whether a name follows Avro's grammar.
func isAvroName(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// defined returns the type of a field in which each reference to a fixed type is replaced with a
// definition. The name of the definition begins with the field's name.
func (s *avroSchema) defined(node any, space, field string) any {
	if branches, ok := node.([]any); ok {
		for i, branch := range branches {
			branches[i] = s.defined(branch, space, field+"_"+strconv.Itoa(i))
		}
		return node
	}
	if object, ok := node.(map[string]any); ok {
		if kind, ok := object[typeAttr].(string); !ok || isNamed(kind) {
			return node
		}
	}
	of, ok := s.definition(node, space)
	if !ok || of.node[typeAttr] != avroFixed {
		return node
	}
	out := map[string]any{typeAttr: avroFixed, nameAttr: field + "_" + avroFixed, namespaceAttr: ""}
	attributes := []string{sizeAttr}
	switch logical := of.node[logicalAttr]; logical {
	case logicalUUID:
		out[logicalAttr] = logical
	case logicalDecimal:
		out[logicalAttr] = logical
		attributes = append(attributes, precisionAttr, scaleAttr)
	}
	for _, name := range attributes {
		value, there := of.node[name]
		n, ok := integer(value)
		if there && !ok {
			return node
		}
		if there {
			out[name] = n
		}
	}
	s.changed = true
	return out
}

// The logical types of fixed types that Iceberg writes.
const (
	logicalDecimal = "decimal"
	logicalUUID    = "uuid"
)

// integer converts a JSON number of a schema. It returns false if v is not an integer.
func integer(v any) (int, bool) {
	number, ok := v.(json.Number)
	n, err := strconv.Atoi(number.String())
	return n, ok && err == nil
}
