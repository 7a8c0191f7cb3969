package decode

import (
	"strconv"

	"github.com/penstock/penstock/internal/fault"
)

// kind is the kind of a node, in either format.
type kind int

const (
	kindNull kind = iota
	kindBool
	kindWhole  // a whole number in plain digits
	kindNumber // any other number
	kindTime   // an unquoted date or time in YAML
	kindText
	kindList
	kindObject
)

// String names the kind for use in faults.
func (k kind) String() string {
	return [...]string{"null", "true or false", "a whole number", "a number with a point or exponent", "a date", "text", "a list", "an object"}[k]
}

// node is a value in YAML or JSON. Both formats are decoded from this tree, so they have
// the same meaning.
type node struct {
	kind    kind
	text    string    // for a bool, number or text
	written string    // original text of a single value in YAML
	line    int       // first line, 1-based; 0 in JSON, where lines are not tracked
	items   []*node   // for a list
	members []*member // for an object, in the original order, with unique names
}

// member is a field of an object.
type member struct {
	name  string
	line  int
	value *node
}

// member returns the field with a name, or nil.
func (n *node) member(name string) *member {
	for _, m := range n.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// place is a node and its path, as faults name it.
type place struct {
	*node
	path string
}

func (p place) item(i int) place {
	return place{p.items[i], p.path + indexed(i)}
}

func (p place) member(m *member) place {
	return place{m.value, p.pathOf(m.name)}
}

// pathOf returns the path of a member, which need not exist.
func (p place) pathOf(name string) string { return fault.FieldPath(p.path, name) }

// has reports whether an object has a field that is not null.
func (p place) has(name string) bool {
	m := p.node.member(name)
	return m != nil && m.value.kind != kindNull
}

// indexed returns the path suffix of the i-th entry of a list.
func indexed(i int) string { return "[" + strconv.Itoa(i) + "]" }
