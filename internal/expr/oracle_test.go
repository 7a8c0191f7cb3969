package expr

import (
	"bytes"
	"math"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"
)

// The oracle evaluates the syntax tree of a filter row by row under three-valued
// logic, with exact numbers, without rules, bitmaps and bound types.

// tri is a truth value of SQL.
type tri int

const (
	isFalse tri = iota
	isTrue
	isUnknown
)

func triOf(b bool) tri {
	if b {
		return isTrue
	}
	return isFalse
}

func (v tri) not() tri {
	if v == isUnknown {
		return v
	}
	return isTrue - v
}

// cell is a value of a row: nil for null, otherwise *big.Rat, float64, []byte or
// bool. Times are in nanoseconds.
type cell any

// oracle returns the rows for which the filter is TRUE.
func oracle(e *Expr, batch arrow.RecordBatch) []int32 {
	rows := []int32{}
	for i := range int(batch.NumRows()) {
		if truthOf(e.root, batch, i) == isTrue {
			rows = append(rows, int32(i))
		}
	}
	return rows
}

func truthOf(n node, batch arrow.RecordBatch, row int) tri {
	value := func(o operand) cell {
		a := batch.Column(batch.Schema().FieldIndices(o.column[0])[0])
		return cellOf(a, row)
	}
	against := func(op op, left, right operand) tri {
		switch {
		case left.isColumn() && right.isColumn():
			return triCompare(op, value(left), value(right))
		case left.isColumn():
			return triLiteral(op, value(left), right.literal, typeOf(batch, left))
		default:
			return triLiteral(swapped(op), value(right), left.literal, typeOf(batch, right))
		}
	}
	switch n := n.(type) {
	case *logic:
		out := triOf(n.all)
		for _, t := range n.terms {
			v := truthOf(t, batch, row)
			switch {
			case v == triOf(!n.all):
				return v
			case v == isUnknown:
				out = isUnknown
			}
		}
		return out
	case *not:
		return truthOf(n.term, batch, row).not()
	case *single:
		if !n.operand.isColumn() {
			return triOf(n.operand.literal.boolean)
		}
		if v := value(n.operand); v != nil {
			return triOf(v.(bool))
		}
		return isUnknown
	case *comparison:
		return against(n.op, n.left, n.right)
	case *inList:
		out := isFalse
		for _, item := range n.items {
			switch triLiteral(eq, value(n.operand), item, typeOf(batch, n.operand)) {
			case isTrue:
				out = isTrue
			case isUnknown:
				out = max(out, isUnknown)
			}
		}
		if n.negated {
			return out.not()
		}
		return out
	case *between:
		low, high := against(ge, n.operand, n.low), against(le, n.operand, n.high)
		out := isTrue
		switch {
		case low == isFalse || high == isFalse:
			out = isFalse
		case low == isUnknown || high == isUnknown:
			out = isUnknown
		}
		if n.negated {
			return out.not()
		}
		return out
	case *like:
		text, ok := value(n.operand).([]byte)
		if !ok {
			return isUnknown
		}
		return triOf(matches(string(text), n.pattern.String()) != n.negated)
	case *isNull:
		return triOf((value(n.operand) == nil) != n.negated)
	}
	panic("unknown node")
}

// matches implements LIKE by exhaustive search.
func matches(text, pattern string) bool {
	if pattern == "" {
		return text == ""
	}
	switch pattern[0] {
	case '%':
		return matches(text, pattern[1:]) || text != "" && matches(string([]rune(text)[1:]), pattern)
	case '_':
		return text != "" && matches(string([]rune(text)[1:]), pattern[1:])
	case '\\':
		pattern = pattern[1:]
	}
	return text != "" && text[0] == pattern[0] && matches(text[1:], pattern[1:])
}

func swapped(o op) op {
	switch o {
	case lt:
		return gt
	case le:
		return ge
	case gt:
		return lt
	case ge:
		return le
	default:
		return o
	}
}

func typeOf(batch arrow.RecordBatch, o operand) arrow.DataType {
	return batch.Column(batch.Schema().FieldIndices(o.column[0])[0]).DataType()
}

