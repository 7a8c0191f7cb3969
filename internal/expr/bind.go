package expr

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr/function"
	"github.com/penstock/penstock/internal/fault"
)

// Bind resolves the filter's columns in a schema and converts its literals to the
// columns' types. An error is Invalid and lists every unknown column (with the
// nearest name), every type mismatch and everything that is not supported, with
// positions in the text. Nil binds to the filter that passes every row.
func (e *Expr) Bind(schema *arrow.Schema) (*Filter, error) {
	if e == nil {
		return newFilter(constant(true)), nil
	}
	b := newBinder(schema)
	root := b.bind(e.root, false)
	if err := b.faults.err(); err != nil {
		return nil, err
	}
	return newFilter(root), nil
}

// BindConjuncts binds each of the filter's Conjuncts separately, in their order.
// It fails as Bind does. All of its results together equal the result of Bind.
func (e *Expr) BindConjuncts(schema *arrow.Schema) ([]*Filter, error) {
	b := newBinder(schema)
	conjuncts := e.Conjuncts()
	filters := make([]*Filter, len(conjuncts))
	for i, c := range conjuncts {
		filters[i] = newFilter(b.bind(c.root, false))
	}
	return filters, b.faults.err()
}

// All returns the filter of the rows that every given filter passes. The filters
// may be bound to different schemas. A nil filter passes every row, and All returns
// nil if all filters are nil.
func All(filters ...*Filter) *Filter {
	var terms []rule
	for _, f := range filters {
		if f != nil {
			terms = append(terms, f.root)
		}
	}
	if len(terms) == 0 {
		return nil
	}
	return newFilter(join(true, terms))
}

// binder converts nodes to rules. Rules have no NOT: bind pushes it down to the
// comparisons, which have complements because their order is total. So it does not
// matter whether a rule that is not TRUE is FALSE or NULL.
type binder struct {
	schema  *arrow.Schema
	faults  faultList
	unknown map[string]bool // columns already reported
	values  map[node]bound  // bound values by their expressions, since a condition is bound twice as a value
	nested  int             // the number of conditions around the current one that are values

	constants int64          // bytes of the operations on literals
	functions function.Table // nil: there was no call
	named     int            // bytes of the texts of values that rules use like columns
}

func newBinder(schema *arrow.Schema) *binder {
	return &binder{schema: schema, unknown: map[string]bool{}, values: map[node]bound{}}
}

func (b *binder) fail(position int, format string, args ...any) rule {
	b.faults.fail(position, format, args...)
	return constant(false)
}

// bind returns the rule that is TRUE where n, or NOT n, is TRUE. After as many faults as are listed, it returns another rule.
func (b *binder) bind(n node, negated bool) rule {
	if b.faults.skips() {
		return constant(false)
	}
	switch n := n.(type) {
	case *logic:
		terms := make([]rule, len(n.terms))
		for i, t := range n.terms {
			terms[i] = b.bind(t, negated)
		}
		return join(n.all != negated, terms)
	case *not:
		return b.bind(n.term, !negated)
	case *single:
		return b.boolean(n.operand, negated)
	case *comparison:
		if negated {
			return b.compare(n.op.negated(), n.left, n.right)
		}
		return b.compare(n.op, n.left, n.right)
	case *inList:
		return b.in(n, n.negated != negated)
	case *between:
		if n.negated != negated {
			return join(false, []rule{b.compare(lt, n.operand, n.low), b.compare(gt, n.operand, n.high)})
		}
		return join(true, []rule{b.compare(ge, n.operand, n.low), b.compare(le, n.operand, n.high)})
	case *isNull:
		c, _ := b.column(n.operand)
		return nullTest(c, n.negated == negated)
	case *like:
		return b.like(n, n.negated != negated)
	default:
		return b.boolean(operand{position: b.position(n), inner: n}, negated)
	}
}

