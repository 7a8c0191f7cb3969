package expr

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/expr/function"
	"github.com/penstock/penstock/internal/expr/operator"
	"github.com/penstock/penstock/internal/fault"
)

// computed binds an operand that is not a column, so that rules can use it like a column.
func (b *binder) computed(o operand) (column, bool) {
	before := len(b.faults)
	v := b.value(o)
	if v == nil || len(b.faults) > before {
		return column{name: printed(nodeOf(o))}, false
	}
	p := &printer{}
	p.operand(o, ofSum)
	c := column{name: p.String(), typ: columnTypeOf(v.typ()), typeName: operator.Name(v.typ()), value: v}
	if _, ok := v.(*literalValue); ok {
		b.fail(o.position, "%s has the same value in every row: a condition needs a column", c)
		return c, false
	}
	return c, true
}

// value binds an operand as a value. It returns nil after a fault.
func (b *binder) value(o operand) bound {
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
	if isInteger(left) && isFraction(right) || isFraction(left) && isInteger(right) {
		fraction := n.right
		if isFraction(left) {
			fraction = n.left
		}
		b.fail(fraction.position, "%s is a decimal, which is not supported beside an integer: write %s for a double",
			fraction.literal, fraction.literal.number.scientific())
		return nil
	}
	with, err := operator.Binary(n.op, left.typ(), right.typ())
	return b.operation(operand{position: position, inner: n}, with, err, left, right)
}

func isInteger(v bound) bool { return v.typ().ID() == arrow.INT32 || v.typ().ID() == arrow.INT64 }

// isFraction reports whether a value is a number literal with a fraction and without an exponent.
// SQL engines give it a decimal type.
func isFraction(v bound) bool {
	l, ok := v.(*literalValue)
	return ok && l.from.kind == numberLiteral && l.from.number.unscaled != nil && !l.from.double && l.from.number.scale > 0
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
		} else {
			args[i] = &masked{bound: v}
		}
	}
	f, err := function.Bind(n.name, described)
	out := b.operation(o, functionOperator(f), err, args...)
	if call, ok := out.(*operation); ok {
		call.firstOf = n.name == "coalesce"
	}
	return out
}

// operation makes an operation of an operator, unless err is an error of its arguments. It computes an
// operation on literals.
func (b *binder) operation(o operand, with operator.Bound, err error, args ...bound) bound {
	if err != nil {
		b.refuse(o.position, err)
		return nil
	}
	out := &operation{Bound: with, args: args, text: printed(o.inner)}
	if slices.ContainsFunc(args, func(v bound) bool { _, ok := v.(*literalValue); return !ok }) || len(args) == 0 {
		return out
	}
	value, err := out.evaluate(&evaluation{rows: 1, mem: memory.DefaultAllocator}, []uint64{1})
	if err != nil {
		b.refuse(o.position, err)
		return nil
	}
	return &literalValue{value: value}
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
		b.faults = append(b.faults, f)
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
	return &literalValue{value: value, from: l}
}

// literalOf returns a value that was computed of literals as a literal.
func literalOf(v *literalValue, position int) (literal, bool) {
	l := literal{position: position}
	text := v.value.ValueStr(0)
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
