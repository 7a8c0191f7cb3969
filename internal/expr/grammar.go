package expr

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// parser parses this grammar with one token of lookahead, so that parsing is linear
// in the text. The nesting of the rules defines precedence.
//
//	condition   = conjunction { OR conjunction }
//	conjunction = negation { AND negation }
//	negation    = { NOT } predicate
//	predicate   = ( "(" condition ")" | operand ) [ comparison ]
//	comparison  = operator operand | IS [ NOT ] NULL | [ NOT ] ranged
//	ranged      = IN "(" literal { "," literal } ")" | BETWEEN operand AND operand | LIKE literal
//	operand     = name { "." name } | literal
//	literal     = [ "+" | "-" ] number | text | typed | TRUE | FALSE
//
// After a syntax error the parser is at the end, and its results are meaningless.
type parser struct {
	tokens []token // the last is the end
	at     int
	syntax *fault.Field  // the first syntax error
	faults []fault.Field // other errors
}

func (p *parser) next() token { return p.tokens[p.at] }

// accept moves past the next token if it has this text.
func (p *parser) accept(text string) bool {
	if p.next().text != text {
		return false
	}
	p.at++
	return true
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.unexpected()
	}
}

func (p *parser) fail(position int, format string, args ...any) {
	p.faults = append(p.faults, fault.Field{Position: position, Message: fmt.Sprintf(format, args...)})
}

// condition parses terms joined by OR, which has the lowest precedence.
func (p *parser) condition() node {
	terms := []node{p.conjunction()}
	for p.accept("OR") {
		terms = append(terms, p.conjunction())
	}
	return joinTerms(false, terms)
}

func (p *parser) conjunction() node {
	terms := []node{p.negation()}
	for p.accept("AND") {
		terms = append(terms, p.negation())
	}
	return joinTerms(true, terms)
}

// negation parses a sequence of NOT in a loop: it may be as long as the text.
func (p *parser) negation() node {
	negated := false
	for p.accept("NOT") {
		negated = !negated
	}
	n := p.predicate()
	if negated {
		return negate(n)
	}
	return n
}

// predicate parses a condition without AND, OR and NOT at the top level.
func (p *parser) predicate() node {
	if !p.accept("(") {
		left := p.operand()
		if n := p.comparison(left); n != nil {
			return n
		}
		return p.boolean(left)
	}
	inner := p.condition()
	p.expect(")")
	if t, ok := inner.(*boolean); ok && t.operand.isColumn() { // (a) = 1
		if n := p.comparison(t.operand); n != nil {
			return n
		}
		return inner
	}
	position, faults := p.next().column, len(p.faults)
	if p.comparison(operand{}) != nil {
		p.faults = p.faults[:faults]
		p.fail(position, "a condition in parentheses cannot be compared: join conditions with AND and OR")
	}
	return inner
}

// boolean makes a condition of a single operand.
func (p *parser) boolean(o operand) node {
	if !o.isColumn() && o.literal.kind != booleanLiteral {
		p.fail(o.position, "%s is not a condition by itself: compare a column with it", o.literal.kind)
	}
	return &boolean{operand: o}
}

// comparison parses the rest of a comparison after its left operand; nil if there
// is no operator.
func (p *parser) comparison(left operand) node {
	var n node
	switch t := p.next(); {
	case t.kind == operatorToken:
		p.at++
		n = &comparison{op: operatorOf(t.text), left: left, right: p.operand()}
	case p.accept("IS"):
		n = &isNull{operand: left, negated: p.accept("NOT")}
		p.expect("NULL")
	case t.text == "NOT", t.text == "IN", t.text == "BETWEEN", t.text == "LIKE":
		n = p.ranged(left, p.accept("NOT"))
	default:
		return nil
	}
	found := false
	n.operands(func(o operand) { found = found || o.isColumn() })
	if !found {
		p.fail(left.position, "a condition needs a column")
	}
	return n
}

func operatorOf(text string) op {
	switch text {
	case "=":
		return eq
	case "<>", "!=":
		return ne
	case "<":
		return lt
	case "<=":
		return le
	case ">":
		return gt
	default:
		return ge
	}
}

// ranged parses the operators that may follow NOT.
func (p *parser) ranged(left operand, negated bool) node {
	switch {
	case p.accept("IN"):
		n := &inList{operand: left, negated: negated}
		p.expect("(")
		for more := true; more; more = p.accept(",") {
			n.items = append(n.items, p.literal())
		}
		p.expect(")")
		return n
	case p.accept("BETWEEN"):
		n := &between{operand: left, negated: negated, low: p.operand()}
		p.expect("AND")
		n.high = p.operand()
		return n
	default:
		p.expect("LIKE")
		return &like{operand: left, negated: negated, pattern: p.pattern(p.literal())}
	}
}

// pattern parses the pattern of LIKE.
func (p *parser) pattern(l literal) pattern {
	if l.kind != textLiteral {
		p.fail(l.position, "LIKE takes a string such as 'x%%'")
		return nil
	}
	out, err := parsePattern(l.text)
	if err != nil {
		p.fail(l.position, "%s", err)
	}
	return out
}

// operand parses a column's path or a literal.
func (p *parser) operand() operand {
	first := p.next()
	o := operand{position: first.column, quoted: strings.HasPrefix(first.text, `"`)}
	if first.kind != nameToken {
		o.literal = p.literal()
		return o
	}
	for more := true; more; more = p.accept(".") {
		part := p.next()
		if part.kind != nameToken {
			p.unexpected()
			break
		}
		p.at++
		name := part.text
		if strings.HasPrefix(name, `"`) {
			name = unquote(name)
		}
		if name == "" {
			p.fail(o.position, "a column name is empty")
		}
		o.column = append(o.column, name)
	}
	return o
}

func (p *parser) literal() literal {
	l := literal{position: p.next().column}
	minus := p.accept("-")
	signed := minus || p.accept("+")
	t := p.next()
	var err error
	switch {
	case t.kind == numberToken:
		l.kind = numberLiteral
		if l.number, err = parseNumber(t.text); err == nil && minus {
			l.number = l.number.negated()
		}
	case t.kind == textToken && !signed:
		l.kind, l.text = textLiteral, unquote(t.text)
	case t.kind == typedToken && !signed:
		err = l.readTyped(t.text)
	case (t.text == "TRUE" || t.text == "FALSE") && !signed:
		l.kind, l.boolean = booleanLiteral, t.text == "TRUE"
	default:
		p.unexpected()
		return l
	}
	p.at++
	if err != nil {
		p.fail(l.position, "%s", err)
	}
	return l
}

// readTyped parses a token such as DATE '…'.
func (l *literal) readTyped(token string) error {
	prefix, quotedText, _ := strings.Cut(token, "'")
	body := unquote("'" + quotedText)
	var err error
	switch strings.ToUpper(strings.TrimSpace(prefix)) {
	case "DATE":
		l.kind = dateLiteral
		l.instant, err = parseDate(body)
	case "TIME":
		l.kind = timeLiteral
		l.instant, err = parseTime(body)
	case "TIMESTAMP":
		l.kind = timestampLiteral
		l.instant, err = parseTimestamp(body)
	default:
		l.kind = binaryLiteral
		var raw []byte
		if raw, err = hex.DecodeString(body); err != nil {
			err = errors.New("a binary literal takes an even number of hexadecimal digits")
		}
		l.text = string(raw)
	}
	return err
}
