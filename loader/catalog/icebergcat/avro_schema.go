package icebergcat

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

// The kinds of Avro types that have names, or other types inside of them.
const (
	avroRecord = "record"
	avroError  = "error" // a record by another name
	avroFixed  = "fixed"
	avroEnum   = "enum"
	avroArray  = "array"
	avroMap    = "map"
)

// The names of manifest fields, and the attributes of Avro schemas, that lead to the
// fields of a partition.
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

// avroSchema is the schema of an Avro file, as its header writes it in JSON.
type avroSchema struct {
	root    any
	named   map[string]avroNamed // by full name
	changed bool                 // against the text of the file
}

// avroNamed is the definition of a named type.
type avroNamed struct {
	node  map[string]any
	space string // namespace of the names inside of it
}

// recordForm is what the schema of an Avro file says of its records.
type recordForm struct {
	written []byte    // the text of the schema
	text    []byte    // of the schema, as the decoder gets it
	record  int64     // bytes that are charged for a record, beyond those of its block
	fixed   *avroType // of the records, if values of formFixed are in them; else nil
}

// mostRemembered is the longest schema that is remembered, in bytes. A manifest's has about
// 6,000, and 100 more for a partition field.
const mostRemembered = 64 << 10

// partitionValues is how many values of a partition perRecord pays for. A field has two, as
// it may be null.
const partitionValues = 64

// recordForms remembers the form of the last schema: the manifests of a table have few.
type recordForms struct{ last atomic.Pointer[recordForm] }

// of returns the form of a file's records. The file is charged for what is parsed.
func (r *recordForms) of(a allowance, text []byte) (*recordForm, error) {
	if last := r.last.Load(); last != nil && bytes.Equal(last.written, text) {
		return last, nil
	}
	if err := a.parsing(text); err != nil {
		return nil, err
	}
	remembered := len(text) <= mostRemembered
	if remembered {
		text = bytes.Clone(text) // which is part of the file
	}
	out, err := formOf(text)
	if err == nil && remembered {
		r.last.Store(out)
	}
	return out, err
}

// formOf reads the schema of an Avro file. Types that refer to each other can say in a few
// bytes that a record has more values than a machine can hold, with not a byte of data:
// more values than the text has bytes are an error.
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

// collect enters the definitions inside of a node. It is false if a name is defined twice,
// except for a fixed type that is the same again: PyIceberg 0.12 defines it for each field.
// That becomes a reference.
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

// sameFixed says whether two definitions are of one fixed type.
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

// children returns the types that a type of a kind has inside of it.
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

// fullName returns the full name of a definition that lies in a namespace, and the
// namespace of the names inside of it.
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

// partition returns the record of a manifest's partition values.
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

// mend changes the fields of a manifest's partition values so that iceberg-go 0.7.0 reads
// them:
//
//   - Where a name has other characters than Avro's grammar allows, each field gets a name
//     made of its field id, by which iceberg-go finds its values. Iceberg's Java library
//     writes letters of all scripts as they are, and iceberg-go's Avro library refuses them.
//   - A reference to a fixed type becomes a definition with a name of its own. Writers
//     define a type once, and iceberg-go looks for the logical type of a field at the
//     field alone, so it would give the values of the second field unconverted.
//
// docs/upstream has the same mend as a patch for iceberg-go. What replaces a reference has
// a bounded length, whatever it refers to. Fields that do not follow the specification are
// left as they are.
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
	// All are renamed or none, so that no new name is another field's.
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

// isAvroName says whether a name follows Avro's grammar.
func isAvroName(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// defined returns the type of a field with a definition in place of each reference to a
// fixed type. The names of definitions begin with the field's.
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

// integer is a number of a schema's JSON.
func integer(v any) (int, bool) {
	number, ok := v.(json.Number)
	n, err := strconv.Atoi(number.String())
	return n, ok && err == nil
}
