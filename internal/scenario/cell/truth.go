package cell

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// truth is a truth value of SQL: AND is the minimum, OR the maximum of its terms.
type truth int

const (
	isFalse truth = iota
	isUnknown
	isTrue
)

func truthOf(b bool) truth {
	if b {
		return isTrue
	}
	return isFalse
}

func (v truth) not() truth { return isTrue - v }

// Row is a row by column names: its values and their types.
type Row struct {
	Cells map[string]any
	Types map[string]arrow.DataType
}

// Passes reports whether a row passes the filter. Nil passes every row.
func (t *Filter) Passes(row Row) bool { return t == nil || t.truth(row) == isTrue }

func (t *Filter) truth(row Row) truth {
	var v truth
	switch t.Op {
	case OpAnd:
		v = isTrue
		for _, term := range t.Terms {
			v = min(v, term.truth(row))
		}
	case OpOr:
		for _, term := range t.Terms {
			v = max(v, term.truth(row))
		}
	case OpNot:
		return t.Terms[0].truth(row).not()
	case OpTruth:
		if text := t.Operands[0].Literal; text != "" {
			return truthOf(strings.EqualFold(text, "TRUE"))
		}
		return t.compare("=", t.Operands[0], Operand{Literal: "TRUE"}, row)
	case OpNull:
		v = truthOf(row.Cells[t.Operands[0].Path] == nil)
	case OpIn:
		for _, item := range t.Operands[1:] {
			v = max(v, t.compare("=", t.Operands[0], item, row))
		}
	case OpBetween:
		v = min(t.compare(">=", t.Operands[0], t.Operands[1], row), t.compare("<=", t.Operands[0], t.Operands[2], row))
	case OpLike:
		text, ok := row.Cells[t.Operands[0].Path].(string)
		if !ok {
			return isUnknown
		}
		v = truthOf(asExpression(unquoted(t.Operands[1].Literal)).MatchString(text))
	default:
		return t.compare(t.Op, t.Operands[0], t.Operands[1], row)
	}
	if t.Negated {
		return v.not()
	}
	return v
}

// asExpression converts a LIKE pattern to a regular expression for whole texts.
func asExpression(pattern string) *regexp.Regexp {
	out, escaped := `(?s)\A`, false
	for _, point := range pattern {
		switch {
		case escaped:
			out, escaped = out+regexp.QuoteMeta(string(point)), false
		case point == '\\':
			escaped = true
		case point == '%':
			out += ".*"
		case point == '_':
			out += "."
		default:
			out += regexp.QuoteMeta(string(point))
		}
	}
	return regexp.MustCompile(out + `\z`)
}

// compare compares two operands. A literal has the type of the column that it is
// compared with.
func (t *Filter) compare(op string, left, right Operand, row Row) truth {
	of := left
	if left.Path == "" {
		of = right
	}
	dt := row.Types[of.Path]
	if dt == nil {
		return isUnknown // the read must refuse such a column
	}
	x, y := left.measure(dt, row), right.measure(dt, row)
	if x == nil || y == nil {
		return isUnknown
	}
	return truthOf(holds(op, order(x, y)))
}

// measure returns the comparable value of an operand. A literal is converted to the type dt.
func (o Operand) measure(dt arrow.DataType, row Row) any {
	switch {
	case o.Path != "":
		return measureOf(row.Types[o.Path], row.Cells[o.Path])
	case o.Literal == "":
		return nil
	default:
		return literalOf(dt, o.Literal)
	}
}

func holds(op string, order int) bool {
	switch op {
	case "=":
		return order == 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	default:
		return order != 0
	}
}

// beyond is a literal that is too large for the finite floats of its column's type: it is between
// the largest finite float and infinity, or between their negatives. The value has the sign of the
// literal.
type beyond int

