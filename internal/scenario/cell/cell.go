// Package cell defines the values of tables for the oracle of package scenario, with
// the operations of SQL and Iceberg: order, filters and bucket hashes. It is written
// from the specifications and shares no code with the product.
//
// A value is nil, bool, int64 (also days, microseconds and nanoseconds), float64, string
// (also bytes), Decimal, []any for a list, Struct or Map.
package cell

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Struct has the values of a struct's fields, in the order of the fields.
type Struct []any

// Map has the entries of a map, in order.
type Map []Entry

// Entry is one entry of a map.
type Entry struct{ Key, Value any }

// Decimal is a decimal number as text, with all digits of its scale.
type Decimal string

// NewDecimal returns unscaled × 10^-scale.
func NewDecimal(unscaled *big.Int, scale int32) Decimal {
	return Decimal(new(big.Rat).SetFrac(unscaled, PowerOfTen(scale)).FloatString(int(scale)))
}

// PowerOfTen returns 10^n.
func PowerOfTen(n int32) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// Number returns the decimal as an exact number.
func (d Decimal) Number() *big.Rat {
	n, _ := new(big.Rat).SetString(string(d))
	return n
}

// Unscaled returns the decimal in units of 10^-scale.
func (d Decimal) Unscaled(scale int32) *big.Int {
	return new(big.Rat).Mul(d.Number(), new(big.Rat).SetInt(PowerOfTen(scale))).Num()
}

// Compare orders two values of the same kind, which must not be null. FALSE is less than TRUE, and
// NaN is greater than every number.
func Compare(a, b any) int {
	switch x := a.(type) {
	case int64:
		return cmp.Compare(x, b.(int64))
	case float64: // NaN is above every number
		y := b.(float64)
		if math.IsNaN(x) || math.IsNaN(y) {
			return Compare(math.IsNaN(x), math.IsNaN(y))
		}
		return cmp.Compare(x, y)
	case bool:
		return cmp.Compare(strconv.FormatBool(x), strconv.FormatBool(b.(bool)))
	case string:
		return strings.Compare(x, b.(string))
	case Decimal:
		return x.Number().Cmp(b.(Decimal).Number())
	default:
		return 0
	}
}

// FloorDiv returns a / b, rounded down, for a positive b.
func FloorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ParseTime parses a time in the first of several layouts that fits.
func ParseTime(text string, forms ...string) (t time.Time, err error) {
	for _, form := range forms {
		if t, err = time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return t, err
}
