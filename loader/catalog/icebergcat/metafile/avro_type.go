package metafile

import "math"

// avroType has the parts of an Avro type that are needed to find the end of its values.
type avroType struct {
	form  avroForm
	size  int         // of a fixed
	inner []*avroType // of a record, a union, an array or a map
	width int         // number of values inside a value: for a union, that of the largest branch; for an array or map, that of one item
}

// avroForm is the way in which a value is encoded.
type avroForm int

const (
	formNothing avroForm = iota // null
	formByte                    // boolean
	formNumber                  // int, long, enum: a varint
	formFour                    // float
	formEight                   // double
	formSized                   // bytes, string: a length, and then as many bytes
	formExact                   // a fixed that is a decimal or a UUID
	formFixed                   // any other fixed
	formRecord
	formUnion
	formArray
	formMap
)

// plainForm returns the form of a primitive type.
func plainForm(name string) (avroForm, bool) {
	switch name {
	case "null":
		return formNothing, true
	case "boolean":
		return formByte, true
	case "int", "long":
		return formNumber, true
	case "float":
		return formFour, true
	case "double":
		return formEight, true
	case "bytes", "string":
		return formSized, true
	default:
		return formNothing, false
	}
}

// typeCompiler converts a schema to avroTypes. It converts each named type once.
type typeCompiler struct {
	*avroSchema
	done  map[string]*avroType // named types that were converted, by full name
	fixed bool                 // whether a type has formFixed
}

// compile converts a schema. It returns the type of the schema's records, and the compiler, which
// has the named types. It returns false if the schema refers to a type that it does not define.
func (s *avroSchema) compile() (*typeCompiler, *avroType, bool) {
	c := &typeCompiler{avroSchema: s, done: map[string]*avroType{}}
	root, ok := c.typeOf(s.root, "")
	return c, root, ok
}

// typeOf converts a node of a schema. It returns false for a node that is not a schema.
func (c *typeCompiler) typeOf(node any, space string) (*avroType, bool) {
	switch node := node.(type) {
	case string:
		if form, ok := plainForm(node); ok {
			return &avroType{form: form, width: 1}, true
		}
		return c.namedType(node, space)
	case []any:
		return c.compound(formUnion, node, space)
	case map[string]any:
		kind, ok := node[typeAttr].(string)
		switch {
		case !ok:
			return c.typeOf(node[typeAttr], space)
		case isNamed(kind):
			return c.namedType(node, space)
		case kind == avroArray:
			return c.compound(formArray, children(node, kind), space)
		case kind == avroMap:
			return c.compound(formMap, children(node, kind), space)
		default:
			return c.typeOf(kind, space)
		}
	default:
		return nil, false
	}
}

func (c *typeCompiler) compound(form avroForm, nodes []any, space string) (*avroType, bool) {
	out := &avroType{form: form, inner: make([]*avroType, len(nodes)), width: 1}
	for i, node := range nodes {
		var ok bool
		if out.inner[i], ok = c.typeOf(node, space); !ok {
			return nil, false
		}
		if form == formUnion {
			out.width = max(out.width, 1+out.inner[i].width)
		} else {
			out.width = min(out.width+out.inner[i].width, math.MaxInt32)
		}
	}
	return out, true
}

// namedType converts the definition of a named type, or resolves a reference to one. A record may
// refer to itself; such a reference counts as a width of 1.
func (c *typeCompiler) namedType(node any, space string) (*avroType, bool) {
	of, ok := c.definition(node, space)
	if !ok {
		return nil, false
	}
	name, _ := fullName(of.node, of.space)
	if known, ok := c.done[name]; ok {
		return known, true
	}
	out := &avroType{width: 1}
	c.done[name] = out
	switch of.node[typeAttr] {
	case avroEnum:
		out.form = formNumber
	case avroFixed:
		out.form = formExact
		if logical := of.node[logicalAttr]; logical != logicalDecimal && logical != logicalUUID {
			out.form, c.fixed = formFixed, true
		}
		out.size, ok = integer(of.node[sizeAttr])
		return out, ok && out.size >= 0
	default:
		record, ok := c.compound(formRecord, children(of.node, avroRecord), of.space)
		if !ok {
			return nil, false
		}
		*out = *record
	}
	return out, true
}
