package expr

import (
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/penstock/penstock/internal/invariant"
)

func nullTest(c column, isNull bool) rule { return &null{column: c, isNull: isNull} }

// booleanRule returns a rule that passes rows by the value of a boolean column: the rows with TRUE,
// with FALSE, with both or with neither.
func booleanRule(c column, passTrue, passFalse bool) rule {
	switch {
	case passTrue && passFalse:
		return nullTest(c, false)
	case passTrue || passFalse:
		return newLeaf(c, test{op: eq}, []Value{Bool(passTrue)})
	default:
		return constant(false)
	}
}

// holds reports whether a comparison is true for values in this order.
func (o op) holds(order int) bool {
	switch o {
	case eq:
		return order == 0
	case ne:
		return order != 0
	case lt:
		return order < 0
	case le:
		return order <= 0
	case gt:
		return order > 0
	case ge:
	}
	return order >= 0
}

// compareRule binds a comparison with a literal of the column's type.
func compareRule(o op, c column, l literal) rule {
	switch {
	case c.typ.discrete():
		return compareDiscrete(o, c, l.number)
	case c.typ.family == floats:
		return compareFloat(o, c, l.number)
	case c.typ.family == booleans:
		literal := Bool(l.boolean)
		order := func(v bool) int { n, _ := Bool(v).compare(literal); return n }
		return booleanRule(c, o.holds(order(true)), o.holds(order(false)))
	default:
		return newLeaf(c, test{op: o}, []Value{Text(l.text)})
	}
}

// compareDiscrete compares with a number that need not be a value of the column.
// A number between two values is replaced by the lower one. For a number beyond all
// values, the rule is TRUE for every value or for none.
func compareDiscrete(o op, c column, n number) rule {
	always, never := nullTest(c, false), constant(false)
	units, exact := n.floor(c.typ.scale)
	if !exact {
		switch o {
		case eq:
			return never
		case ne:
			return always
		case lt, le:
			o = le
		case gt, ge:
			o = gt
		}
	}
	minValue, maxValue := c.typ.limits()
	switch {
	case units.Cmp(minValue) < 0 && (o == ne || o == gt || o == ge):
		return always
	case units.Cmp(maxValue) > 0 && (o == ne || o == lt || o == le):
		return always
	case units.Cmp(minValue) < 0 || units.Cmp(maxValue) > 0:
		return never
	}
	return newLeaf(c, test{op: o}, []Value{discreteValue(c.typ, units)})
}

// discreteValue returns the value of a number of units of a discrete type.
func discreteValue(s columnType, units *big.Int) Value {
	if s.family == decimals {
		return Decimal(units, s.scale)
	}
	return Int(units.Int64())
}

// compareFloat compares a column with the float that is nearest to a literal. A literal beyond the
// largest finite value lies between that value and infinity.
func compareFloat(o op, c column, n number) rule {
	f := n.float(c.typ.bits)
	if math.IsInf(f, 0) {
		switch {
		case o == eq:
			return constant(false)
		case o == ne:
			return nullTest(c, false)
		case f > 0 && (o == lt || o == le):
			o = lt // all values except infinity and NaN
		case f > 0:
			o = ge // infinity and NaN
		case o == lt || o == le:
			o = le // minus infinity
		default:
			o = gt // all values except minus infinity
		}
	}
	return newLeaf(c, test{op: o}, []Value{Float(f)})
}

// floatText renders a float constant so that binding it again yields the same
// constant. An infinity becomes a literal beyond every type's range.
func floatText(f float64, bits int) string {
	if math.IsInf(f, 0) {
		n := number{unscaled: big.NewInt(1), scale: -400}
		if f < 0 {
			n = n.negated()
		}
		return n.text()
	}
	n, err := parseNumber(strconv.FormatFloat(math.Abs(f), 'e', -1, bits))
	invariant.Check(err == nil, "the shortest text of a float must be a number: %v", err)
	if f < 0 {
		n = n.negated()
	}
	return n.text()
}

// listRule binds IN or NOT IN with literals of the column's type. It drops literals
// that no value of the column equals.
func listRule(c column, items []literal, negated bool) rule {
	if c.typ.family == booleans {
		var listed [2]bool
		for _, l := range items {
			listed[Bool(l.boolean).integer] = true
		}
		return booleanRule(c, listed[1] != negated, listed[0] != negated)
	}
	values := make([]Value, 0, len(items))
	for _, l := range items {
		if one, ok := compareRule(eq, c, l).(*leaf); ok {
			values = append(values, one.values[0])
		}
	}
	slices.SortFunc(values, func(a, b Value) int { order, _ := a.compare(b); return order })
	values = slices.CompactFunc(values, func(a, b Value) bool { order, _ := a.compare(b); return order == 0 })
	o := eq
	if negated {
		o = ne
	}
	switch {
	case len(values) > 1:
		return newLeaf(c, test{op: o, members: true}, values)
	case len(values) == 1:
		return newLeaf(c, test{op: o}, values)
	case negated:
		return nullTest(c, false)
	default:
		return constant(false)
	}
}

// newLeaf makes a leaf. The values are ascending and of the column's kind.
func newLeaf(c column, t test, values []Value) rule {
	return &leaf{column: c, test: t, values: values, match: matcherOf(c.typ, t, values)}
}
