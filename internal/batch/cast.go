package batch

import (
	"math"
	"math/big"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// canCast reports whether Cast supports a pair of types: numbers (integers,
// floats, decimals, and booleans as 0 and 1) to integers and floats, dates and
// timestamps to each other, and lists by their elements. Cast may still fail for
// a value.
func canCast(from, to arrow.DataType) bool {
	if arrow.TypeEqual(from, to) {
		return true
	}
	if list, ok := to.(*arrow.ListType); ok {
		own, ok := from.(*arrow.ListType)
		return ok && canCast(own.Elem(), list.Elem())
	}
	switch to.ID() {
	case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64:
		switch from.ID() {
		case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.BOOL, arrow.DECIMAL128:
			return true
		default:
			return false
		}
	default:
		return unitOf(from) > 0 && unitOf(to) > 0
	}
}

// Cast returns the values of an array as another type, with memory from mem, or from the Go heap if
// mem is nil. An array that has the type already is retained and returned. Nulls stay null. A
// number with a fraction that is cast to floats becomes the nearest float. Any other value that the
// cast would change results in Invalid: a number out of range, a fraction as an integer, an integer
// that a float cannot represent, a timestamp with a time of day as a date. A timestamp without time
// zone counts as UTC. For a pair of types that canCast does not support, Cast returns Internal.
func Cast(a arrow.Array, to arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	from := a.DataType()
	if arrow.TypeEqual(from, to) {
		a.Retain()
		return a, nil
	}
	if !canCast(from, to) {
		return nil, fault.New(fault.Internal, "columns of type %s cannot be cast to %s", from, to)
	}
	if to.ID() == arrow.LIST {
		return castList(a, to.(*arrow.ListType), mem)
	}
	g := gathering{mem: mem, remedy: remedyBatch}
	defer g.close()
	validity := bitmap{}
	if a.Len() > 0 {
		validity = g.whole(a)
	}
	values := g.buffer(a.Len() * to.(arrow.FixedWidthDataType).Bytes())
	c := casting{to: to, out: values.Bytes()}
	if validity.Buffer != nil {
		c.valid = validity.Bytes()
	}
	if row := c.array(a); row >= 0 {
		return nil, fault.New(fault.Invalid, "the value %s cannot be cast from %s to %s without change", a.ValueStr(row), from, to).
			WithRemedy("cast to a type that holds all values, or filter such rows out")
	}
	out := array.NewData(to, a.Len(), []*memory.Buffer{validity.Buffer, values}, nil, validity.nulls, 0)
	defer out.Release()
	return array.MakeFromData(out), nil
}

// castList casts the items of lists. It compacts the array first, so that only
// items of visible rows are cast.
func castList(a arrow.Array, to *arrow.ListType, mem memory.Allocator) (arrow.Array, error) {
	own, err := compact(a, mem)
	if err != nil {
		return nil, err
	}
	defer own.Release()
	items, err := Cast(own.(*array.List).ListValues(), to.Elem(), mem)
	if err != nil {
		return nil, err
	}
	defer items.Release()
	out := array.NewData(to, own.Len(), own.Data().Buffers(), []arrow.ArrayData{items.Data()}, own.NullN(), 0)
	defer out.Release()
	return array.MakeFromData(out), nil
}

// casting is the state of one call of Cast. Each method returns the first row whose value the cast
// would change, or -1 if there is none.
type casting struct {
	to    arrow.DataType
	out   []byte
	valid []byte // validity bits of the result; nil: no nulls
}

func (c casting) array(a arrow.Array) int {
	switch a := a.(type) {
	case *array.Int32:
		return castIntegers(c, a.Int32Values())
	case *array.Int64:
		return castIntegers(c, a.Int64Values())
	case *array.Float32:
		return castFloats(c, a.Float32Values())
	case *array.Float64:
		return castFloats(c, a.Float64Values())
	case *array.Date32:
		return castInstants(c, a.Date32Values(), unitOf(a.DataType()))
	case *array.Timestamp:
		return castInstants(c, a.TimestampValues(), unitOf(a.DataType()))
	case *array.Boolean:
		bits := make([]int32, a.Len())
		for i := range bits {
			if a.Value(i) {
				bits[i] = 1
			}
		}
		return castIntegers(c, bits)
	default:
		return c.decimals(a.(*array.Decimal128))
	}
}

// each casts all values with the function one. Values under nulls become zero.
func each[T, U any](c casting, src []T, one func(T) (U, bool)) int {
	dst := view[U](c.out)[:len(src)]
	for i, v := range src {
		u, ok := one(v)
		if !ok && (c.valid == nil || bitutil.BitIsSet(c.valid, i)) {
			return i
		}
		dst[i] = u
	}
	var zero U
	for row := range nulls(c.valid, 0, len(dst)) {
		dst[row] = zero
	}
	return -1
}

func castIntegers[T int32 | int64](c casting, src []T) int {
	switch c.to.ID() {
	case arrow.INT32:
		return each(c, src, func(v T) (int32, bool) { return int32(v), T(int32(v)) == v })
	case arrow.INT64:
		return each(c, src, func(v T) (int64, bool) { return int64(v), true })
	case arrow.FLOAT32:
		return each(c, src, func(v T) (float32, bool) { return float32(v), holds(float64(float32(v)), int64(v)) })
	default:
		return each(c, src, func(v T) (float64, bool) { return float64(v), holds(float64(v), int64(v)) })
	}
}

// Integers of 32 and 64 bits lie in [-limit, limit).
const (
	limit32 = 1 << 31
	limit64 = 1 << 63
)

// holds reports whether a float equals an integer exactly.
func holds(f float64, v int64) bool { return f < limit64 && int64(f) == v }

func castFloats[T float32 | float64](c casting, src []T) int {
	switch c.to.ID() {
	case arrow.INT32:
		return each(c, src, func(v T) (int32, bool) {
			f := float64(v)
			return int32(f), f >= -limit32 && f < limit32 && float64(int32(f)) == f
		})
	case arrow.INT64:
		return each(c, src, func(v T) (int64, bool) {
			f := float64(v)
			return int64(f), f >= -limit64 && f < limit64 && float64(int64(f)) == f
		})
	case arrow.FLOAT32:
		// A finite value that becomes infinite changes by more than rounding.
		return each(c, src, func(v T) (float32, bool) { return float32(v), infinite(v) || !infinite(float32(v)) })
	default:
		return each(c, src, func(v T) (float64, bool) { return float64(v), true })
	}
}

func infinite[T float32 | float64](v T) bool { return math.IsInf(float64(v), 0) }

// unitOf returns the nanoseconds of one unit of a date or timestamp; 0 for other
// types.
func unitOf(dt arrow.DataType) int64 {
	switch dt := dt.(type) {
	case *arrow.Date32Type:
		return int64(24 * time.Hour)
	case *arrow.TimestampType:
		return int64(dt.Unit.Multiplier())
	default:
		return 0
	}
}

func castInstants[T ~int32 | ~int64](c casting, src []T, unit int64) int {
	to := unitOf(c.to)
	if c.to.ID() == arrow.DATE32 {
		return each(c, src, func(v T) (int32, bool) {
			scaled, ok := rescaled(int64(v), unit, to)
			return int32(scaled), ok && int64(int32(scaled)) == scaled
		})
	}
	return each(c, src, func(v T) (int64, bool) { return rescaled(int64(v), unit, to) })
}

// rescaled converts a number of units of size from to units of size to, and reports
// whether the result is exact. The larger unit is a multiple of the smaller.
func rescaled(v, from, to int64) (int64, bool) {
	if from < to {
		return v / (to / from), v%(to/from) == 0
	}
	scaled := v * (from / to)
	return scaled, scaled/(from/to) == v
}

// decimals casts decimals by way of exact fractions, except for small decimals, for which floats
// are exact enough.
func (c casting) decimals(a *array.Decimal128) int {
	scale := int(a.DataType().(*arrow.Decimal128Type).Scale)
	src := a.Values()
	switch c.to.ID() {
	case arrow.INT32:
		return each(c, src, func(v decimal) (int32, bool) {
			n, ok := wholeOf(v, scale)
			return int32(n), ok && int64(int32(n)) == n
		})
	case arrow.INT64:
		return each(c, src, func(v decimal) (int64, bool) { return wholeOf(v, scale) })
	case arrow.FLOAT32:
		return each(c, src, func(v decimal) (float32, bool) { return singleOf(v, scale) })
	default:
		return each(c, src, func(v decimal) (float64, bool) {
			if n, ok := smallOf(v, scale, maxExactDouble, maxPowerDouble); ok {
				return float64(n) / powerOfTen(scale), true
			}
			f, _ := ratOf(v, scale).Float64()
			return f, true
		})
	}
}

// Floats represent every integer and every power of ten up to these limits exactly.
// The quotient of two such numbers is rounded once, to the nearest float.
const (
	maxExactSingle = 1 << 24
	maxExactDouble = 1 << 53
	maxPowerSingle = 10
	maxPowerDouble = 22
)

// StorageOf returns the storage type of extension types, and other types unchanged.
func StorageOf(t arrow.DataType) arrow.DataType {
	if ext, ok := t.(arrow.ExtensionType); ok {
		return ext.StorageType()
	}
	return t
}

// decimal is a decimal's unscaled value.
type decimal = decimal128.Num

// maxPowerLong is the exponent of the largest power of ten in 64 bits.
const maxPowerLong = 18

// smallOf returns a decimal's unscaled value, and whether both its absolute value and the scale are
// within the given limits.
func smallOf(v decimal, scale int, maxValue int64, maxPower int) (int64, bool) {
	n := int64(v.LowBits())
	return n, v.HighBits() == n>>63 && -maxValue <= n && n <= maxValue && 0 <= scale && scale <= maxPower
}

func powerOfTen(n int) float64 { return math.Pow10(n) }

// ratOf returns a decimal as an exact fraction.
func ratOf(v decimal, scale int) *big.Rat {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
	if scale < 0 {
		return new(big.Rat).SetInt(power.Mul(power, v.BigInt()))
	}
	return new(big.Rat).SetFrac(v.BigInt(), power)
}

// singleOf returns the float32 that is nearest to a decimal. It returns false if that float is
// infinite.
func singleOf(v decimal, scale int) (float32, bool) {
	if n, ok := smallOf(v, scale, maxExactSingle, maxPowerSingle); ok {
		return float32(n) / float32(powerOfTen(scale)), true
	}
	f, _ := ratOf(v, scale).Float32()
	return f, !infinite(f)
}

// wholeOf returns a decimal as an integer. It returns false if the decimal has a fraction or does
// not fit in 64 bits.
func wholeOf(v decimal, scale int) (int64, bool) {
	if n, ok := smallOf(v, scale, math.MaxInt64, maxPowerLong); ok {
		power := int64(1)
		for range scale {
			power *= 10
		}
		return n / power, n%power == 0
	}
	r := ratOf(v, scale)
	return r.Num().Int64(), r.IsInt() && r.Num().IsInt64()
}