// order compares two measures: numbers, instants in nanoseconds, floats, texts and
// booleans. NaN equals itself and is greater than everything else; 0 equals -0.
func order(x, y any) int {
	if _, ok := x.(beyond); ok {
		return -order(y, x)
	}
	switch x := x.(type) {
	case *big.Rat:
		return x.Cmp(y.(*big.Rat))
	case float64:
		if limit, ok := y.(beyond); ok {
			switch {
			case limit > 0 && (math.IsNaN(x) || math.IsInf(x, 1)):
				return 1
			case limit < 0 && math.IsInf(x, -1):
				return -1
			default:
				return -int(limit)
			}
		}
		other := y.(float64)
		if math.IsNaN(x) || math.IsNaN(other) {
			return cmp.Compare(Rank(math.IsNaN(x)), Rank(math.IsNaN(other)))
		}
		return cmp.Compare(x, other)
	case bool:
		return cmp.Compare(Rank(x), Rank(y.(bool)))
	default:
		return strings.Compare(x.(string), y.(string))
	}
}

// Rank returns 1 for true and 0 for false.
func Rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// measureOf returns the comparable form of a column's value, or nil for a null.
func measureOf(dt arrow.DataType, v any) any {
	switch v := v.(type) {
	case Decimal:
		return v.Number()
	case int64:
		return new(big.Rat).Mul(new(big.Rat).SetInt64(v), UnitOf(dt))
	default:
		return v
	}
}

// UnitOf returns the number of nanoseconds in one unit of a type. For numbers, it returns 1.
func UnitOf(dt arrow.DataType) *big.Rat {
	switch dt := dt.(type) {
	case *arrow.Date32Type:
		return new(big.Rat).SetInt64(int64(24 * time.Hour))
	case *arrow.Time64Type:
		return new(big.Rat).SetInt64(int64(dt.Unit.Multiplier()))
	case *arrow.TimestampType:
		return new(big.Rat).SetInt64(int64(dt.Unit.Multiplier()))
	default:
		return new(big.Rat).SetInt64(1)
	}
}

// literalOf returns the comparable value of a literal for a column of a type.
func literalOf(dt arrow.DataType, text string) any {
	prefix, quotedPart, isQuoted := strings.Cut(text, "'")
	body := unquoted("'" + quotedPart)
	switch {
	case strings.EqualFold(text, "TRUE") || strings.EqualFold(text, "FALSE"):
		return strings.EqualFold(text, "TRUE")
	case !isQuoted:
		return numberOf(dt, strings.Join(strings.Fields(text), ""))
	case strings.EqualFold(prefix, "X"):
		raw, err := hex.DecodeString(body)
		return orError(string(raw), err)
	}
	switch dt := dt.(type) {
	case *arrow.FixedSizeBinaryType:
		raw, err := hex.DecodeString(strings.ReplaceAll(body, "-", ""))
		return orError(string(raw), err)
	case *arrow.Date32Type, *arrow.TimestampType, *arrow.Time64Type:
		t, err := instantOf(dt, body)
		seconds := new(big.Rat).SetInt64(t.Unix())
		nanos := seconds.Mul(seconds, new(big.Rat).SetInt64(int64(time.Second)))
		return orError(nanos.Add(nanos, new(big.Rat).SetInt64(int64(t.Nanosecond()))), err)
	default:
		return body
	}
}

// orError returns the value or, if there is an error, the error instead. Every comparison with an
// error panics.
func orError(v any, err error) any {
	if err != nil {
		return err
	}
	return v
}

// numberOf returns a number, rounded to the nearest float for float columns.
func numberOf(dt arrow.DataType, text string) any {
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		return fmt.Errorf("%q is no number", text)
	}
	size := 64
	switch dt.ID() {
	case arrow.FLOAT64:
	case arrow.FLOAT32:
		size = 32
	default:
		return exact
	}
	if f, err := strconv.ParseFloat(text, size); err == nil {
		return f
	}
	return beyond(exact.Sign())
}

// instantOf parses a date, a time of day or a timestamp, which is UTC if it has no
// offset.
func instantOf(dt arrow.DataType, text string) (time.Time, error) {
	if dt.ID() == arrow.TIME64 {
		t, err := ParseTime(text, "15:04:05", "15:04")
		return t.AddDate(1970, 0, 0), err // time.Parse returns times of day in the year 0
	}
	if len(text) > 10 {
		text = text[:10] + "T" + strings.TrimSpace(text[11:])
	}
	return ParseTime(text, time.DateOnly, "2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07")
}
