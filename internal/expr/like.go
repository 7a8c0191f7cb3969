package expr

import (
	"bytes"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr/operator"
)

// prefixMatch tests whether a text begins with a prefix, which is not empty.
type prefixMatch struct {
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
	case c.typ.family != texts:
		return b.fail(n.operand.position, "%s is not a string: LIKE supports only strings", c)
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
		return &patternMatch{column: c, pattern: n.pattern, negated: negated}
	case prefix != "":
		return &prefixMatch{column: c, prefix: prefix, negated: negated}
	case negated:
		return constant(false)
	default:
		return nullTest(c, false)
	}
}

func (p *prefixMatch) text() string {
	return likeText(p.column, pattern{{text: p.prefix}, {any: true}}, p.negated)
}

func likeText(c column, p pattern, negated bool) string {
	word := " LIKE "
	if negated {
		word = " NOT LIKE "
	}
	return c.text() + word + quoteText(p.String())
}

func (p *prefixMatch) cost() int                   { return p.column.cost() }
func (p *prefixMatch) visit(callback func(column)) { p.column.visited(callback) }

func (p *prefixMatch) keep(e *evaluation, rows []uint64) {
	a := e.array(p.column, rows)
	if a == nil {
		return
	}
	defer a.Release()
	valid, match := operator.Validity(a), p.match(a)
	e.each(rows, func(begin, end int) uint64 { return match(begin, end) & valid(begin, end) })
}

func (p *prefixMatch) match(a arrow.Array) wordFunc {
	at, prefix := bytesAt(a), []byte(p.prefix)
	return words(func(i int) bool { return bytes.HasPrefix(at(i), prefix) != p.negated })
}

// mayMatch relies on byte order: texts with a common prefix are contiguous, and the
// prefix itself is the first of them.
func (p *prefixMatch) mayMatch(ranges func(string) (Range, bool)) bool {
	r, known := p.column.ranged(ranges)
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
		return true // these are no valid bounds
	case p.negated:
		// All texts between two texts with the prefix have the prefix.
		return !hasLower || !hasUpper || !strings.HasPrefix(lower, p.prefix) || !strings.HasPrefix(upper, p.prefix)
	case hasUpper && upper < p.prefix:
		return false
	default:
		return !hasLower || lower <= p.prefix || strings.HasPrefix(lower, p.prefix)
	}
}

// patternMatch tests whether a text matches a pattern that is not just a prefix.
type patternMatch struct {
	column  column
	pattern pattern
	negated bool
}

func (m *patternMatch) text() string { return likeText(m.column, m.pattern, m.negated) }

// cost is higher than that of a prefix, since all of a text is read.
func (m *patternMatch) cost() int { return 2 * m.column.cost() }

func (m *patternMatch) visit(callback func(column)) { m.column.visited(callback) }

func (m *patternMatch) keep(e *evaluation, rows []uint64) {
	a := e.array(m.column, rows)
	if a == nil {
		return
	}
	defer a.Release()
	at := bytesAt(a)
	valid, match := operator.Validity(a), words(func(i int) bool { return m.pattern.match(at(i)) != m.negated })
	e.each(rows, func(begin, end int) uint64 { return match(begin, end) & valid(begin, end) })
}

// mayMatch uses the prefix of the pattern. It excludes nothing but nulls for NOT LIKE.
func (m *patternMatch) mayMatch(ranges func(string) (Range, bool)) bool {
	prefix := m.pattern.prefix()
	if m.negated || prefix == "" {
		r, known := m.column.ranged(ranges)
		return !known || !r.allNull()
	}
	return (&prefixMatch{column: m.column, prefix: prefix}).mayMatch(ranges)
}
