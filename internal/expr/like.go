package expr

import (
	"bytes"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// prefixed asks whether a text begins with a prefix, which is not empty.
type prefixed struct {
	column  column
	prefix  string
	negated bool
}

// like binds LIKE or NOT LIKE.
func (b *binder) like(n *like, negated bool) rule {
	c, ok := b.column(n.operand)
	switch {
	case !ok:
		return constant(false)
	case c.shape.family != texts:
		return b.fail(n.operand.position, "column %q (%s) is no string: LIKE serves strings alone", c.name, c.typeName)
	}
	if whole, ok := n.pattern.whole(); ok {
		o := eq
		if negated {
			o = ne
		}
		return compareRule(o, c, literal{kind: textLiteral, text: whole})
	}
	prefix := n.pattern.prefix()
	switch {
	case !n.pattern.begins():
		return &matched{column: c, pattern: n.pattern, negated: negated}
	case prefix != "":
		return &prefixed{column: c, prefix: prefix, negated: negated}
	case negated:
		return constant(false)
	default:
		return nullTest(c, false)
	}
}

func (p *prefixed) text() string {
	return likeText(p.column, pattern{{text: p.prefix}, {any: true}}, p.negated)
}

func likeText(c column, p pattern, negated bool) string {
	word := " LIKE "
	if negated {
		word = " NOT LIKE "
	}
	return quoteName(c.name) + word + quoteText(p.String())
}

func (p *prefixed) cost() int                   { return p.column.shape.cost() }
func (p *prefixed) visit(callback func(column)) { callback(p.column) }

func (p *prefixed) keep(e *evaluation, rows []uint64) {
	a := e.arrays[p.column.name]
	valid, match := validity(a), p.match(a)
	e.each(rows, func(begin, end int) uint64 { return match(begin, end) & valid(begin, end) })
}

func (p *prefixed) match(a arrow.Array) wordFunc {
	at, prefix := bytesAt(a), []byte(p.prefix)
	return words(func(i int) bool { return bytes.HasPrefix(at(i), prefix) != p.negated })
}

// mayMatch knows that the texts with a prefix are neighbours in byte order, and
// that the prefix itself would be the first of them.
func (p *prefixed) mayMatch(ranges func(string) (Range, bool)) bool {
	r, known := ranges(p.column.name)
	if !known {
		return true
	}
	if r.allNull() {
		return false
	}
	lower, hasLower := r.Lower.text, r.HasLower && r.Lower.kind == textValue
	upper, hasUpper := r.Upper.text, r.HasUpper && r.Upper.kind == textValue
	switch {
	case hasLower && hasUpper && lower > upper:
		return true // no bounds at all
	case p.negated:
		// All texts between two with the prefix have it.
		return !hasLower || !hasUpper || !strings.HasPrefix(lower, p.prefix) || !strings.HasPrefix(upper, p.prefix)
	case hasUpper && upper < p.prefix:
		return false
	default:
		return !hasLower || lower <= p.prefix || strings.HasPrefix(lower, p.prefix)
	}
}

// matched asks whether a text matches a pattern that is more than a beginning.
type matched struct {
	column  column
	pattern pattern
	negated bool
}

func (m *matched) text() string { return likeText(m.column, m.pattern, m.negated) }

// cost is more than that of a beginning: all of a text is looked at.
func (m *matched) cost() int { return 2 * m.column.shape.cost() }

func (m *matched) visit(callback func(column)) { callback(m.column) }

func (m *matched) keep(e *evaluation, rows []uint64) {
	a := e.arrays[m.column.name]
	at := bytesAt(a)
	valid, match := validity(a), words(func(i int) bool { return m.pattern.match(at(i)) != m.negated })
	e.each(rows, func(begin, end int) uint64 { return match(begin, end) & valid(begin, end) })
}

// mayMatch knows what a text begins with that matches, and nothing of one that does not.
func (m *matched) mayMatch(ranges func(string) (Range, bool)) bool {
	prefix := m.pattern.prefix()
	if m.negated || prefix == "" {
		r, known := ranges(m.column.name)
		return !known || !r.allNull()
	}
	return (&prefixed{column: m.column, prefix: prefix}).mayMatch(ranges)
}
