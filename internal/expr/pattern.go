package expr

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"
)

// pattern is what LIKE asks of a whole text: its parts, one after the other. Literals that
// touch are one, and of wildcards that touch those of one code point come first, then at
// most one of any number: so patterns that ask for the same are equal.
type pattern []part

// part is a literal, if text is not empty; else a wildcard: any number of code points, or
// exactly one.
type part struct {
	text string
	any  bool
}

// parsePattern reads a pattern: % is any number of code points, _ is one, and a backslash
// before either or before another backslash makes it stand for itself.
func parsePattern(text string) (pattern, error) {
	var out pattern
	var literal strings.Builder
	end := func() {
		if literal.Len() > 0 {
			out = append(out, part{text: literal.String()})
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
				return nil, errors.New(`a backslash in a pattern of LIKE stands before %, _ or another backslash`)
			}
			literal.WriteByte(text[i])
		default:
			literal.WriteByte(c)
		}
	}
	end()
	return out, nil
}

// wildcard appends one.
func (p pattern) wildcard(any bool) pattern { //nolint:predeclared // the field's name
	if len(p) > 0 && p[len(p)-1].any {
		if !any {
			return append(p[:len(p)-1], part{}, part{any: true})
		}
		return p
	}
	return append(p, part{any: any})
}

// String writes the pattern as parsePattern reads it.
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

// prefix is what every text begins with that matches.
func (p pattern) prefix() string {
	if len(p) == 0 {
		return ""
	}
	return p[0].text
}

// whole returns the one text that matches, of a pattern without wildcards.
func (p pattern) whole() (string, bool) {
	return p.prefix(), len(p) == 0 || len(p) == 1 && p[0].text != ""
}

// begins says whether all texts with the prefix match, and no others.
func (p pattern) begins() bool {
	return len(p) > 0 && p[len(p)-1].any && (len(p) == 1 || len(p) == 2 && p[0].text != "")
}

// match says whether a whole text matches. Where it does not from a place on, what the
// last wildcard of any number covers becomes one code point longer: those before it need
// not be looked at again, as they cover as little as they can.
func (p pattern) match(text []byte) bool {
	at, next := 0, 0      // of the text, of the pattern
	retry, after := -1, 0 // where the text goes on behind that wildcard, and the pattern
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

// take returns how many bytes of the text's beginning a literal, or one code point, is.
func (o part) take(text []byte) (int, bool) {
	if o.text != "" {
		return len(o.text), len(text) >= len(o.text) && string(text[:len(o.text)]) == o.text
	}
	_, n := utf8.DecodeRune(text)
	return n, n > 0
}

// skip returns how many bytes of a text, at least one code point, cannot begin what
// matches.
func (o part) skip(text []byte) int {
	_, n := utf8.DecodeRune(text)
	if o.text == "" {
		return n
	}
	if found := bytes.Index(text[n:], []byte(o.text)); found >= 0 {
		return n + found
	}
	return len(text)
}
