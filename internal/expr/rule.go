package expr

import (
	"cmp"
	"math"
	"slices"
	"strings"
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

// column is a resolved column.
type column struct {
	name     string
	typ      columnType
	typeName string // for messages
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
		return quoteName(n.column.name) + " IS NULL"
	}
	return quoteName(n.column.name) + " IS NOT NULL"
}

func (l *leaf) text() string {
	name, s := quoteName(l.column.name), l.column.typ
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
	return quoteName(p.left.name) + " " + p.op.String() + " " + quoteName(p.right.name)
}

func (c constant) cost() int { return 0 }
func (n *null) cost() int    { return 0 }
func (l *leaf) cost() int    { return l.column.typ.cost() }
func (p *pair) cost() int    { return 1 + p.left.typ.cost() }

func (j *junction) cost() int {
	return 1 + j.terms[len(j.terms)-1].cost() // the last term costs most
}

func (c constant) visit(func(column))       {}
func (n *null) visit(callback func(column)) { callback(n.column) }
func (l *leaf) visit(callback func(column)) { callback(l.column) }
func (p *pair) visit(callback func(column)) { callback(p.left); callback(p.right) }
func (j *junction) visit(callback func(column)) {
	for _, t := range j.terms {
		t.visit(callback)
	}
}
