package write

import (
	"bytes"
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock/penstock/internal/fault"
)

// boundLength is the maximum length of the bounds of texts, in code points, and of binary values,
// in bytes.
const boundLength = 16

// valueBounds are the bounds of the values of a primitive field.
type valueBounds interface {
	// add extends the bounds by the values of an array that are not null.
	add(a arrow.Array) error
	// lower and upper return the bounds in Iceberg's single-value serialization. They return nil if
	// there are no values, or if no bound is short enough.
	lower() []byte
	upper() []byte
	// nans returns the number of NaN values, or -1 for types without NaN.
	nans() int64
}

// newBounds returns empty bounds, or nil for a type that Iceberg lacks.
func newBounds(t arrow.DataType) valueBounds {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return &boolBounds{}
	case *arrow.Int32Type, *arrow.Date32Type:
		return &numberBounds[int32]{}
	case *arrow.Int64Type:
		return &numberBounds[int64]{}
	case *arrow.Time64Type:
		if t.Unit == arrow.Microsecond {
			return &numberBounds[int64]{}
		}
	case *arrow.TimestampType:
		if (t.Unit == arrow.Microsecond || t.Unit == arrow.Nanosecond) && (t.TimeZone == "" || t.TimeZone == "UTC") {
			return &numberBounds[int64]{}
		}
	case *arrow.Float32Type:
		return &floatBounds[float32]{}
	case *arrow.Float64Type:
		return &floatBounds[float64]{}
	case *arrow.Decimal128Type:
		return &decimalBounds{precision: t.Precision}
	case *arrow.StringType:
		return &byteBounds{cut: cutText, next: nextText, text: true}
	case *arrow.BinaryType:
		return &byteBounds{cut: cutBytes, next: nextBytes}
	case *arrow.FixedSizeBinaryType:
		return &byteBounds{cut: func(v []byte) []byte { return v }, next: nextBytes}
	}
	return nil
}

// noNaN implements nans for types without NaN.
type noNaN struct{}

func (noNaN) nans() int64 { return -1 }

type boolBounds struct {
	noNaN
	has [2]bool
}

func (b *boolBounds) add(a arrow.Array) error {
	for i := range a.Len() {
		if a.IsValid(i) {
			v := 0
			if a.(*array.Boolean).Value(i) {
				v = 1
			}
			b.has[v] = true
		}
	}
	return nil
}

func (b *boolBounds) lower() []byte { return b.first(0, 1) }
func (b *boolBounds) upper() []byte { return b.first(1, 0) }

func (b *boolBounds) first(order ...byte) []byte {
	for _, v := range order {
		if b.has[v] {
			return []byte{v}
		}
	}
	return nil
}

// numberBounds are bounds of integers.
type numberBounds[T int32 | int64] struct {
	noNaN
	some     bool
	min, max T
}

func (b *numberBounds[T]) add(a arrow.Array) error {
	nulls := a.NullN() > 0
	for i, v := range valuesOf[T](a) {
		if nulls && a.IsNull(i) {
			continue
		}
		if !b.some {
			b.some, b.min, b.max = true, v, v
		}
		b.min, b.max = min(b.min, v), max(b.max, v)
	}
	return nil
}

func (b *numberBounds[T]) lower() []byte { return b.bytes(b.min) }
func (b *numberBounds[T]) upper() []byte { return b.bytes(b.max) }

func (b *numberBounds[T]) bytes(v T) []byte {
	if !b.some {
		return nil
	}
	return littleEndian(v)
}

// valuesOf returns the values of an array of fixed width.
func valuesOf[T int32 | int64 | float32 | float64](a arrow.Array) []T {
	stored := a.Data().Buffers()[1]
	if stored == nil {
		return nil
	}
	return arrow.GetData[T](stored.Bytes())[a.Data().Offset():][:a.Len()]
}

// littleEndian returns the bytes of a number.
func littleEndian[T int32 | int64 | float32 | float64](v T) []byte {
	out, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		return nil
	}
	return out
}

// floatBounds are bounds of floating-point numbers without NaN. A zero is -0.0 as a lower bound and
// 0.0 as an upper bound, since engines differ in how they order the two zeros.
type floatBounds[T float32 | float64] struct {
	some     bool
	min, max T
	notANum  int64
}

func (b *floatBounds[T]) add(a arrow.Array) error {
	nulls := a.NullN() > 0
	for i, v := range valuesOf[T](a) {
		switch {
		case nulls && a.IsNull(i):
		case v != v: // NaN
			b.notANum++
		case !b.some:
			b.some, b.min, b.max = true, v, v
		default:
			b.min, b.max = min(b.min, v), max(b.max, v)
		}
	}
	return nil
}

func (b *floatBounds[T]) nans() int64 { return b.notANum }

func (b *floatBounds[T]) lower() []byte {
	if !b.some {
		return nil
	}
	if b.min == 0 {
		return littleEndian(T(math.Copysign(0, -1)))
	}
	return littleEndian(b.min)
}

func (b *floatBounds[T]) upper() []byte {
	if !b.some {
		return nil
	}
	if b.max == 0 {
		return littleEndian(T(0))
	}
	return littleEndian(b.max)
}