// position returns the position of the first operand of an expression.
func (b *binder) position(n node) int {
	first := 0
	n.operands(func(o operand) {
		if first == 0 {
			first = o.position
		}
	})
	return first
}

// column returns the column that an operand names. If there is none that can be used, it adds a
// fault and returns false.
func (b *binder) column(o operand) (column, bool) {
	if !o.isColumn() {
		return b.computed(o)
	}
	name := o.column[0]
	if len(o.column) > 1 {
		b.faults.add(b.path(o))
		return column{name: name}, false
	}
	fields, _ := b.schema.FieldsByName(name)
	if len(fields) == 1 {
		c := column{name: name, typ: columnTypeOf(fields[0].Type), typeName: fields[0].Type.String()}
		if c.typ.family == opaque {
			b.fail(o.position, "%s has a type that filters do not support", c)
		}
		return c, c.typ.family != opaque
	}
	if b.unknown[name] {
		return column{name: name}, false
	}
	b.unknown[name] = true
	if len(fields) > 1 {
		b.fail(o.position, "%d columns are named %q", len(fields), name)
		return column{name: name}, false
	}
	message := UnknownColumn(name)
	switch word := strings.ToLower(name); {
	case slices.Contains([]string{"nan", "inf", "infinity"}, word):
		message += "; there is no literal of it, and NaN is greater than every number"
	case slices.Contains([]string{"current_date", "today", "current_timestamp", "now"}, word):
		message += "; write out the date, as in DATE '2026-10-01'"
	case o.quoted:
		message += "; a string is written in single quotes"
	}
	b.faults.add(fault.Field{Position: o.position, Message: message, Nearest: b.nearest(name)})
	return column{name: name}, false
}

// nearest returns the column of the schema that is nearest to an unknown one; "" if there is none.
func (b *binder) nearest(name string) string {
	known := make([]string, b.schema.NumFields())
	for i, f := range b.schema.Fields() {
		known[i] = f.Name
	}
	return fault.Nearest(name, known)
}

// path returns the fault for a dotted name, which may mean the field of a struct, or a column
// qualified by the name of a table.
func (b *binder) path(o operand) fault.Field {
	out := fault.Field{Position: o.position}
	text, last := strings.Join(o.column, "."), o.column[len(o.column)-1]
	if b.schema.HasField(o.column[0]) {
		out.Message = text + " is a field of a struct: filters on struct fields are not supported yet"
		return out
	}
	out.Message = UnknownColumn(text) + "; columns have no table's name before them"
	if b.schema.HasField(last) {
		out.Nearest = last
	}
	return out
}

// UnknownColumn returns the message for a column that the schema lacks. Callers that know
// why it is missing can recognize it and add the reason.
func UnknownColumn(name string) string { return fmt.Sprintf("unknown column %q", name) }

// boolean binds TRUE, FALSE or a boolean value as a condition.
func (b *binder) boolean(o operand, negated bool) rule {
	if o.isLiteral() && o.literal.kind == booleanLiteral {
		return constant(o.literal.boolean != negated)
	}
	c, ok := b.column(o)
	if ok && c.typ.family != booleans {
		return b.fail(o.position, "%s is not a condition by itself: compare it with %s", c, c.typ.accepts())
	}
	return booleanRule(c, !negated, negated)
}

// compare binds a comparison of two operands.
func (b *binder) compare(o op, left, right operand) rule {
	left, right = b.simplified(left), b.simplified(right)
	switch {
	case !left.isLiteral() && !right.isLiteral():
		return b.compareColumns(o, left, right)
	case !right.isLiteral():
		return b.compare(o.mirrored(), right, left)
	case left.isLiteral():
		// For example, 5 BETWEEN 1 AND a compares 5 with 1.
		return b.fail(left.position, "two literals are compared: compare columns with literals")
	}
	c, ok := b.column(left)
	if !ok {
		return constant(false)
	}
	l, ok := b.literal(c, right.literal)
	if !ok {
		return constant(false)
	}
	return compareRule(o, c, l)
}

