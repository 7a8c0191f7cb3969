package expr

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/expr/function"
	"github.com/penstock/penstock/internal/expr/operator"
	"github.com/penstock/penstock/internal/fault"
)

// maxNamed is the number of bytes of the texts of all values that conditions compare, or are. A text that is nested in others is a part of
// each of them.
const maxNamed = 16 * MaxText

// computed binds an operand that is not a column, so that rules can use it like a column.
func (b *binder) computed(o operand) (column, bool) {
	before := b.faults.found
	v := b.value(o)
	if v == nil || b.faults.found > before {
		return column{}, false
	}
	p := &printer{}
	p.operand(o, ofSum)
	if b.named += p.Len(); b.named > maxNamed {
		b.fail(o.position, "conditions are nested too deep: the texts of all values that they compare take more than %s", fault.Size(maxNamed))
		return column{}, false
	}
	c := column{name: p.String(), typ: columnTypeOf(v.typ()), typeName: operator.Name(v.typ()), value: v}
	if _, ok := v.(*literalValue); ok {
		b.fail(o.position, "%s has the same value in every row: a condition needs a column", c)
		return c, false
	}
	return c, true
}

// value binds an operand as a value. It returns nil after a fault.
func (b *binder) value(o operand) bound {
	if b.faults.skips() {
		return nil
	}
	switch {
	case o.isColumn():
		return b.columnValue(o)
	case o.isLiteral():
		return b.literalValue(o.literal)
	}
	known, ok := b.values[o.inner]
	if !ok {
		known = b.inner(o)
		b.values[o.inner] = known
	}
	return known
}

// inner binds an operand that is neither a column nor a literal.
func (b *binder) inner(o operand) bound {
	switch n := o.inner.(type) {
	case *arithmetic:
		return b.arithmetic(n, o.position)
	case *negative:
		return b.unary(n.operand, o, operator.Negate)
	case *cast:
		if n.to == nil {
			return nil
		}
		return b.unary(n.operand, o, func(from arrow.DataType) (operator.Bound, error) {
			if from.ID() == arrow.NULL {
				return nullOf(n.to), nil
			}
			return operator.Cast(from, n.to, n.try)
		})
	case *call:
		return b.call(n, o)
	case *choice:
		return b.choice(n, o)
	default:
		return b.condition(n, o.position)
	}
}

func (b *binder) columnValue(o operand) bound {
	c, ok := b.column(o)
	if !ok {
		return nil
	}
	fields, _ := b.schema.FieldsByName(c.name)
	c.exact = fields[0].Type
	return &columnValue{column: c, isNullable: fields[0].Nullable}
}

// arithmetic binds a binary operator.
func (b *binder) arithmetic(n *arithmetic, position int) bound {
	left, right := b.value(n.left), b.value(n.right)
	if left == nil || right == nil || !b.typed(position, left, right) {
		return nil
	}
	if isDecimal([]bound{left, right}) {
		fraction := n.right
		if decimal(left) {
			fraction = n.left
		}
		b.refuseDecimal(fraction)
		return nil
	}
	with, err := operator.Binary(n.op, left.typ(), right.typ())
	return b.operation(operand{position: position, inner: n}, with, err, left, right)
}

// decimal reports whether a value is a decimal in SQL engines: numbers with a fraction and without an
// exponent are. The type is double here.
func decimal(v bound) bool {
	switch v := v.(type) {
	case *literalValue:
		return v.isDecimal
	case *operation:
		return v.isDecimal
	case *choiceValue:
		return v.isDecimal
	case *masked:
		return decimal(v.bound)
	default:
		return false
	}
}

// isDecimal reports whether SQL engines give decimals to a value that is one of some values: some are
// decimals, and the others integers or NULL.
func isDecimal(values []bound) bool {
	some := false
	for _, v := range values {
		switch id := v.typ().ID(); {
		case decimal(v):
			some = true
		case id != arrow.INT32 && id != arrow.INT64 && id != arrow.NULL:
			return false
		}
	}
	return some
}

// keepsDecimals reports whether an operation on some arguments is a decimal in SQL engines.
func keepsDecimals(n node, args []bound) bool {
	if c, ok := n.(*call); ok {
		switch c.name {
		case "coalesce", "greatest", "least", "abs", "round", "floor", "ceil":
		case "nullif":
			args = args[:1]
		default:
			return false
		}
		return isDecimal(args)
	}
	_, sign := n.(*negative)
	return sign && isDecimal(args)
}

// refuseDecimal adds the fault for arithmetic of decimals. As doubles, 3 * 0.1 would not be 0.3.
func (b *binder) refuseDecimal(o operand) {
	if o.isLiteral() {
		b.fail(o.position, "%s is a decimal, and arithmetic of decimals is not supported: write %s for a double", o.literal, o.literal.number.scientific())
		return
	}
	b.fail(o.position, "%s is a decimal, and arithmetic of decimals is not supported: write its numbers with an exponent, as in 5E-1, for a double", shorten(printed(nodeOf(o))))
}

// typed reports whether no value is NULL without a type. Otherwise it adds a fault.
func (b *binder) typed(position int, values ...bound) bool {
	for _, v := range values {
		if v.typ().ID() == arrow.NULL {
			b.fail(position, "NULL has no type here: write CAST(NULL AS type)")
			return false
		}
	}
	return true
}

