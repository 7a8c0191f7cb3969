package expr

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"

	"github.com/penstock/penstock/internal/fault"
)

// The kinds of token. A Typed token is a prefixed string such as DATE '…' or
// X'…', prefix included; so date, time, timestamp and x stay free as names.
const (
	tokenKeyword lexer.TokenType = lexer.EOF - 1 - iota
	tokenName
	tokenQuoted
	tokenNumber
	tokenText
	tokenTyped
	tokenOperator
	tokenPunct
)

// isKeyword reports whether an upper-case word is reserved: such a column
// name has to be quoted.
func isKeyword(word string) bool {
	switch word {
	case "AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "LIKE", "TRUE", "FALSE":
		return true
	}
	return false
}

// scanner cuts a text into tokens. A token's Pos.Column is its 1-based
// position in characters from the start of the text.
type scanner struct {
	text   string
	offset int // bytes
	at     int // characters before offset
	tokens []lexer.Token
	fault  *fault.Field
}

// scan returns the text's tokens, the last of which is the end of the text.
func scan(text string) ([]lexer.Token, *fault.Field) {
	s := &scanner{text: text}
	for s.fault == nil && s.offset < len(text) {
		s.next()
	}
	s.emit(lexer.EOF, 0)
	return s.tokens, s.fault
}

// emit adds a token of n bytes and moves past it.
func (s *scanner) emit(kind lexer.TokenType, n int) {
	value := s.text[s.offset : s.offset+n]
	token := lexer.Token{Type: kind, Value: value, Pos: lexer.Position{Offset: s.offset, Line: 1, Column: s.at + 1}}
	s.skip(n)
	if kind == tokenName && isKeyword(strings.ToUpper(value)) {
		token.Type, token.Value = tokenKeyword, strings.ToUpper(value)
	}
	s.tokens = append(s.tokens, token)
}

func (s *scanner) skip(n int) {
	s.at += utf8.RuneCountInString(s.text[s.offset : s.offset+n])
	s.offset += n
}

func (s *scanner) fail(format string, args ...any) {
	s.fault = &fault.Field{Position: s.at + 1, Message: fmt.Sprintf(format, args...)}
}

func (s *scanner) next() {
	rest := s.text[s.offset:]
	first, size := utf8.DecodeRuneInString(rest)
	switch {
	case first == ' ' || first == '\t' || first == '\n' || first == '\r':
		s.skip(1)
	case first == '\'':
		s.string(tokenText, 0)
	case first == '"':
		s.string(tokenQuoted, 0)
	case isDigit(first) || first == '.' && len(rest) > 1 && isDigit(rune(rest[1])):
		s.emit(tokenNumber, numeralLength(rest))
	case isNameStart(first):
		s.word(rest)
	case strings.HasPrefix(rest, "<>"), strings.HasPrefix(rest, "!="),
		strings.HasPrefix(rest, "<="), strings.HasPrefix(rest, ">="):
		s.emit(tokenOperator, 2)
	case first == '=' || first == '<' || first == '>':
		s.emit(tokenOperator, 1)
	case strings.ContainsRune("(),.+-", first):
		s.emit(tokenPunct, size)
	default:
		s.fail("unexpected character %q", first)
	}
}

// word scans a name, a keyword or a typed literal.
func (s *scanner) word(rest string) {
	n := strings.IndexFunc(rest, func(r rune) bool { return !isNameStart(r) && !isDigit(r) })
	if n < 0 {
		n = len(rest)
	}
	gap := len(rest[n:]) - len(strings.TrimLeft(rest[n:], " \t\r\n"))
	opens := strings.HasPrefix(rest[n+gap:], "'")
	switch strings.ToUpper(rest[:n]) {
	case "DATE", "TIME", "TIMESTAMP":
		if opens {
			s.string(tokenTyped, n+gap)
			return
		}
	case "X":
		if opens && gap == 0 {
			s.string(tokenTyped, n)
			return
		}
	}
	s.emit(tokenName, n)
}

// string scans a quoted token after a prefix of so many bytes. The token's
// value keeps quotes and escapes.
func (s *scanner) string(kind lexer.TokenType, prefix int) {
	rest := s.text[s.offset+prefix:]
	quote := rest[0]
	for i := 1; i < len(rest); i++ {
		if rest[i] != quote {
			continue
		}
		if i+1 < len(rest) && rest[i+1] == quote {
			i++
			continue
		}
		s.emit(kind, prefix+i+1)
		return
	}
	if kind == tokenQuoted {
		s.fail("the quoted name that starts here is not closed")
	} else {
		s.fail("the string that starts here is not closed")
	}
}

// unquote removes quotes and escapes of a scanned string or quoted name.
func unquote(token string) string {
	quote := token[:1]
	return strings.ReplaceAll(token[1:len(token)-1], quote+quote, quote)
}

// numeralLength returns how many bytes of the text are one number: digits,
// a fraction, and an exponent if it has digits.
func numeralLength(s string) int {
	n := digits(s)
	if n < len(s) && s[n] == '.' {
		n++
		n += digits(s[n:])
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		sign := 0
		if n+1 < len(s) && (s[n+1] == '+' || s[n+1] == '-') {
			sign = 1
		}
		if exponent := digits(s[n+1+sign:]); exponent > 0 {
			n += 1 + sign + exponent
		}
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
