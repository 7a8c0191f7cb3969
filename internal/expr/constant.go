package expr

import (
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/penstock/penstock/internal/invariant"
)

func nullTest(c column, isNull bool) rule { return &null{column: c, isNull: isNull} }

// truthRule returns the rule for a boolean column that is TRUE of the values
// given.
func truthRule(c column, ofTrue, ofFalse bool) rule {
	switch {
	case ofTrue && ofFalse:
		return nullTest(c, false)
	case ofTrue || ofFalse:
		return newLeaf(c, test{op: eq}, []Value{Bool(ofTrue)})
	default:
		return constant(false)
	}
}

// holds reports whether a comparison holds of values in this order.
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

// compareRule binds a comparison with a literal that the column has taken.
func compareRule(o op, c column, l literal) rule {
	switch {
	case c.shape.discrete():
		return compareDiscrete(o, c, l.number)
	case c.shape.family == floats:
		return compareFloat(o, c, l.number)
	case c.shape.family == truths:
		literal := Bool(l.truth)
		order := func(v bool) int { n, _ := Bool(v).compare(literal); return n }
		return truthRule(c, o.holds(order(true)), o.holds(order(false)))
	default:
		return newLeaf(c, test{op: o}, []Value{Text(l.text)})
	}
}

// compareDiscrete compares with a number that need not be a value of the
// column: between two values it becomes a comparison with the lower one, and
// beyond all values it is TRUE of every value or of none.
func compareDiscrete(o op, c column, n number) rule {
	always, never := nullTest(c, false), constant(false)
	units, exact := n.floor(c.shape.scale)
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
	least, greatest := c.shape.limits()
	switch {
	case units.Cmp(least) < 0 && (o == ne || o == gt || o == ge):
		return always
	case units.Cmp(greatest) > 0 && (o == ne || o == lt || o == le):
		return always
	case units.Cmp(least) < 0 || units.Cmp(greatest) > 0:
		return never
	}
	return newLeaf(c, test{op: o}, []Value{discreteValue(c.shape, units)})
}

// discreteValue makes a value of a whole number of the shape's units.
func discreteValue(s shape, units *big.Int) Value {
	if s.family == decimals {
		return Decimal(units, s.scale)
	}
	return Int(units.Int64())
}

// compareFloat compares with the nearest float. A literal beyond the largest
// finite value lies between that and infinity.
func compareFloat(o op, c column, n number) rule {
	f := n.float(c.shape.bits)
	if math.IsInf(f, 0) {
		switch {
		case o == eq:
			return constant(false)
		case o == ne:
			return nullTest(c, false)
		case f > 0 && (o == lt || o == le):
			o = lt // not infinite
		case f > 0:
			o = ge // infinite, or NaN
		case o == lt || o == le:
			o = le // minus infinite
		default:
			o = gt // anything else
		}
	}
	return newLeaf(c, test{op: o}, []Value{Float(f)})
}

// floatText renders a float constant so that binding it again gives the same
// constant; infinities as a literal beyond every range.
func floatText(f float64, bits int) string {
	if math.IsInf(f, 0) {
		n := number{unscaled: big.NewInt(1), scale: -400}
		if f < 0 {
			n = n.negated()
		}
		return n.text()
	}
	n, err := parseNumber(strconv.FormatFloat(math.Abs(f), 'e', -1, bits))
	invariant.Check(err == nil, "the shortest text of a float is a number: %v", err)
	if f < 0 {
		n = n.negated()
	}
	return n.text()
}

// listRule binds IN or NOT IN to literals that the column has taken. Literals
// that no value of the column equals fall away.
func listRule(c column, items []literal, negated bool) rule {
	if c.shape.family == truths {
		var listed [2]bool
		for _, l := range items {
			listed[Bool(l.truth).integer] = true
		}
		return truthRule(c, listed[1] != negated, listed[0] != negated)
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

// newLeaf makes a leaf; the values are ascending and of the column's kind.
func newLeaf(c column, t test, values []Value) rule {
	return &leaf{column: c, test: t, values: values, match: matcherOf(c.shape, t, values)}
}
