package dataset

import (
	"fmt"
	"strconv"
	"strings"
)

// kind is what a node is, in either syntax.
type kind int

const (
	kindNull kind = iota
	kindBool
	kindWhole  // a whole number in plain digits
	kindNumber // any other number
	kindTime   // a date or time of YAML, unquoted
	kindText
	kindList
	kindObject
)

// String names the kind as faults say it.
func (k kind) String() string {
	return [...]string{"null", "true or false", "a whole number", "a number with a point or exponent", "a date", "text", "a list", "an object"}[k]
}

// node is a value of YAML or JSON. All that decodes reads this one tree, so
// both syntaxes mean the same.
type node struct {
	kind    kind
	text    string    // of a bool, a number or text
	written string    // what stands in the file, of a single value in YAML
	line    int       // where it begins, 1-based; 0 where lines say nothing (JSON)
	items   []*node   // of a list
	members []*member // of an object, in the order written, names unique
}

// member is one field of an object.
type member struct {
	name  string
	line  int
	value *node
}

// place is a node and the path that leads to it, as faults name it.
type place struct {
	*node
	path string
}

func (p place) item(i int) place {
	return place{p.items[i], p.path + indexed(i)}
}

func (p place) member(m *member) place {
	return place{m.value, join(p.path, m.name)}
}

// indexed is how a path names the i-th entry of a list.
func indexed(i int) string { return "[" + strconv.Itoa(i) + "]" }

// join adds a member to a path. Names that would be misread are quoted.
func join(path, name string) string {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`.[]"`, r) }) {
		return fmt.Sprintf("%s[%q]", path, name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
