package expr

import (
	"encoding/hex"
	"errors"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// parser parses this grammar with one token of lookahead, so that parsing is linear
// in the text. The nesting of the rules defines precedence.
//
//	condition   = conjunction { OR conjunction }
//	conjunction = negation { AND negation }
//	negation    = { NOT } predicate
//	predicate   = sum [ comparison ]
//	comparison  = operator sum | IS [ NOT ] NULL | [ NOT ] ranged
//	ranged      = IN "(" literal { "," literal } ")" | BETWEEN sum AND sum | LIKE literal
//	sum         = product { ( "+" | "-" | "||" ) product }
//	product     = factor { ( "*" | "/" | "%" ) factor }
//	factor      = { "+" | "-" } primary
//	primary     = "(" condition ")" | name { "." name } | literal | list | fitted | NULL
//	            | name "(" [ condition { "," condition } ] ")"
//	            | ( CAST | TRY_CAST ) "(" condition AS type ")"
//	            | CASE [ condition ] { WHEN condition THEN condition } [ ELSE condition ] END
//	list        = "[" literal { "," literal } "]"
//	fitted      = FITTED text
//	type        = name [ "(" number "," number ")" ]
//	literal     = [ "+" | "-" ] number | text | typed | TRUE | FALSE
//
// A filter is a condition. A value expression is a condition, too: bind checks types.
//
// After a syntax error the parser is at the end, and its results are meaningless.
type parser struct {
	tokens []token // the last is the end
	at     int
	noun   string       // the text as messages name it: filter or expression
	cases  int          // the number of CASE around the next token
	names  int          // the number of columns so far
	copied int          // bytes of the canonical text that CASE x WHEN repeats: x for each WHEN
	syntax *fault.Field // the first syntax error
	faults faultList    // other errors
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
	p.faults.fail(position, format, args...)
}

// condition parses terms joined by OR, which has the lowest precedence.
func (p *parser) condition() node {
	terms := []node{p.conjunction()}
	for p.accept("OR") {
		terms = append(terms, p.conjunction())
	}
	return p.join(false, terms)
}

func (p *parser) conjunction() node {
	terms := []node{p.negation()}
	for p.accept("AND") {
		terms = append(terms, p.negation())
	}
	return p.join(true, terms)
}

func (p *parser) join(all bool, terms []node) node {
	if len(terms) > 1 {
		for _, t := range terms {
			p.checkCondition(t)
		}
	}
	return joinTerms(all, terms)
}

// negation parses a sequence of NOT in a loop: it may be as long as the text.
func (p *parser) negation() node {
	negations := 0
	for p.accept("NOT") {
		negations++
	}
	n := p.predicate()
	if negations > 0 {
		p.checkCondition(n)
	}
	if negations%2 == 1 {
		return negate(n)
	}
	return n
}

// checkCondition reports a literal in the place of a condition.
func (p *parser) checkCondition(n node) {
	s, ok := n.(*single)
	if ok && s.operand.isLiteral() && s.operand.literal.kind != booleanLiteral {
		p.fail(s.operand.position, "%s is not a condition by itself: compare a column with it", s.operand.literal.kind)
	}
}

// predicate parses an expression without AND, OR and NOT at the top level.
func (p *parser) predicate() node {
	before := p.names
	left := p.sum()
	if n := p.comparison(left); n != nil {
		if p.names == before {
			p.fail(left.position, "a condition needs a column")
		}
		return n
	}
	return nodeOf(left)
}

// comparison parses the rest of a comparison after its left operand; nil if there
// is no operator.
func (p *parser) comparison(left operand) node {
	var n node
	left.literal.double = false // its type depends on the other side
	switch t := p.next(); {
	case t.kind == operatorToken:
		p.at++
		n = &comparison{op: operatorOf(t.text), left: left, right: p.side()}
	case p.accept("IS"):
		n = &isNull{operand: left, negated: p.accept("NOT")}
		p.expect("NULL")
	case t.text == "NOT", t.text == "IN", t.text == "BETWEEN", t.text == "LIKE":
		n = p.ranged(left, p.accept("NOT"))
	default:
		return nil
	}
	return n
}

// side parses an operand of a comparison.
func (p *parser) side() operand {
	o := p.sum()
	if o.isLiteral() && o.literal.kind == nullLiteral {
		p.fail(o.position, "%s", comparedNull)
	}
	o.literal.double = false
	return o
}

const comparedNull = "a comparison with NULL is never true; write IS NULL or IS NOT NULL"

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
			item := p.literal()
			item.double = false
			n.items = append(n.items, item)
		}
		p.expect(")")
		return n
	case p.accept("BETWEEN"):
		n := &between{operand: left, negated: negated, low: p.side()}
		p.expect("AND")
		n.high = p.side()
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

// literal parses a literal other than NULL and lists.
func (p *parser) literal() literal {
	l := literal{position: p.next().column}
	minus := p.accept("-")
	signed := minus || p.accept("+")
	t := p.next()
	var err error
	switch {
	case t.kind == numberToken:
		l.kind, l.double = numberLiteral, strings.ContainsAny(t.text, "eE")
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
	case fittedWord:
		err = errors.New("a fitted list is an argument of a function")
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
