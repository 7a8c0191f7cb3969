package expr

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"

	"github.com/penstock/penstock/internal/fault"
)

// Limits of a filter's text. They bound time and stack for hostile text.
const (
	MaxText  = 64 << 10 // bytes, of the text and of its canonical form
	MaxDepth = 200      // nested parentheses
)

// Parse reads a filter. A fault is Invalid, with the position (1-based, in
// characters) in Faults: the first fault of syntax, or all faulty literals.
func Parse(text string) (*Expr, error) {
	if len(text) > MaxText {
		return nil, tooLong()
	}
	if !utf8.ValidString(text) {
		return nil, fault.Fields([]fault.Field{{Message: "the filter is not valid UTF-8"}})
	}
	tree, fields := parseTree(text)
	if fields != nil {
		return nil, fault.Fields(fields)
	}
	c := &converter{}
	e := &Expr{root: c.disjunction(tree)}
	if err := fault.Fields(c.faults); err != nil {
		return nil, err
	}
	if len(e.String()) > MaxText {
		return nil, tooLong()
	}
	return e, nil
}

func tooLong() error {
	return fault.Fields([]fault.Field{{Message: fmt.Sprintf("the filter is longer than %d bytes", MaxText)}})
}

// parseTree returns the library's tree of the text, or what is wrong with it.
func parseTree(text string) (*disjunction, []fault.Field) {
	list, broken := scan(text)
	if broken != nil {
		return nil, []fault.Field{*broken}
	}
	if len(list) == 1 {
		return nil, []fault.Field{{Position: 1, Message: "the filter is empty"}}
	}
	if at := tooDeep(list); at > 0 {
		return nil, []fault.Field{{
			Position: at, Message: fmt.Sprintf("parentheses are nested more than %d deep", MaxDepth),
		}}
	}
	p, err := parser()
	if err != nil {
		return nil, []fault.Field{{Message: err.Error()}}
	}
	lex, err := lexer.Upgrade(&tokens{list: list})
	if err != nil {
		return nil, []fault.Field{{Message: err.Error()}}
	}
	tree, err := p.ParseFromLexer(lex)
	if err != nil {
		return nil, []fault.Field{syntaxFault(list, err)}
	}
	return tree, nil
}

// tooDeep returns the position of the parenthesis that opens one level too
// many, or 0.
func tooDeep(list []lexer.Token) int {
	depth := 0
	for _, t := range list {
		switch {
		case t.Type != tokenPunct:
		case t.Value == "(":
			depth++
		case t.Value == ")":
			depth--
		}
		if depth > MaxDepth {
			return t.Pos.Column
		}
	}
	return 0
}

// syntaxFault says in plain words what the parser stumbled over: the token,
// and from the one before it what could have stood there.
func syntaxFault(list []lexer.Token, err error) fault.Field {
	var syntax participle.Error
	if !errors.As(err, &syntax) {
		return fault.Field{Message: err.Error()}
	}
	at := 0
	for at < len(list)-1 && list[at].Pos.Offset < syntax.Position().Offset {
		at++
	}
	found := list[at]
	before := lexer.Token{Type: tokenKeyword, Value: "AND"} // before the first token as after AND
	if at > 0 {
		before = list[at-1]
	}
	if at > 1 && before.Value == "(" && list[at-2].Type == tokenKeyword && list[at-2].Value == "IN" {
		before = lexer.Token{Type: tokenPunct, Value: ","} // in a list
	}
	what := "the filter ends too early"
	if found.Type != lexer.EOF {
		what = fmt.Sprintf("unexpected %s", shorten(found.Value))
	}
	return fault.Field{Position: found.Pos.Column, Message: what + ": " + expected(before, found)}
}

// expected says what may follow a token.
func expected(before, found lexer.Token) string {
	switch {
	case before.Type == tokenOperator && before.Value == "=" && found.Value == "=":
		return "equality is written ="
	case found.Type == tokenKeyword && found.Value == "NULL" && before.Value != "IS" && before.Value != "NOT":
		return "a comparison with NULL is never true; write IS NULL or IS NOT NULL"
	case before.Type == tokenOperator, before.Type == tokenKeyword && before.Value == "BETWEEN":
		return "expected a column or a literal"
	case before.Value == "IS" && before.Type == tokenKeyword:
		return "expected NULL or NOT NULL"
	case before.Value == "IN" && before.Type == tokenKeyword:
		return "expected a list in parentheses"
	case before.Value == "LIKE" && before.Type == tokenKeyword, before.Value == "," && before.Type == tokenPunct:
		return "expected a literal"
	case before.Type == tokenPunct && (before.Value == "+" || before.Value == "-"):
		return "expected a number"
	case found.Type == tokenPunct && (found.Value == "+" || found.Value == "-"):
		return "filters have no arithmetic"
	case before.Value == "." && before.Type == tokenPunct:
		return "expected a name"
	case before.Type == tokenKeyword && before.Value != "NULL" && before.Value != "TRUE" && before.Value != "FALSE",
		before.Value == "(" && before.Type == tokenPunct:
		return "expected a condition"
	default:
		return "expected an operator, AND, OR, a closing parenthesis or the end"
	}
}