// decimalBounds are bounds of unscaled decimals. Values with more digits than the type allows are
// refused: other engines would read another number.
type decimalBounds struct {
	noNaN
	precision int32
	some      bool
	min, max  decimal128.Num
}

func (b *decimalBounds) add(a arrow.Array) error {
	decimals := a.(*array.Decimal128) //nolint:forcetypeassert // newBounds has the type
	for i := range decimals.Len() {
		if decimals.IsNull(i) {
			continue
		}
		v := decimals.Value(i)
		if !b.some {
			b.some, b.min, b.max = true, v, v
		}
		if v.Less(b.min) {
			b.min = v
		}
		if b.max.Less(v) {
			b.max = v
		}
	}
	if b.some && (!b.fits(b.min) || !b.fits(b.max)) {
		return fault.New(fault.Invalid, "a decimal has more than %d digits", b.precision).WithRemedy("cast the column")
	}
	return nil
}

// fits reports whether a number has at most as many digits as the type allows. The smallest number
// of 128 bits has no absolute value, and does not fit.
func (b *decimalBounds) fits(v decimal128.Num) bool {
	return (v.Sign() >= 0 || v.Negate() != v) && v.FitsInPrecision(b.precision)
}

func (b *decimalBounds) lower() []byte { return b.bytes(b.min) }
func (b *decimalBounds) upper() []byte { return b.bytes(b.max) }

// bytes returns the shortest big-endian two's complement of a number.
func (b *decimalBounds) bytes(v decimal128.Num) []byte {
	if !b.some {
		return nil
	}
	out := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(v.HighBits())), v.LowBits())
	sign := byte(0)
	if v.Sign() < 0 {
		sign = 0xff
	}
	for len(out) > 1 && out[0] == sign && (out[1]^sign)&0x80 == 0 {
		out = out[1:]
	}
	return out
}

// byteBounds are bounds of texts and bytes. Only prefixes of values are kept; cutting values to
// prefixes does not change their order.
type byteBounds struct {
	noNaN
	cut      func([]byte) []byte // returns the prefix of a value that is kept
	next     func([]byte) []byte // returns the smallest prefix that is larger, or nil
	text     bool
	some     bool
	min, max []byte
	longer   bool // whether a value with the prefix max is longer than max
}

func (b *byteBounds) add(a arrow.Array) error {
	var value func(int) []byte
	switch a := a.(type) {
	case *array.String:
		if a.Len() == 0 {
			return nil
		}
		all, offsets := a.ValueBytes(), a.ValueOffsets()
		value = func(i int) []byte { return all[offsets[i]-offsets[0] : offsets[i+1]-offsets[0]] }
	case *array.Binary:
		value = a.Value
	case *array.FixedSizeBinary:
		value = a.Value
	}
	for i := range a.Len() {
		if a.IsNull(i) {
			continue
		}
		v := value(i)
		if b.text && !utf8.Valid(v) {
			return fault.New(fault.Invalid, "a text is not valid UTF-8").WithRemedy("cast the column to binary")
		}
		b.addValue(v)
	}
	return nil
}

func (b *byteBounds) addValue(v []byte) {
	prefix := b.cut(v)
	if !b.some || bytes.Compare(prefix, b.min) < 0 {
		b.min = bytes.Clone(prefix)
	}
	order := 1
	if b.some {
		order = bytes.Compare(prefix, b.max)
	}
	if order > 0 {
		b.max, b.longer = bytes.Clone(prefix), false
	}
	b.longer = b.longer || order >= 0 && len(v) > len(prefix)
	b.some = true
}

func (b *byteBounds) lower() []byte {
	if !b.some {
		return nil
	}
	return append([]byte{}, b.min...)
}

func (b *byteBounds) upper() []byte {
	switch {
	case !b.some:
		return nil
	case b.longer:
		return b.next(b.max)
	default:
		return append([]byte{}, b.max...)
	}
}

func cutBytes(v []byte) []byte { return v[:min(len(v), boundLength)] }

// cutText cuts valid UTF-8 between code points.
func cutText(v []byte) []byte {
	if len(v) <= boundLength {
		return v
	}
	at := 0
	for range boundLength {
		if at == len(v) {
			break
		}
		_, n := utf8.DecodeRune(v[at:])
		at += n
	}
	return v[:at]
}

// nextBytes returns the smallest value that is larger than all values with a prefix.
func nextBytes(prefix []byte) []byte {
	for at := len(prefix) - 1; at >= 0; at-- {
		if prefix[at] < math.MaxUint8 {
			out := bytes.Clone(prefix[:at+1])
			out[at]++
			return out
		}
	}
	return nil
}

// nextText is like nextBytes, but increases the last code point instead of the last byte, and skips
// the surrogates.
func nextText(prefix []byte) []byte {
	for len(prefix) > 0 {
		r, n := utf8.DecodeLastRune(prefix)
		prefix = prefix[:len(prefix)-n]
		if r < utf8.MaxRune {
			next := r + 1
			if next == surrogates {
				next = afterSurrogates
			}
			return utf8.AppendRune(bytes.Clone(prefix), next)
		}
	}
	return nil
}

// The first code point of the surrogates, which UTF-8 lacks, and the first after them.
const (
	surrogates      = 0xd800
	afterSurrogates = 0xe000
)
