package expr

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

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

// pattern is a LIKE pattern, as a sequence of elements. It is normalized, so that equivalent
// patterns are equal: adjacent literals are merged, and of adjacent wildcards those for one
// code point come first, followed by at most one for any number.
type pattern []element

// element is a literal if text is not empty; otherwise a wildcard for any number of code
// points, or for exactly one.
type element struct {
	text string
	any  bool
}

// parsePattern parses a pattern: % stands for any number of code points, _ for one, and a
// backslash escapes either of them or another backslash.
func parsePattern(text string) (pattern, error) {
	var out pattern
	var literal strings.Builder
	end := func() {
		if literal.Len() > 0 {
			out = append(out, element{text: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '%', '_':
			end()
			out = out.wildcard(c == '%')
		case '\\':
			if i++; i == len(text) || strings.IndexByte(`%_\`, text[i]) < 0 {
				return nil, errors.New(`in a pattern of LIKE, a backslash must be followed by %, _ or another backslash`)
			}
			literal.WriteByte(text[i])
		default:
			literal.WriteByte(c)
		}
	}
	end()
	return out, nil
}

// wildcard appends a wildcard and normalizes.
func (p pattern) wildcard(any bool) pattern { //nolint:predeclared // the field's name
	if len(p) > 0 && p[len(p)-1].any {
		if !any {
			return append(p[:len(p)-1], element{}, element{any: true})
		}
		return p
	}
	return append(p, element{any: any})
}

// String returns the text that parsePattern parses as the pattern.
func (p pattern) String() string {
	escape := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
	var b strings.Builder
	for _, one := range p {
		switch {
		case one.text != "":
			b.WriteString(escape.Replace(one.text))
		case one.any:
			b.WriteByte('%')
		default:
			b.WriteByte('_')
		}
	}
	return b.String()
}

// prefix returns the literal with which every matching text begins, or "".
func (p pattern) prefix() string {
	if len(p) == 0 {
		return ""
	}
	return p[0].text
}

// whole returns the only matching text of a pattern without wildcards.
func (p pattern) whole() (string, bool) {
	return p.prefix(), len(p) == 0 || len(p) == 1 && p[0].text != ""
}

// begins reports whether the pattern matches exactly the texts with its prefix.
func (p pattern) begins() bool {
	return len(p) > 0 && p[len(p)-1].any && (len(p) == 1 || len(p) == 2 && p[0].text != "")
}

// match reports whether a whole text matches. On a mismatch it backtracks: the last
// wildcard for any number covers more. Earlier wildcards need no backtracking, since each
// covers as little as possible.
func (p pattern) match(text []byte) bool {
	at, next := 0, 0      // positions in the text and in the pattern
	retry, after := -1, 0 // positions after the last wildcard for any number
	for next < len(p) || at < len(text) {
		if next < len(p) {
			one := p[next]
			if one.any {
				if next++; next == len(p) {
					return true
				}
				retry, after = at, next
				continue
			}
			if n, ok := one.take(text[at:]); ok {
				at, next = at+n, next+1
				continue
			}
		}
		if retry < 0 || retry >= len(text) {
			return false
		}
		retry += p[after].skip(text[retry:])
		at, next = retry, after
	}
	return true
}

// take returns the length of the literal, or of one code point, if the text begins with it.
func (e element) take(text []byte) (int, bool) {
	if e.text != "" {
		return len(e.text), len(text) >= len(e.text) && string(text[:len(e.text)]) == e.text
	}
	_, n := utf8.DecodeRune(text)
	return n, n > 0
}

// skip returns the number of bytes, at least one code point, before the next position at
// which the element may match.
func (e element) skip(text []byte) int {
	_, n := utf8.DecodeRune(text)
	if e.text == "" {
		return n
	}
	if found := bytes.Index(text[n:], []byte(e.text)); found >= 0 {
		return n + found
	}
	return len(text)
}
