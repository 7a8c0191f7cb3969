package expr

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/expr/operator"
	"github.com/penstock/penstock/internal/fault"
)

// sum parses values joined by +, - and ||.
func (p *parser) sum() operand {
	left := p.product()
	for {
		position := left.position
		switch {
		case p.accept("+"):
			left = operand{position: position, inner: &arithmetic{op: operator.Add, left: left, right: p.product()}}
		case p.accept("-"):
			left = operand{position: position, inner: &arithmetic{op: operator.Subtract, left: left, right: p.product()}}
		case p.accept("||"):
			left = operand{position: position, inner: &arithmetic{op: operator.Concatenate, left: left, right: p.product()}}
		default:
			return left
		}
	}
}

// product parses values joined by *, / and %.
func (p *parser) product() operand {
	left := p.factor()
	for {
		position := left.position
		switch {
		case p.accept("*"):
			left = operand{position: position, inner: &arithmetic{op: operator.Multiply, left: left, right: p.factor()}}
		case p.accept("/"):
			left = operand{position: position, inner: &arithmetic{op: operator.Divide, left: left, right: p.factor()}}
		case p.accept("%"):
			left = operand{position: position, inner: &arithmetic{op: operator.Remainder, left: left, right: p.factor()}}
		default:
			return left
		}
	}
}

// factor parses signs and a value. The sign of a number belongs to the literal.
func (p *parser) factor() operand {
	position, negations := p.next().column, 0
	for signed := true; signed; {
		switch {
		case p.accept("-"):
			negations++
		case p.accept("+"):
		default:
			signed = false
		}
	}
	o := p.primary()
	o.position = position
	if o.isLiteral() && o.literal.kind == numberLiteral && negations > 0 && p.syntax == nil {
		o.literal.position = position
		if negations%2 == 1 && o.literal.number.unscaled != nil {
			o.literal.number = o.literal.number.negated()
		}
		return o
	}
	if negations > maxDepth {
		p.fail(position, "there are more than %d signs", maxDepth)
		return o
	}
	for range negations {
		o = operand{position: position, inner: &negative{operand: o}}
	}
	return o
}

// primary parses a value without operators outside of parentheses.
func (p *parser) primary() operand {
	first := p.next()
	switch {
	case first.text == "(":
		p.at++
		inner := p.condition()
		p.expect(")")
		return operandOf(inner, first.column)
	case first.text == "NULL":
		p.at++
		return operand{position: first.column, literal: literal{kind: nullLiteral, position: first.column}}
	case first.text == "[":
		return operand{position: first.column, literal: p.list()}
	case isFitted(first):
		p.at++
		return operand{position: first.column, literal: p.fitted(first)}
	case first.kind != nameToken:
		return operand{position: first.column, literal: p.literal()}
	case p.beginsChoice():
		p.at++
		return operand{position: first.column, inner: p.choice(first.column)}
	case p.cases > 0 && isChoiceWord(strings.ToUpper(first.text)):
		p.unexpected()
		return operand{position: first.column}
	case p.at+1 < len(p.tokens) && p.tokens[p.at+1].text == "(" && !strings.HasPrefix(first.text, `"`):
		p.at += 2
		return operand{position: first.column, inner: p.called(strings.ToLower(first.text), first.column)}
	default:
		return p.path()
	}
}

// beginsChoice reports whether the next tokens are CASE and the beginning of a condition or a value.
// Otherwise, a word CASE is the name of a column.
func (p *parser) beginsChoice() bool {
	if strings.ToUpper(p.next().text) != "CASE" {
		return false
	}
	after := p.tokens[p.at+1] // the last token is the end
	switch after.kind {
	case nameToken, numberToken, textToken, typedToken:
		return true
	case keywordToken:
		return after.text == "NULL" || after.text == "TRUE" || after.text == "FALSE"
	case punctToken:
		return after.text == "("
	case endToken, operatorToken:
	}
	return false
}

// acceptWord moves past the next token if it is this word of CASE.
func (p *parser) acceptWord(word string) bool {
	if t := p.next(); t.kind != nameToken || strings.ToUpper(t.text) != word {
		return false
	}
	p.at++
	return true
}

