package expr

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// rule is a bound condition, which is TRUE for a row or not. Rules are immutable, so
// that filters can share them.
type rule interface {
	// text returns the canonical text.
	text() string
	// cost orders rules for evaluation, cheap ones first.
	cost() int
	// visit calls the function for each column.
	visit(func(column))
	// keep clears the bits of the rows for which the rule is not TRUE.
	keep(e *evaluation, rows []uint64)
	// mayMatch returns false only if the rule is TRUE for no row within the ranges.
	mayMatch(ranges func(string) (Range, bool)) bool
}

// column is a resolved column, or another value that rules use like a column.
type column struct {
	name     string // for a value that is not a column: its canonical text
	typ      columnType
	typeName string // for messages
	value    bound  // nil for a column

	exact arrow.DataType // the type that batches must have, if a value reads the column; nil: any with the same columnType
}

// text returns the canonical text.
func (c column) text() string {
	if c.value != nil {
		return c.name
	}
	return quoteName(c.name)
}

// String describes the column in messages.
func (c column) String() string {
	if c.value != nil {
		return fmt.Sprintf("%s (%s)", shorten(c.name), c.typeName)
	}
	return fmt.Sprintf("column %q (%s)", c.name, c.typeName)
}

// ranged returns the range of the column's values. That of other values is unknown.
func (c column) ranged(ranges func(string) (Range, bool)) (Range, bool) {
	if c.value != nil {
		return Range{}, false
	}
	return ranges(c.name)
}

// lazyCost is the cost of rules about values that are not columns. They are evaluated last, in the
// order of the text, on the rows that the other rules leave, so that the other rules can prevent
// errors.
const lazyCost = 100

func (c column) cost() int {
	if c.value != nil {
		return lazyCost
	}
	return c.typ.cost()
}

// visited calls the function for the column, or for those that the value reads.
func (c column) visited(callback func(column)) {
	if c.value != nil {
		c.value.visit(callback)
		return
	}
	callback(c)
}

type (
	// constant is TRUE for every row, or for none.
	constant bool

	// junction is AND or OR of at least two rules in canonical order, none of
	// which is a constant or a junction of the same operator.
	junction struct {
		all       bool
		terms     []rule
		canonical string
	}

	// null is IS NULL or IS NOT NULL.
	null struct {
		column column
		isNull bool
	}

	// leaf compares a column with one constant, or with at least two for IN and
	// NOT IN. A leaf of a boolean column is always = TRUE or = FALSE.
	leaf struct {
		column column
		test   test
		values []Value // the constants in ascending order
		match  matcher
	}

	// pair compares two columns.
	pair struct {
		op          op
		left, right column
		match       pairMatcher
	}
)

// test is the way in which a leaf tests a value: by a comparison, or by membership in a list.
type test struct {
	op      op   // eq and ne for IN and NOT IN
	members bool // IN or NOT IN
}

// join returns the junction of rules, simplified and in canonical order.
func join(all bool, terms []rule) rule {
	flat := make([]rule, 0, len(terms))
	for _, t := range terms {
		switch inner := t.(type) {
		case constant:
			if bool(inner) != all {
				return constant(!all) // FALSE decides AND, TRUE decides OR
			}
			continue
		case *junction:
			if inner.all == all {
				flat = append(flat, inner.terms...)
				continue
			}
		}
		flat = append(flat, t)
	}
	texts := make(map[rule]string, len(flat)) // rules are pointers here
	for _, t := range flat {
		texts[t] = t.text()
	}
	slices.SortStableFunc(flat, func(a, b rule) int {
		if a.cost() >= lazyCost && b.cost() >= lazyCost {
			return 0
		}
		return cmp.Or(cmp.Compare(a.cost(), b.cost()), strings.Compare(texts[a], texts[b]))
	})
	flat = slices.CompactFunc(flat, func(a, b rule) bool { return texts[a] == texts[b] })
	switch len(flat) {
	case 0:
		return constant(all)
	case 1:
		return flat[0]
	}
	j := &junction{all: all, terms: flat}
	j.canonical = j.print(texts)
	return j
}

func (j *junction) print(texts map[rule]string) string {
	var b strings.Builder
	for i, t := range j.terms {
		_, nests := t.(*junction)
		switch {
		case i > 0 && j.all:
			b.WriteString(" AND ")
		case i > 0:
			b.WriteString(" OR ")
		}
		if nests && j.all {
			b.WriteString("(" + texts[t] + ")")
		} else {
			b.WriteString(texts[t])
		}
	}
	return b.String()
}

func (c constant) text() string  { return booleanText(bool(c)) }
func (j *junction) text() string { return j.canonical }

func (n *null) text() string {
	if n.isNull {
		return n.column.text() + " IS NULL"
	}
	return n.column.text() + " IS NOT NULL"
}

func (l *leaf) text() string {
	name, s := l.column.text(), l.column.typ
	switch {
	case s.family == booleans && l.values[0].integer == 1:
		return name
	case s.family == booleans:
		return "NOT " + name
	case !l.test.members:
		return name + " " + l.writtenOp().String() + " " + s.literalText(l.values[0])
	}
	items := make([]string, len(l.values))
	for i, v := range l.values {
		items[i] = s.literalText(v)
	}
	word := " IN ("
	if l.test.op == ne {
		word = " NOT IN ("
	}
	return name + word + strings.Join(items, ", ") + ")"
}

// writtenOp returns the operator in the canonical text: an infinite constant stands for
// a literal beyond the type's range, which no value equals.
func (l *leaf) writtenOp() op {
	switch f := l.values[0].float; {
	case math.IsInf(f, 1) && l.test.op == ge:
		return gt
	case math.IsInf(f, -1) && l.test.op == le:
		return lt
	default:
		return l.test.op
	}
}

func (p *pair) text() string {
	return p.left.text() + " " + p.op.String() + " " + p.right.text()
}

func (c constant) cost() int { return 0 }
func (l *leaf) cost() int    { return l.column.cost() }
func (p *pair) cost() int    { return 1 + max(p.left.cost(), p.right.cost()) }

func (n *null) cost() int {
	if n.column.value != nil {
		return lazyCost
	}
	return 0
}

func (j *junction) cost() int {
	return 1 + j.terms[len(j.terms)-1].cost() // the last term costs most
}

func (c constant) visit(func(column))       {}
func (n *null) visit(callback func(column)) { n.column.visited(callback) }
func (l *leaf) visit(callback func(column)) { l.column.visited(callback) }
func (p *pair) visit(callback func(column)) { p.left.visited(callback); p.right.visited(callback) }
func (j *junction) visit(callback func(column)) {
	for _, t := range j.terms {
		t.visit(callback)
	}
}
