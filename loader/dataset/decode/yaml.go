package decode

import (
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// Dataset decodes a dataset of a config file, given its name and value. The fields of
// faults are paths inside the dataset, such as "staging[0].key".
func Dataset(name string, value *yaml.Node) (dataset.Dataset, error) {
	d := newDecoder()
	out := readNamed(d, name, d.yaml(value, 0, maxNodes))
	if err := d.err(); err != nil {
		return dataset.Dataset{}, fault.Op(err, "read dataset %s", name)
	}
	return out, nil
}

// yaml converts a YAML value, either a document or a part of one, to a tree. depth is the nesting
// of the value in its text, and limit is the maximum number of nodes.
func (d *decoder) yaml(value *yaml.Node, depth, limit int) place {
	r := yamlReader{decoder: d, limit: limit}
	if value != nil && value.Kind == yaml.DocumentNode && len(value.Content) > 0 {
		value = value.Content[0]
	}
	return place{r.value("", value, depth), ""}
}

// yamlReader builds the tree of a YAML value. It follows aliases, so it counts the nodes
// that it creates: a short text can expand to a huge or infinite tree.
type yamlReader struct {
	*decoder
	nodes int
	limit int  // maximum number of nodes
	stop  bool // too deep or too large: the fault is recorded, and the rest is not read
}

func (r *yamlReader) value(path string, y *yaml.Node, depth int) *node {
	if y == nil || y.Kind == 0 || r.stop {
		return &node{}
	}
	r.lines[path] = y.Line
	if r.nodes++; depth > maxDepth || r.nodes > r.limit {
		r.stop = true
		r.tooLarge(path, r.limit)
		return &node{}
	}
	switch y.Kind {
	case yaml.AliasNode:
		return r.value(path, y.Alias, depth+1)
	case yaml.SequenceNode:
		n := &node{kind: kindList, line: y.Line}
		for i, item := range y.Content {
			n.items = append(n.items, r.value(path+indexed(i), item, depth+1))
		}
		return n
	case yaml.MappingNode:
		n := &node{kind: kindObject, line: y.Line}
		r.members(path, y, n, depth)
		return n
	default:
		return r.scalar(path, y)
	}
}

// members adds the fields of a mapping to n. Fields of the mapping itself take precedence
// over merged fields ("<<"), and earlier merges over later ones.
func (r *yamlReader) members(path string, y *yaml.Node, n *node, depth int) {
	at := map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge":
			merged = append(merged, value)
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!null":
			r.failAt(key.Line, path, "a field's name must be text")
		case at[key.Value] > 0:
			r.failAt(key.Line, fault.FieldPath(path, key.Value), "the field is repeated, first on line %d", at[key.Value])
		default:
			at[key.Value] = key.Line
			p := fault.FieldPath(path, key.Value)
			n.members = append(n.members, &member{name: key.Value, line: key.Line, value: r.value(p, value, depth+1)})
			r.lines[p] = key.Line
		}
	}
	for _, value := range merged {
		r.merge(path, r.value(fault.FieldPath(path, "<<"), value, depth+1), n)
	}
}

func (r *yamlReader) merge(path string, from, n *node) {
	switch from.kind {
	case kindList:
		for _, item := range from.items {
			r.merge(path, item, n)
		}
	case kindObject:
		for _, m := range from.members {
			if n.member(m.name) == nil {
				n.members = append(n.members, m)
				r.lines[fault.FieldPath(path, m.name)] = m.line
			}
		}
	case kindNull, kindBool, kindWhole, kindNumber, kindTime, kindText:
		r.fail(fault.FieldPath(path, "<<"), "must merge a mapping or a list of them, not %s", from.kind)
	}
}

func (r *yamlReader) scalar(path string, y *yaml.Node) *node {
	n := &node{kind: kindText, text: y.Value, written: y.Value, line: y.Line}
	switch tag := y.ShortTag(); tag {
	case "!!str", "!!merge":
	case "!!null":
		n.kind = kindNull
	case "!!bool":
		n.kind = kindBool
	case "!!int":
		n.kind = kindWhole
		var whole int64
		if y.Decode(&whole) == nil { // also accepts 0x10 and 1_000
			n.text = strconv.FormatInt(whole, 10)
		}
	case "!!float":
		n.kind = kindNumber
		var number float64
		if y.Decode(&number) == nil { // also accepts .5 and 1_000.5
			n.text = strconv.FormatFloat(number, 'g', -1, 64)
		}
	case "!!timestamp":
		n.kind = kindTime
	default:
		r.fail(path, "values of type %s are not supported", tag)
	}
	return n
}
