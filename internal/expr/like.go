package expr

import (
	"bytes"
	"errors"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// prefixOf returns the beginning that a pattern of LIKE asks for, with escapes
// resolved.
func prefixOf(pattern string) (string, error) {
	text := strings.TrimRight(pattern, "%")
	escapes := len(text) - len(strings.TrimRight(text, `\`))
	if escapes%2 == 1 && len(text) < len(pattern) {
		text += "%" // the first of the trailing ones is escaped
	}
	wildcard := len(text) < len(pattern)
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '%' || c == '_':
			return "", errors.New(`LIKE serves 'x%' alone, a pattern with one wildcard, % at its end: write \% or \_ for the character itself`)
		case c != '\\':
		case i+1 < len(text) && strings.IndexByte(`%_\`, text[i+1]) >= 0:
			i++
			c = text[i]
		default:
			return "", errors.New(`a backslash in a pattern of LIKE stands before %, _ or another backslash`)
		}
		b.WriteByte(c)
	}
	if !wildcard {
		return "", errors.New("LIKE serves 'x%' alone, a pattern that ends in %: write = for a whole string")
	}
	return b.String(), nil
}

// patternOf is the inverse of prefixOf.
func patternOf(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(prefix) + "%"
}

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
	case n.prefix == "" && negated:
		return constant(false)
	case n.prefix == "":
		return nullTest(c, false)
	default:
		return &prefixed{column: c, prefix: n.prefix, negated: negated}
	}
}

func (p *prefixed) text() string {
	word := " LIKE "
	if p.negated {
		word = " NOT LIKE "
	}
	return quoteName(p.column.name) + word + quoteText(patternOf(p.prefix))
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