// unary binds an operator of one operand.
func (b *binder) unary(argument, whole operand, bind func(arrow.DataType) (operator.Bound, error)) bound {
	v := b.value(argument)
	if v == nil {
		return nil
	}
	with, err := bind(v.typ())
	return b.operation(whole, with, err, v)
}

// nullOf returns the cast of NULL to a type.
func nullOf(to arrow.DataType) operator.Bound {
	return operator.Bound{
		Type: to, Nullable: true,
		Run:  func([]arrow.Array, operator.Rows) (arrow.Array, error) { return nulls(to), nil },
		Size: func([]int64, int) int64 { return 0 },
	}
}

// call binds a call of a function.
func (b *binder) call(n *call, o operand) bound {
	args, described := make([]bound, len(n.args)), make([]function.Argument, len(n.args))
	for i, a := range n.args {
		v := b.value(a)
		if v == nil {
			return nil
		}
		described[i].Type = v.typ()
		args[i] = v
		if l, ok := v.(*literalValue); ok {
			described[i].Literal = l.value
			if a.isLiteral() && a.literal.list != nil {
				described[i].Index = a.literal.list.index
			}
		} else {
			args[i] = &masked{bound: v}
		}
	}
	if b.functions == nil {
		b.functions = function.NewTable()
	}
	f, err := b.functions.Bind(n.name, described)
	out := b.operation(o, functionOperator(f), err, args...)
	if call, ok := out.(*operation); ok {
		call.firstOf = n.name == "coalesce"
	}
	return out
}

// maxConstants is the number of bytes up to which operations on literals are computed when an
// expression is bound: its text bounds neither their results nor the memory on the way to them.
const maxConstants = 16 << 20

// operation makes an operation of an operator, unless err is an error of its arguments. It computes an
// operation on literals.
func (b *binder) operation(o operand, with operator.Bound, err error, args ...bound) bound {
	if err != nil {
		b.refuse(o.position, err)
		return nil
	}
	out := &operation{Bound: with, args: args, of: o.inner, isDecimal: keepsDecimals(o.inner, args)}
	if slices.ContainsFunc(args, func(v bound) bool { _, ok := v.(*literalValue); return !ok }) || len(args) == 0 {
		return out
	}
	m := newMeasure(nil, 1)
	out.measure(m)
	if b.constants += m.total; b.constants > maxConstants {
		b.fail(o.position, "the constants of the expression take more than %s", fault.Size(maxConstants))
		return nil
	}
	value, err := out.evaluate(&evaluation{rows: 1, mem: memory.DefaultAllocator}, []uint64{1})
	if err != nil {
		b.refuse(o.position, err)
		return nil
	}
	return &literalValue{value: value, isDecimal: out.isDecimal}
}

// refuse adds an error of a function or an operator as a fault.
func (b *binder) refuse(position int, err error) {
	var e *fault.Error
	if !errors.As(err, &e) || len(e.Faults) == 0 {
		b.fail(position, "%s", err)
		return
	}
	for _, f := range e.Faults {
		f.Position = position
		b.faults.add(f)
	}
}

// literalValue returns a literal of the type that it has in SQL: an integer is an int or a long, and
// any other number a double.
func (b *binder) literalValue(l literal) bound {
	value, err := literalArray(l)
	if err != nil {
		b.fail(l.position, "%s", err)
		return nil
	}
	return &literalValue{value: value, isDecimal: l.kind == numberLiteral && !l.double && l.number.scale > 0}
}

// literalOf returns a value that was computed of literals as a literal.
func literalOf(v *literalValue, position int) (literal, bool) {
	l := literal{position: position}
	text := v.value.ValueStr(0)
	if a, ok := v.value.(*array.Float32); ok { // exactly, since it may be compared with doubles
		text = strconv.FormatFloat(float64(a.Value(0)), 'e', -1, 64)
	}
	var err error
	switch v.typ().ID() {
	case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64:
		f, _ := strconv.ParseFloat(text, 64)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return l, false
		}
		l.kind = numberLiteral
		unsigned, negative := strings.CutPrefix(text, "-")
		if l.number, err = parseNumber(unsigned); err == nil && negative {
			l.number = l.number.negated()
		}
	case arrow.STRING:
		l.kind, l.text = textLiteral, text
	case arrow.BOOL:
		l.kind, l.boolean = booleanLiteral, text == "true"
	case arrow.DATE32:
		l.kind = dateLiteral
		l.instant, err = parseDate(text)
	default:
		return l, false
	}
	return l, err == nil && !v.nullable()
}

// computes reports whether a rule uses values that are not columns.
func computes(r rule) bool {
	switch r := r.(type) {
	case *junction:
		return slices.ContainsFunc(r.terms, computes)
	case *null:
		return r.column.value != nil
	case *leaf:
		return r.column.value != nil
	case *pair:
		return r.left.value != nil || r.right.value != nil
	case *prefixMatch:
		return r.column.value != nil
	case *patternMatch:
		return r.column.value != nil
	default:
		return false
	}
}
