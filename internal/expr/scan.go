package expr

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/fault"
)

// tokenKind is the kind of a token.
type tokenKind int

const (
	endToken      tokenKind = iota // the end of the text
	keywordToken                   // in upper case
	nameToken                      // plain, or with its double quotes
	numberToken                    // without a sign
	textToken                      // with its quotes
	typedToken                     // DATE '…' or X'…', including the prefix; so date, time, timestamp and x are not reserved
	operatorToken                  // a comparison
	punctToken                     // one of ( ) [ ] , . + - * / % ||
)

// token is a lexical element. Tokens of different kinds have different texts, so that
// keywords, operators and punctuation are identified by their text.
type token struct {
	kind   tokenKind
	text   string
	column int // 1-based, in characters from the start of the filter
}

// isKeyword reports whether an upper-case word is reserved. Columns with such names
// must be quoted.
func isKeyword(word string) bool {
	return slices.Contains(keywords(), word)
}

func keywords() []string {
	return []string{"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "LIKE", "TRUE", "FALSE"}
}

// isChoiceWord reports whether an upper-case word is a word of CASE. These words are reserved within
// CASE only, but canonical texts always quote columns with such names.
func isChoiceWord(word string) bool {
	switch word {
	case "CASE", "WHEN", "THEN", "ELSE", "END":
		return true
	default:
		return false
	}
}

// scanner splits a text into tokens.
type scanner struct {
	rest   string // the text that is not scanned yet
	column int    // the position of rest: 1-based, in characters
	tokens []token
	fault  *fault.Field
}

// scan returns the tokens of a text. The last one is an endToken.
func scan(text string) ([]token, *fault.Field) {
	s := &scanner{rest: text, column: 1}
	for s.fault == nil && s.rest != "" {
		s.next()
	}
	s.emit(endToken, 0)
	return s.tokens, s.fault
}

// emit adds a token of n bytes and moves past it.
func (s *scanner) emit(kind tokenKind, n int) {
	t := token{kind: kind, text: s.rest[:n], column: s.column}
	if word := strings.ToUpper(t.text); kind == nameToken && isKeyword(word) {
		t.kind, t.text = keywordToken, word
	}
	s.tokens = append(s.tokens, t)
	s.skip(n)
}

func (s *scanner) skip(n int) {
	s.column += utf8.RuneCountInString(s.rest[:n])
	s.rest = s.rest[n:]
}

func (s *scanner) fail(format string, args ...any) {
	s.fault = &fault.Field{Position: s.column, Message: fmt.Sprintf(format, args...)}
}

func (s *scanner) next() {
	first, size := utf8.DecodeRuneInString(s.rest)
	switch {
	case strings.ContainsRune(blanks, first):
		s.skip(1)
	case first == '\'':
		s.quoted(textToken, 0)
	case first == '"':
		s.quoted(nameToken, 0)
	case isDigit(first) || first == '.' && digits(s.rest[1:]) > 0:
		s.emit(numberToken, numeralLength(s.rest))
	case isNameStart(first):
		s.word()
	case strings.HasPrefix(s.rest, "<>"), strings.HasPrefix(s.rest, "!="),
		strings.HasPrefix(s.rest, "<="), strings.HasPrefix(s.rest, ">="):
		s.emit(operatorToken, 2)
	case strings.HasPrefix(s.rest, "||"):
		s.emit(punctToken, len("||"))
	case first == '=' || first == '<' || first == '>':
		s.emit(operatorToken, 1)
	case strings.ContainsRune("()[],.+-*/%", first):
		s.emit(punctToken, size)
	default:
		if strings.HasPrefix(s.rest, "::") {
			s.fail("unexpected ::: a cast is written CAST(x AS type)")
			return
		}
		s.fail("unexpected character %q%s", first, suggestion(first))
	}
}

// suggestion returns the end of an error message: what to write instead of a character of
// other languages, or "".
func suggestion(found rune) string {
	switch found {
	case '&':
		return ": conditions are joined by AND"
	case '|':
		return ": conditions are joined by OR"
	case '!':
		return ": write NOT, and <> where values differ"
	case '~':
		return ": text is matched by LIKE, with % and _"
	case '\u2018', '\u2019', '\u201c', '\u201d', '\u201e':
		return ": strings are written in straight single quotes, ', and names in \""
	case '\u00a0', '\u2009', '\u202f', '\u3000':
		return ": write a plain space"
	case '^':
		return ": a power is written power(x, n)"
	case '`':
		return ": names are quoted with \""
	case ';':
		return ": a filter is one condition"
	case '?', ':', '$', '@', '#':
		return ": write the value itself, strings in single quotes"
	default:
		return ""
	}
}

const blanks = " \t\r\n"

// word scans a name, a keyword or a typed literal.
func (s *scanner) word() {
	n := strings.IndexFunc(s.rest, func(r rune) bool { return !isNameStart(r) && !isDigit(r) })
	if n < 0 {
		n = len(s.rest)
	}
	literal := strings.TrimLeft(s.rest[n:], blanks)
	prefix := len(s.rest) - len(literal)
	if strings.HasPrefix(literal, "'") {
		switch strings.ToUpper(s.rest[:n]) {
		case "DATE", "TIME", "TIMESTAMP", fittedWord:
			s.quoted(typedToken, prefix)
			return
		case "X":
			if prefix == n {
				s.quoted(typedToken, prefix)
				return
			}
		}
	}
	s.emit(nameToken, n)
}

// quoted scans a quoted token after a prefix of the given number of bytes. The token's
// text includes quotes and escapes.
func (s *scanner) quoted(kind tokenKind, prefix int) {
	body := s.rest[prefix:]
	quote := body[:1]
	for n := 1; ; n += 2 { // n counts bytes of body, up to a quote that may be the closing one
		length := strings.Index(body[n:], quote)
		if length < 0 {
			break
		}
		n += length
		if !strings.HasPrefix(body[n+1:], quote) {
			s.emit(kind, prefix+n+1)
			return
		}
	}
	what := "string"
	if kind == nameToken {
		what = "quoted name"
	}
	s.fail("the %s that starts here is not closed", what)
}

// unquote removes the quotes and escapes of a string or quoted name.
func unquote(token string) string {
	quote := token[:1]
	return strings.ReplaceAll(token[1:len(token)-1], quote+quote, quote)
}

// numeralLength returns the length of the number at the beginning of a text: digits, a
// fraction, and an exponent if it has digits.
func numeralLength(s string) int {
	n := digits(s)
	if strings.HasPrefix(s[n:], ".") {
		n += 1 + digits(s[n+1:])
	}
	if n == len(s) || s[n] != 'e' && s[n] != 'E' {
		return n
	}
	power := strings.TrimLeft(s[n+1:], "+-")
	if sign := len(s) - n - 1 - len(power); sign <= 1 && digits(power) > 0 {
		n += 1 + sign + digits(power)
	}
	return n
}

// digits counts the leading decimal digits.
func digits(s string) int {
	n := 0
	for n < len(s) && isDigit(rune(s[n])) {
		n++
	}
	return n
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

func isNameStart(r rune) bool { return r == '_' || unicode.IsLetter(r) }
