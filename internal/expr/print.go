package expr

import (
	"encoding/hex"
	"strings"
)

// printer writes canonical text: one space between words, keywords in upper case, and
// parentheses only where precedence requires them.
type printer struct {
	strings.Builder
}

// String returns the filter's canonical text: normal spacing, upper-case keywords,
// normalized literals, no redundant parentheses. Parsing it yields an equal filter
// with the same text. It is "" for nil.
func (e *Expr) String() string {
	if e == nil {
		return ""
	}
	return printed(e.root)
}

func printed(n node) string {
	p := &printer{}
	n.print(p)
	return p.String()
}

// within prints a term of an operator.
func (p *printer) within(n node, parentheses bool) {
	if parentheses {
		p.WriteByte('(')
	}
	n.print(p)
	if parentheses {
		p.WriteByte(')')
	}
}

func (n *logic) print(p *printer) {
	word := " OR "
	if n.all {
		word = " AND "
	}
	for i, t := range n.terms {
		if i > 0 {
			p.WriteString(word)
		}
		inner, isLogic := t.(*logic)
		p.within(t, isLogic && n.all && !inner.all)
	}
}

func (n *not) print(p *printer) {
	p.WriteString("NOT ")
	_, isLogic := n.term.(*logic)
	p.within(n.term, isLogic)
}

func (n *single) print(p *printer) { p.operand(n.operand, lowest) }

func (n *comparison) print(p *printer) {
	p.operand(n.left, ofSum)
	p.WriteString(" " + n.op.String() + " ")
	p.operand(n.right, ofSum)
}

func (n *inList) print(p *printer) {
	p.operand(n.operand, ofSum)
	p.not(n.negated)
	p.WriteString(" IN (")
	for i, item := range n.items {
		if i > 0 {
			p.WriteString(", ")
		}
		p.WriteString(item.String())
	}
	p.WriteByte(')')
}

func (n *between) print(p *printer) {
	p.operand(n.operand, ofSum)
	p.not(n.negated)
	p.WriteString(" BETWEEN ")
	p.operand(n.low, ofSum)
	p.WriteString(" AND ")
	p.operand(n.high, ofSum)
}

func (n *isNull) print(p *printer) {
	p.operand(n.operand, ofSum)
	p.WriteString(" IS")
	p.not(n.negated)
	p.WriteString(" NULL")
}

func (n *like) print(p *printer) {
	p.operand(n.operand, ofSum)
	p.not(n.negated)
	p.WriteString(" LIKE " + quoteText(n.pattern.String()))
}

func (p *printer) not(negated bool) {
	if negated {
		p.WriteString(" NOT")
	}
}

// operand prints an operand, in parentheses if its precedence is lower than that of its place.
func (p *printer) operand(o operand, place precedence) {
	switch {
	case o.inner != nil:
		p.within(o.inner, precedenceOf(o.inner) < place)
		return
	case o.isLiteral():
		p.WriteString(o.literal.String())
		return
	}
	for i, part := range o.column {
		if i > 0 {
			p.WriteByte('.')
		}
		p.WriteString(quoteName(part))
	}
}

// quoteName puts a name in double quotes if necessary.
func quoteName(s string) string {
	word := strings.ToUpper(s)
	plain := s != "" && !isKeyword(word) && !isChoiceWord(word)
	for i, r := range s {
		plain = plain && (isNameStart(r) || i > 0 && isDigit(r))
	}
	if plain {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// quoteText returns a string literal.
func quoteText(s string) string {
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// quoteBinary returns a binary literal.
func quoteBinary(s string) string {
	return "X'" + hex.EncodeToString([]byte(s)) + "'"
}

// String returns the literal's canonical text.
func (l literal) String() string {
	switch l.kind {
	case numberLiteral:
		if l.double {
			return l.number.scientific()
		}
		return l.number.text()
	case textLiteral:
		return quoteText(l.text)
	case binaryLiteral:
		return quoteBinary(l.text)
	case booleanLiteral:
		return booleanText(l.boolean)
	case dateLiteral:
		return "DATE '" + l.instant.date() + "'"
	case timeLiteral:
		return "TIME '" + l.instant.clock() + "'"
	case nullLiteral:
		return "NULL"
	case listLiteral:
		items := make([]string, len(l.items))
		for i, item := range l.items {
			items[i] = item.String()
		}
		return "[" + strings.Join(items, ", ") + "]"
	case fittedLiteral:
		return fittedWord + " " + quoteText(l.text)
	case timestampLiteral:
	}
	return "TIMESTAMP '" + l.instant.timestamp() + "'"
}

func booleanText(b bool) string {
	if b {
		return "TRUE"
	}
	return "FALSE"
}