// converter turns the library's tree into ours, and collects what the grammar
// cannot see.
type converter struct {
	faults []fault.Field
}

func (c *converter) fail(position int, format string, args ...any) {
	c.faults = append(c.faults, fault.Field{Position: position, Message: fmt.Sprintf(format, args...)})
}

func (c *converter) disjunction(d *disjunction) node {
	terms := make([]node, len(d.Terms))
	for i, t := range d.Terms {
		inner := make([]node, len(t.Terms))
		for j, n := range t.Terms {
			inner[j] = c.predicate(n.Predicate)
			if len(n.Nots)%2 == 1 {
				inner[j] = negate(inner[j])
			}
		}
		terms[i] = joined(true, inner)
	}
	return joined(false, terms)
}

func (c *converter) predicate(p *predicate) node {
	if p.Tail == nil {
		if p.Group != nil {
			return c.disjunction(p.Group)
		}
		return c.truth(c.operand(p.Operand))
	}
	left := operand{position: p.Pos.Column}
	if p.Group == nil {
		left = c.operand(p.Operand)
	} else if inner, ok := c.disjunction(p.Group).(*truth); ok && inner.operand.isColumn() {
		left = inner.operand // (a) = 1
	} else {
		c.fail(p.Tail.Pos.Column, "a condition in parentheses cannot be compared: join conditions with AND and OR")
		return &truth{operand: left}
	}
	switch t := p.Tail; {
	case t.Compare != nil:
		n := &comparison{op: operatorOf(t.Compare.Operator), left: left, right: c.operand(t.Compare.Right)}
		c.needColumn(n, left)
		return n
	case t.Is != nil:
		n := &isNull{operand: left, negated: t.Is.Not}
		c.needColumn(n, left)
		return n
	default:
		return c.ranged(left, t.Ranged)
	}
}

func (c *converter) ranged(left operand, t *rangedTail) node {
	var n node
	switch {
	case t.Low != nil:
		n = &between{operand: left, negated: t.Not, low: c.operand(t.Low), high: c.operand(t.High)}
	case t.Like != nil:
		n = &like{operand: left, negated: t.Not, prefix: c.prefix(c.literal(t.Like))}
	default:
		items := make([]literal, len(t.In))
		for i, v := range t.In {
			items[i] = c.literal(v)
		}
		n = &inList{operand: left, negated: t.Not, items: items}
	}
	c.needColumn(n, left)
	return n
}

// prefix reads the pattern of LIKE.
func (c *converter) prefix(pattern literal) string {
	if pattern.kind != textLiteral {
		c.fail(pattern.position, "LIKE takes a string such as 'x%%'")
		return ""
	}
	prefix, err := prefixOf(pattern.text)
	if err != nil {
		c.fail(pattern.position, "%s", err)
	}
	return prefix
}

// truth makes a bare operand a condition.
func (c *converter) truth(o operand) node {
	if !o.isColumn() && o.literal.kind != truthLiteral {
		c.fail(o.position, "%s alone is no condition: compare a column with it", o.literal.kind)
	}
	return &truth{operand: o}
}

// needColumn refuses a condition on literals alone.
func (c *converter) needColumn(n node, left operand) {
	found := false
	n.operands(func(o operand) { found = found || o.isColumn() })
	if !found {
		c.fail(left.position, "a condition needs a column")
	}
}

func operatorOf(s string) op {
	switch s {
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

func (c *converter) operand(t *term) operand {
	if t.Value != nil {
		return operand{position: t.Pos.Column, literal: c.literal(t.Value)}
	}
	o := operand{position: t.Pos.Column, quoted: strings.HasPrefix(t.Column.Parts[0], `"`)}
	for _, part := range t.Column.Parts {
		if strings.HasPrefix(part, `"`) {
			part = unquote(part)
		}
		if part == "" {
			c.fail(o.position, "a column's name is empty")
		}
		o.column = append(o.column, part)
	}
	return o
}

func (c *converter) literal(v *value) literal {
	l := literal{position: v.Pos.Column}
	var err error
	switch {
	case v.Number != nil:
		l.kind = numberLiteral
		l.number, err = parseNumber(*v.Number)
		if err == nil && v.Sign == "-" {
			l.number = l.number.negated()
		}
	case v.Text != nil:
		l.kind, l.text = textLiteral, unquote(*v.Text)
	case v.Truth != nil:
		l.kind, l.truth = truthLiteral, *v.Truth == "TRUE"
	default:
		err = l.readTyped(*v.Typed)
	}
	if err != nil {
		c.fail(l.position, "%s", err)
	}
	return l
}

// readTyped reads a token such as DATE '…'.
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
