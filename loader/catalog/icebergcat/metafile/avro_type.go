package metafile

import "math"

// avroType is what a type of an Avro file says about where its values end.
type avroType struct {
	form  avroForm
	size  int         // of a fixed
	inner []*avroType // of a record, a union, an array or a map
	width int         // values in a value: the maximum of a union, those of one item of an array or map
}

// avroForm is how a value is written.
type avroForm int

const (
	formNothing avroForm = iota // null
	formByte                    // boolean
	formNumber                  // int, long, enum: a varint
	formFour                    // float
	formEight                   // double
	formSized                   // bytes, string: a length and as many bytes
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

// typeCompiler compiles a schema to avroTypes, each named type once.
type typeCompiler struct {
	*avroSchema
	done  map[string]*avroType // of named types
	fixed bool                 // whether there is a formFixed
}

// compile returns the compiler of a schema, and the type of its records. It returns false
// if the schema refers to a type that it does not define.
func (s *avroSchema) compile() (*typeCompiler, *avroType, bool) {
	c := &typeCompiler{avroSchema: s, done: map[string]*avroType{}}
	root, ok := c.typeOf(s.root, "")
	return c, root, ok
}

// typeOf compiles a node. It returns false for a node that is not a schema.
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

// namedType compiles the definition of a named type, or resolves a reference to one. A
// record may refer to itself, with a width of 1 there.
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