// choice parses CASE after its first word. CASE x WHEN 1 means CASE WHEN x = 1.
func (p *parser) choice(position int) node {
	n := &choice{}
	if p.cases++; p.cases > maxDepth {
		p.syntax = &fault.Field{Position: position, Message: fmt.Sprintf("CASE is nested more than %d deep", maxDepth)}
		p.at = len(p.tokens) - 1
		return n.end(position)
	}
	var of *operand
	size := 0
	if t := p.next(); t.kind != nameToken || strings.ToUpper(t.text) != "WHEN" {
		o := operandOf(p.condition(), t.column)
		of, size = &o, p.sizeOf(o)
	}
	for p.acceptWord("WHEN") {
		p.copy(position, size)
		at := p.next().column
		condition := p.condition()
		if of != nil {
			condition = &comparison{op: eq, left: *of, right: operandOf(condition, at)}
		}
		p.checkCondition(condition)
		p.expectWord("THEN")
		at = p.next().column
		n.conditions, n.values = append(n.conditions, condition), append(n.values, operandOf(p.condition(), at))
	}
	if len(n.conditions) == 0 {
		p.expectWord("WHEN")
	}
	if at := p.next().column; p.acceptWord("ELSE") {
		n.values = append(n.values, operandOf(p.condition(), at))
	}
	p.expectWord("END")
	p.cases--
	return n.end(position)
}

// sizeOf returns the bytes of an operand's canonical text; 0 after a syntax error.
func (p *parser) sizeOf(o operand) int {
	if p.syntax != nil {
		return 0
	}
	return len(printed(nodeOf(o)))
}

// copy counts bytes that the canonical text repeats. If there are too many, it ends the text with an
// error: the operands of nested CASE double with each level.
func (p *parser) copy(position, bytes int) {
	if p.copied += bytes; p.copied > MaxText && p.syntax == nil {
		p.syntax = &fault.Field{Position: position, Message: fmt.Sprintf("the %s is longer than %d bytes if CASE x WHEN is written as CASE WHEN x =", p.noun, MaxText)}
		p.at = len(p.tokens) - 1
	}
}

// end completes a choice without ELSE.
func (n *choice) end(position int) node {
	if len(n.values) == len(n.conditions) {
		n.values = append(n.values, operand{position: position, literal: literal{kind: nullLiteral, position: position}})
	}
	return n
}

func (p *parser) expectWord(word string) {
	if !p.acceptWord(word) {
		p.unexpectedFor(word)
	}
}

// list parses a list of literals.
func (p *parser) list() literal {
	l := literal{kind: listLiteral, position: p.next().column}
	p.expect("[")
	for more := true; more; more = p.accept(",") {
		l.items = append(l.items, p.literal())
	}
	p.expect("]")
	return l
}

// called parses a call, or a cast, after the opening parenthesis.
func (p *parser) called(name string, position int) node {
	if name == "cast" || name == "try_cast" {
		n := &cast{operand: operandOf(p.condition(), position), try: name == "try_cast"}
		if as := p.next(); strings.ToUpper(as.text) != "AS" || as.kind != nameToken {
			p.unexpected()
			return n
		}
		p.at++
		p.castType(n)
		p.expect(")")
		return n
	}
	n := &call{name: name}
	if p.accept(")") {
		return n
	}
	for more := true; more; more = p.accept(",") {
		at := p.next().column
		n.args = append(n.args, operandOf(p.condition(), at))
	}
	p.expect(")")
	return n
}

// castType parses the type of a cast.
func (p *parser) castType(n *cast) {
	name := p.next()
	if name.kind != nameToken {
		p.unexpected()
		return
	}
	p.at++
	var numbers []int
	if p.accept("(") {
		for more := true; more; more = p.accept(",") {
			number, err := strconv.Atoi(p.next().text)
			if err != nil {
				p.unexpected()
				return
			}
			p.at++
			numbers = append(numbers, number)
		}
		p.expect(")")
	}
	var err error
	if n.to, err = operator.ParseType(name.text, numbers...); err != nil {
		p.fail(name.column, "%s", err)
	}
}

// path parses the name of a column, or a path into a struct.
func (p *parser) path() operand {
	first := p.next()
	p.names++
	o := operand{position: first.column, quoted: strings.HasPrefix(first.text, `"`)}
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
