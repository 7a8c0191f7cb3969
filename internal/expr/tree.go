package expr

// Expr is a filter as written: parsed, but not yet bound to columns. The nil Expr
// passes every row.
type Expr struct {
	root node
}

// node is a condition or another expression: one of the types below, or of valuetree.go.
type node interface {
	// operands calls visit for each operand, in the order of the text.
	operands(visit func(operand))
	// print writes the canonical text.
	print(p *printer)
}

type (
	// logic is AND or OR of two or more terms, none of which has the same operator.
	logic struct {
		all   bool // AND
		terms []node
	}

	// not negates a condition that is not itself a not.
	not struct {
		term node
	}

	// single is an operand that is a whole expression. As a condition, it is a boolean column, TRUE
	// or FALSE.
	single struct {
		operand operand
	}

	// comparison has an operand on at least one side that is not a literal.
	comparison struct {
		op          op
		left, right operand
	}

	// inList is [NOT] IN.
	inList struct {
		operand operand
		negated bool
		items   []literal
	}

	// between is [NOT] BETWEEN; at least one of the three operands is not a literal.
	between struct {
		operand   operand
		negated   bool
		low, high operand
	}

	// isNull is IS [NOT] NULL.
	isNull struct {
		operand operand
		negated bool
	}

	// like is [NOT] LIKE with a pattern.
	like struct {
		operand operand
		negated bool
		pattern pattern
	}
)

// op is a comparison.
type op int

const (
	eq op = iota
	ne
	lt
	le
	gt
	ge
)

// String returns the operator's canonical text.
func (o op) String() string {
	return [...]string{"=", "<>", "<", "<=", ">", ">="}[o]
}

// negated returns the comparison that is TRUE if o is FALSE.
func (o op) negated() op {
	return [...]op{ne, eq, ge, gt, le, lt}[o]
}

// mirrored returns the comparison for exchanged operands.
func (o op) mirrored() op {
	return [...]op{eq, ne, gt, ge, lt, le}[o]
}

// operand is a column, a literal or another expression, with its position in the text.
type operand struct {
	position int      // 1-based, in characters
	column   []string // the path; empty if it is no column
	quoted   bool     // whether the first name of the path is in double quotes
	literal  literal
	inner    node // an expression that is not a single; nil for a column or a literal
}

func (o operand) isColumn() bool { return len(o.column) > 0 }

func (o operand) isLiteral() bool { return len(o.column) == 0 && o.inner == nil }

// operands calls visit for each column and literal of an operand.
func (o operand) operands(visit func(operand)) {
	if o.inner != nil {
		o.inner.operands(visit)
		return
	}
	visit(o)
}

// literalKind is the kind of a literal. Each constant names the field that is set.
type literalKind int

const (
	numberLiteral    literalKind = iota // number
	textLiteral                         // text
	binaryLiteral                       // text: the bytes
	booleanLiteral                      // boolean
	dateLiteral                         // instant
	timeLiteral                         // instant
	timestampLiteral                    // instant
	nullLiteral                         // none; only in values
	listLiteral                         // items; only in values
	fittedLiteral                       // text: the digest of the values; list, once it is known; only in values
)

// String returns the kind's name for messages.
func (k literalKind) String() string {
	return [...]string{
		"a number", "a string", "a binary literal", "TRUE or FALSE", "a DATE", "a TIME", "a TIMESTAMP", "NULL", "a list", "a fitted list",
	}[k]
}

// literal is a constant as written, before it is bound to a column.
type literal struct {
	kind     literalKind
	position int
	number   number
	double   bool // of a number: whether it was written with an exponent, so that its type is double
	text     string
	boolean  bool
	instant  instant
	items    []literal
	list     *List
}

func (n *logic) operands(visit func(operand)) {
	for _, t := range n.terms {
		t.operands(visit)
	}
}
func (n *not) operands(visit func(operand))        { n.term.operands(visit) }
func (n *single) operands(visit func(operand))     { n.operand.operands(visit) }
func (n *comparison) operands(visit func(operand)) { eachOperand(visit, n.left, n.right) }
func (n *inList) operands(visit func(operand))     { n.operand.operands(visit) }
func (n *between) operands(visit func(operand))    { eachOperand(visit, n.operand, n.low, n.high) }
func (n *isNull) operands(visit func(operand))     { n.operand.operands(visit) }
func (n *like) operands(visit func(operand))       { n.operand.operands(visit) }

func eachOperand(visit func(operand), all ...operand) {
	for _, o := range all {
		o.operands(visit)
	}
}

// Columns returns the distinct names of the columns in the text, in the order of
// first use. For a path into a struct it has the first name.
func (e *Expr) Columns() []string {
	if e == nil {
		return nil
	}
	return columnsOf(e.root)
}

func columnsOf(root node) []string {
	var names []string
	seen := map[string]bool{}
	root.operands(func(o operand) {
		if o.isColumn() && !seen[o.column[0]] {
			seen[o.column[0]] = true
			names = append(names, o.column[0])
		}
	})
	return names
}

// Conjuncts returns the conditions that the filter joins by AND at the top level, in
// the order of the text: the filter passes exactly the rows that all of them pass. So
// a filter can be split by the tables whose columns it names. Nil has none.
func (e *Expr) Conjuncts() []*Expr {
	if e == nil {
		return nil
	}
	if l, ok := e.root.(*logic); ok && l.all {
		conjuncts := make([]*Expr, len(l.terms))
		for i, t := range l.terms {
			conjuncts[i] = &Expr{root: t}
		}
		return conjuncts
	}
	return []*Expr{e}
}

// And returns the filter that passes the rows that both filters pass. Nil passes every row.
func (e *Expr) And(other *Expr) *Expr {
	switch {
	case e == nil:
		return other
	case other == nil:
		return e
	}
	return &Expr{root: joinTerms(true, []node{e.root, other.root})}
}

// joined joins terms by AND or OR, taking terms of the same logic apart.
func joinTerms(all bool, terms []node) node {
	if len(terms) == 1 {
		return terms[0]
	}
	flat := make([]node, 0, len(terms))
	for _, t := range terms {
		if l, ok := t.(*logic); ok && l.all == all {
			flat = append(flat, l.terms...)
		} else {
			flat = append(flat, t)
		}
	}
	return &logic{all: all, terms: flat}
}

// negate negates a condition. It removes a NOT instead of adding a second one.
func negate(n node) node {
	if inner, ok := n.(*not); ok {
		return inner.term
	}
	return &not{term: n}
}