// simplified returns the literal that an operand of literals computes, as in a < 60 * 60.
func (b *binder) simplified(o operand) operand {
	if o.inner == nil {
		return o
	}
	if v, ok := b.value(o).(*literalValue); ok {
		if l, ok := literalOf(v, o.position); ok {
			return operand{position: o.position, literal: l}
		}
	}
	return o
}

// literal converts a literal to a column's type.
func (b *binder) literal(c column, l literal) (literal, bool) {
	taken, err := c.typ.convert(l)
	if err != nil {
		b.fail(l.position, "%s %s", c, err)
		return l, false
	}
	return taken, true
}

// in binds a list of literals.
func (b *binder) in(n *inList, negated bool) rule {
	c, ok := b.column(n.operand)
	if !ok {
		return constant(false)
	}
	items := make([]literal, 0, len(n.items))
	for _, item := range n.items {
		if l, ok := b.literal(c, item); ok {
			items = append(items, l)
		}
	}
	return listRule(c, items, negated)
}

func (b *binder) compareColumns(o op, left, right operand) rule {
	l, okLeft := b.column(left)
	right.quoted = true // the name may be a string without its quotes, which the fault's message then suggests
	r, okRight := b.column(right)
	if !okLeft || !okRight {
		return constant(false)
	}
	alike := l.typ == r.typ
	if l.typ.family == integers || l.typ.family == floats || l.typ.family == binaries {
		alike = l.typ.family == r.typ.family
	}
	if !alike || l.typ.family == nested {
		remedy := "compare columns of one type, or each with a literal"
		if l.typ.family == timestamp && r.typ.family == timestamp && l.typ.zoned != r.typ.zoned {
			remedy = "one has a time zone and the other has none; compare each with a TIMESTAMP literal"
		}
		if l.value != nil || r.value != nil {
			return b.fail(left.position, "%s and %s cannot be compared: %s", l, r, remedy)
		}
		return b.fail(left.position, "columns %q (%s) and %q (%s) cannot be compared: %s",
			l.name, l.typeName, r.name, r.typeName, remedy)
	}
	if r.name < l.name && l.value == nil && r.value == nil {
		l, r, o = r, l, o.mirrored()
	}
	return &pair{op: o, left: l, right: r, match: pairMatcherOf(o, l.typ)}
}

// Filter is a filter bound to a schema. A nil Filter passes every row.
type Filter struct {
	root     rule
	columns  []column
	computes bool      // whether it uses values that are not columns
	scratch  sync.Pool // of *evaluation
}

// newFilter makes a filter of a rule, and lists the columns that the rule reads.
func newFilter(root rule) *Filter {
	f := &Filter{root: root, computes: computes(root)}
	f.columns = distinctColumns(root.visit)
	return f
}

// distinctColumns returns the distinct columns that a rule or a value reads.
func distinctColumns(visit func(func(column))) []column {
	var columns []column
	known := map[string]int{}
	visit(func(c column) {
		at, ok := known[c.name]
		switch {
		case !ok:
			known[c.name] = len(columns)
			columns = append(columns, c)
		case c.exact != nil:
			columns[at] = c
		}
	})
	return columns
}

// Columns returns the distinct names of the columns that Evaluate reads, in the order
// of the canonical text. Columns that do not affect the result may be missing, as in
// a > 1 AND FALSE.
func (f *Filter) Columns() []string {
	if f == nil {
		return nil
	}
	names := make([]string, len(f.columns))
	for i, c := range f.columns {
		names[i] = c.name
	}
	return names
}

// String returns the canonical text of the bound filter: literals in their columns'
// types, columns on the left, NOT and BETWEEN resolved, terms of AND and OR and
// members of lists sorted and distinct. Filters that differ only in these respects
// have the same text. Parse and Bind of the text return an equal filter.
func (f *Filter) String() string {
	if f == nil {
		return constant(true).text()
	}
	return f.root.text()
}
