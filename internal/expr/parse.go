package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/fault"
)

// Limits of a filter's text, which bound time and stack for hostile text.
const (
	MaxText  = 64 << 10 // bytes, of the text and of its canonical form
	maxDepth = 200      // nested parentheses
)

// Parse parses a filter. An error is Invalid and lists the first syntax error, or all
// other errors, in Faults, with 1-based positions in characters.
func Parse(text string) (*Expr, error) {
	root, err := parse(text, "filter")
	if err != nil {
		return nil, err
	}
	p := &parser{}
	p.checkCondition(root)
	if err := p.faults.err(); err != nil {
		return nil, err
	}
	return &Expr{root: root}, nil
}

func tooLong(noun string) error { return invalid("the %s is longer than %d bytes", noun, MaxText) }

func invalid(format string, args ...any) error {
	return fault.Fields([]fault.Field{{Message: fmt.Sprintf(format, args...)}})
}

// parse returns the syntax tree of a text. noun is the word for the text in messages.
func parse(text, noun string) (node, error) {
	if len(text) > MaxText {
		return nil, tooLong(noun)
	}
	if !utf8.ValidString(text) {
		return nil, invalid("the %s is not valid UTF-8", noun)
	}
	root, faults := parseTokens(text, noun)
	if err := fault.Fields(faults); err != nil {
		return nil, err
	}
	return root, checkSize(root, noun)
}

// checkSize refuses an expression with too many levels, or with a canonical text that is too long.
func checkSize(root node, noun string) error {
	if levels(root, maxDepth) > maxDepth {
		return invalid("the %s has more than %d levels: write shorter sums, or use an earlier computed column", noun, maxDepth)
	}
	if len(printed(root)) > MaxText {
		return tooLong(noun)
	}
	return nil
}

// parseTokens returns the syntax tree of a text, or its faults.
func parseTokens(text, noun string) (node, []fault.Field) {
	tokens, broken := scan(text)
	if broken != nil {
		return nil, []fault.Field{*broken}
	}
	if len(tokens) == 1 {
		return nil, []fault.Field{{Position: 1, Message: fmt.Sprintf("the %s is empty", noun)}}
	}
	if at := tooDeep(tokens); at > 0 {
		return nil, []fault.Field{{
			Position: at, Message: fmt.Sprintf("parentheses are nested more than %d deep", maxDepth),
		}}
	}
	p := &parser{tokens: tokens, noun: noun}
	root := p.condition()
	if p.next().kind != endToken {
		p.unexpected()
	}
	if p.syntax != nil {
		return nil, []fault.Field{*p.syntax}
	}
	return root, p.faults.all()
}

// tooDeep returns the position of the first parenthesis that exceeds maxDepth, or 0.
func tooDeep(tokens []token) int {
	depth := 0
	for _, t := range tokens {
		switch t.text {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth > maxDepth {
			return t.column
		}
	}
	return 0
}

// unexpected reports the next token as a syntax error and moves to the end. The
// message says what could have followed the previous token.
func (p *parser) unexpected() {
	found := p.next()
	before := token{kind: keywordToken, text: "AND"} // a filter begins like a term of AND
	if p.noun != "filter" {
		before.text = "+"
	}
	if p.at > 0 {
		before = p.tokens[p.at-1]
	}
	if p.at > 1 && before.text == "(" && p.tokens[p.at-2].text == "IN" {
		before.text = "," // in a list
	}
	what := fmt.Sprintf("the %s ends too early", p.noun)
	if found.kind != endToken {
		what = fmt.Sprintf("unexpected %s", shorten(found.text))
	}
	if before.text == "NOT" && p.at > 1 && p.tokens[p.at-2].text == "IS" {
		before = p.tokens[p.at-2]
	}
	if p.syntax == nil {
		instead := expected(before, found)
		if found.kind == keywordToken && (instead == wantsCondition || strings.HasPrefix(instead, "expected a column")) {
			instead += "; the name of a column that is a keyword is written in double quotes"
		}
		p.syntax = &fault.Field{Position: found.column, Message: what + ": " + instead}
		if found.kind == nameToken && foreign(before, found) == "" {
			p.syntax.Nearest = fault.Nearest(found.text, keywords())
		}
	}
	p.at = len(p.tokens) - 1
}

// unexpectedFor reports the next token as a syntax error in the place of a word.
func (p *parser) unexpectedFor(word string) {
	if p.syntax == nil {
		found := p.next()
		text := shorten(found.text)
		if found.kind == endToken {
			text = "the end of the " + p.noun
		}
		instead := "expected " + word
		if hint := foreign(p.tokens[p.at-1], found); hint != "" {
			instead = hint
		}
		p.syntax = &fault.Field{Position: found.column, Message: fmt.Sprintf("unexpected %s: %s", text, instead)}
	}
	p.at = len(p.tokens) - 1
}

const wantsCondition = "expected a condition"

// expected describes what may follow a token.
func expected(before, found token) string {
	if hint := foreign(before, found); hint != "" {
		return hint
	}
	switch {
	case before.text == "=" && found.text == "=":
		return "equality is written ="
	case found.text == "NULL" && before.text != "IS" && before.text != "NOT":
		return comparedNull
	case before.kind == operatorToken, before.text == "BETWEEN":
		return "expected a column or a literal"
	case before.text == "IS":
		return "expected NULL or NOT NULL"
	case before.text == "IN":
		return "expected a list in parentheses"
	case before.text == "LIKE", before.text == ",", before.text == "[":
		return "expected a literal"
	case before.text == "AS":
		return "expected a type"
	case before.kind == punctToken && strings.Contains("+-*/%||", before.text):
		return "expected a column or another value"
	case before.text == ".":
		return "expected a name"
	case found.kind == operatorToken:
		return "comparisons do not follow one another; conditions are joined by AND and OR"
	case before.text == "(", before.kind == keywordToken && before.text != "NULL" && before.text != "TRUE" && before.text != "FALSE":
		return wantsCondition
	default:
		return "expected an operator, AND, OR, a closing parenthesis or the end"
	}
}

// foreign returns what to write instead of the syntax of other engines, or "".
func foreign(before, found token) string {
	switch {
	case strings.ToUpper(found.text) == "ILIKE":
		return "letter case matters in LIKE: write lower(x) LIKE 'text%'"
	case before.text == "/" && found.text == "/":
		return "the whole part of a quotient is floor(x / y)"
	case found.text == "[":
		return "an item of a list is element_at(x, 1)"
	case strings.ToUpper(before.text) == "INTERVAL":
		return "days are added as in x + 7"
	case strings.ToUpper(found.text) == "FROM":
		return "a part of a date is called by its name, as in hour(x)"
	case strings.ToUpper(found.text) == "OVER":
		return "windows are not supported: write them in SQL for penstock stage --sql"
	default:
		return ""
	}
}
