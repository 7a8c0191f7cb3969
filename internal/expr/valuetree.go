package expr

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr/operator"
)

type (
	// arithmetic is a binary operator on values.
	arithmetic struct {
		op          operator.Op
		left, right operand
	}

	// negative is a minus sign before a value that is not a number literal.
	negative struct {
		operand operand
	}

	// cast is CAST or TRY_CAST.
	cast struct {
		operand operand
		to      arrow.DataType
		try     bool
	}

	// call is a call of a function by its name in lower case.
	call struct {
		name string
		args []operand
	}

	// choice is CASE: the value of the first condition that is TRUE.
	choice struct {
		conditions []node
		values     []operand // of the conditions, and then that of ELSE, which is NULL if it is not written
	}
)

func (n *arithmetic) operands(visit func(operand)) { eachOperand(visit, n.left, n.right) }
func (n *negative) operands(visit func(operand))   { n.operand.operands(visit) }
func (n *cast) operands(visit func(operand))       { n.operand.operands(visit) }
func (n *call) operands(visit func(operand))       { eachOperand(visit, n.args...) }

func (n *choice) operands(visit func(operand)) {
	for i, c := range n.conditions {
		c.operands(visit)
		n.values[i].operands(visit)
	}
	n.values[len(n.conditions)].operands(visit)
}

// operandOf returns an expression as an operand.
func operandOf(n node, position int) operand {
	if s, ok := n.(*single); ok {
		return s.operand
	}
	return operand{position: position, inner: n}
}

// nodeOf returns an operand as an expression.
func nodeOf(o operand) node {
	if o.inner != nil {
		return o.inner
	}
	return &single{operand: o}
}

// precedence is the precedence of an operator; higher ones bind more tightly.
type precedence int

const (
	lowest precedence = iota // conditions
	ofSum
	ofProduct
	ofSign
	ofPrimary
)

func precedenceOf(n node) precedence {
	switch n := n.(type) {
	case *single, *cast, *call, *choice:
		return ofPrimary
	case *negative:
		return ofSign
	case *arithmetic:
		return operatorPrecedence(n.op)
	default:
		return lowest
	}
}

func operatorPrecedence(op operator.Op) precedence {
	switch op {
	case operator.Add, operator.Subtract, operator.Concatenate:
		return ofSum
	case operator.Multiply, operator.Divide, operator.Remainder:
	}
	return ofProduct
}

func (n *arithmetic) print(p *printer) {
	place := operatorPrecedence(n.op)
	p.operand(n.left, place)
	p.WriteString(" " + n.op.String() + " ")
	p.operand(n.right, place+1)
}

func (n *negative) print(p *printer) {
	p.WriteByte('-')
	if inner, ok := n.operand.inner.(*negative); ok {
		p.WriteByte(' ')
		inner.print(p)
		return
	}
	p.operand(n.operand, ofSign)
}

func (n *cast) print(p *printer) {
	if n.try {
		p.WriteString("TRY_")
	}
	p.WriteString("CAST(")
	p.operand(n.operand, lowest)
	p.WriteString(" AS " + operator.Name(n.to) + ")")
}

func (n *call) print(p *printer) {
	p.WriteString(n.name + "(")
	for i, a := range n.args {
		if i > 0 {
			p.WriteString(", ")
		}
		p.operand(a, lowest)
	}
	p.WriteByte(')')
}

func (n *choice) print(p *printer) {
	p.WriteString("CASE")
	for i, c := range n.conditions {
		p.WriteString(" WHEN ")
		c.print(p)
		p.WriteString(" THEN ")
		p.operand(n.values[i], lowest)
	}
	if last := n.values[len(n.conditions)]; !last.isLiteral() || last.literal.kind != nullLiteral {
		p.WriteString(" ELSE ")
		p.operand(last, lowest)
	}
	p.WriteString(" END")
}

// replaceColumn returns an expression in which another one takes the place of a column. Nodes
// without columns and literals are shared.
func replaceColumn(n node, name string, with node) node {
	return rewrite(n, func(o operand, _ string) node {
		if len(o.column) == 1 && o.column[0] == name {
			return with
		}
		return nil
	})
}

// replaceFunc returns the expression that takes the place of a column or a literal, or nil to keep it. of is the
// name of the function whose argument it is, or "".
type replaceFunc func(o operand, of string) node

// rewrite returns an expression with other columns and literals.
func rewrite(n node, replace replaceFunc) node {
	one := func(o operand) operand { return replace.operand(o, "") }
	switch n := n.(type) {
	case *logic:
		terms := make([]node, len(n.terms))
		for i, t := range n.terms {
			terms[i] = rewrite(t, replace)
		}
		return joinTerms(n.all, terms)
	case *not:
		return negate(rewrite(n.term, replace))
	case *single:
		return nodeOf(one(n.operand))
	case *comparison:
		return &comparison{op: n.op, left: one(n.left), right: one(n.right)}
	case *inList:
		return &inList{operand: one(n.operand), negated: n.negated, items: n.items}
	case *between:
		return &between{operand: one(n.operand), negated: n.negated, low: one(n.low), high: one(n.high)}
	case *isNull:
		return &isNull{operand: one(n.operand), negated: n.negated}
	case *like:
		return &like{operand: one(n.operand), negated: n.negated, pattern: n.pattern}
	case *arithmetic:
		return &arithmetic{op: n.op, left: one(n.left), right: one(n.right)}
	case *negative:
		return &negative{operand: one(n.operand)}
	case *cast:
		return &cast{operand: one(n.operand), to: n.to, try: n.try}
	case *call:
		return &call{name: n.name, args: replace.operands(n.args, n.name)}
	case *choice:
		out := &choice{conditions: make([]node, len(n.conditions)), values: replace.operands(n.values, "")}
		for i, c := range n.conditions {
			out.conditions[i] = rewrite(c, replace)
		}
		return out
	default:
		return n
	}
}

func (replace replaceFunc) operands(all []operand, of string) []operand {
	out := make([]operand, len(all))
	for i, o := range all {
		out[i] = replace.operand(o, of)
	}
	return out
}

func (replace replaceFunc) operand(o operand, of string) operand {
	if o.inner != nil {
		return operandOf(rewrite(o.inner, replace), o.position)
	}
	with := replace(o, of)
	if with == nil {
		return o
	}
	out := operandOf(with, o.position)
	out.position = o.position
	return out
}

// levels returns the number of levels of an expression, or limit+1 if there are more.
func levels(n node, limit int) int {
	if limit == 0 {
		return 1
	}
	deepest := 0
	below := func(inner node) {
		if inner != nil && deepest <= limit {
			deepest = max(deepest, levels(inner, limit-1))
		}
	}
	children(n, below)
	return deepest + 1
}

// children calls visit for the expressions directly in an expression, without columns and literals.
func children(n node, visit func(node)) {
	each := func(all ...operand) {
		for _, o := range all {
			if o.inner != nil {
				visit(o.inner)
			}
		}
	}
	switch n := n.(type) {
	case *logic:
		for _, t := range n.terms {
			visit(t)
		}
	case *not:
		visit(n.term)
	case *single:
		each(n.operand)
	case *comparison:
		each(n.left, n.right)
	case *inList:
		each(n.operand)
	case *between:
		each(n.operand, n.low, n.high)
	case *isNull:
		each(n.operand)
	case *like:
		each(n.operand)
	case *arithmetic:
		each(n.left, n.right)
	case *negative:
		each(n.operand)
	case *cast:
		each(n.operand)
	case *call:
		each(n.args...)
	case *choice:
		for _, c := range n.conditions {
			visit(c)
		}
		each(n.values...)
	}
}