// cellOf returns the value of a row.
func cellOf(a arrow.Array, row int) cell {
	if a.IsNull(row) {
		return nil
	}
	whole := func(v, unit int64) cell {
		return new(big.Rat).SetInt(new(big.Int).Mul(big.NewInt(v), big.NewInt(unit)))
	}
	switch a := a.(type) {
	case *array.Int32:
		return whole(int64(a.Value(row)), 1)
	case *array.Int64:
		return whole(a.Value(row), 1)
	case *array.Float32:
		return float64(a.Value(row))
	case *array.Float64:
		return a.Value(row)
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
		return new(big.Rat).SetFrac(a.Value(row).BigInt(), ten)
	case *array.Boolean:
		return a.Value(row)
	case *array.String:
		return []byte(a.Value(row))
	case *array.LargeString:
		return []byte(a.Value(row))
	case *array.Binary:
		return a.Value(row)
	case *array.LargeBinary:
		return a.Value(row)
	case *array.FixedSizeBinary:
		return a.Value(row)
	case *array.Date32:
		return whole(int64(a.Value(row)), 86_400_000_000_000)
	case *array.Time64:
		return whole(int64(a.Value(row)), int64(a.DataType().(*arrow.Time64Type).Unit.Multiplier()))
	case *array.Timestamp:
		return whole(int64(a.Value(row)), int64(a.DataType().(*arrow.TimestampType).Unit.Multiplier()))
	default:
		return struct{}{}
	}
}

// triCompare compares two values of one family.
func triCompare(o op, x, y cell) tri {
	if x == nil || y == nil {
		return isUnknown
	}
	order := 0
	switch x := x.(type) {
	case *big.Rat:
		order = x.Cmp(y.(*big.Rat))
	case float64:
		if nanLess(x, y.(float64)) {
			order = -1
		} else if nanLess(y.(float64), x) {
			order = 1
		}
	case []byte:
		order = bytes.Compare(x, y.([]byte))
	case bool:
		rank := map[bool]int{false: 0, true: 1}
		order = rank[x] - rank[y.(bool)]
	}
	return triOrder(o, order)
}

func nanLess(x, y float64) bool {
	return x < y || !math.IsNaN(x) && math.IsNaN(y)
}

func triOrder(o op, order int) tri {
	return triOf(map[op]bool{
		eq: order == 0, ne: order != 0, lt: order < 0, le: order <= 0, gt: order > 0, ge: order >= 0,
	}[o])
}

// triLiteral compares a value with a literal of a column's type.
func triLiteral(o op, x cell, l literal, dt arrow.DataType) tri {
	if x == nil {
		return isUnknown
	}
	switch l.kind {
	case numberLiteral:
		exact, ok := new(big.Rat).SetString(l.number.text())
		if !ok {
			panic(l.number.text())
		}
		v, isFloat := x.(float64)
		if !isFloat {
			return triCompare(o, x, exact)
		}
		nearest, _ := exact.Float64()
		if dt.ID() == arrow.FLOAT32 {
			single, _ := exact.Float32()
			nearest = float64(single)
		}
		switch {
		case !math.IsInf(nearest, 0):
			return triCompare(o, v, nearest)
		case math.IsNaN(v) || math.IsInf(v, 1):
			return triOrder(o, 1)
		case math.IsInf(v, -1):
			return triOrder(o, -1)
		default:
			return triOrder(o, new(big.Rat).SetFloat64(v).Cmp(exact))
		}
	case booleanLiteral:
		return triCompare(o, x, l.boolean)
	case textLiteral:
		if _, isTime := x.(*big.Rat); isTime {
			t, err := parseTimestamp(l.text)
			if dt.ID() == arrow.TIME64 {
				t, err = parseTime(l.text)
			}
			if err != nil {
				panic(err)
			}
			return triCompare(o, x, nanosOf(t))
		}
		if fixed, ok := dt.(*arrow.FixedSizeBinaryType); ok && fixed.ByteWidth == 16 {
			id := uuid.MustParse(l.text)
			return triCompare(o, x, id[:])
		}
		return triCompare(o, x, []byte(l.text))
	case binaryLiteral:
		return triCompare(o, x, []byte(l.text))
	default:
		return triCompare(o, x, nanosOf(l.instant))
	}
}

func nanosOf(t instant) *big.Rat {
	days := new(big.Rat).SetInt64(t.days)
	days.Mul(days, big.NewRat(86_400_000_000_000, 1))
	return days.Add(days, new(big.Rat).SetInt64(t.nanos))
}
