package bucket

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock/penstock/internal/fault"
)

// Supported reports whether Array hashes arrays of a type: int32, int64, date32,
// time64[us], timestamp[us] and timestamp[ns] with or without zone, utf8,
// binary, both also with 64-bit offsets, fixed_size_binary and decimal128.
func Supported(dt arrow.DataType) bool {
	switch dt := dt.(type) {
	case *arrow.Int32Type, *arrow.Int64Type, *arrow.Date32Type,
		*arrow.StringType, *arrow.LargeStringType, *arrow.BinaryType, *arrow.LargeBinaryType,
		*arrow.FixedSizeBinaryType, *arrow.Decimal128Type:
		return true
	case *arrow.Time64Type:
		return dt.Unit == arrow.Microsecond
	case *arrow.TimestampType:
		return dt.Unit == arrow.Microsecond || dt.Unit == arrow.Nanosecond
	default:
		return false
	}
}

// Comparable reports whether keys of two types can be equal: those of one type, int and long, and decimals of
// one scale. Equal keys have equal hashes.
func Comparable(a, b arrow.DataType) bool {
	integer := func(t arrow.DataType) bool { return t.ID() == arrow.INT32 || t.ID() == arrow.INT64 }
	if x, ok := a.(*arrow.Decimal128Type); ok {
		y, ok := b.(*arrow.Decimal128Type)
		return ok && x.Scale == y.Scale
	}
	return integer(a) && integer(b) || arrow.TypeEqual(a, b)
}

// Array appends to dst, for every row of a, the row's bucket of n, or Null
// where the row is null, and returns the extended slice. It fails with Invalid
// if the type cannot be bucketed or n is not a number of buckets.
func Array(dst []int32, a arrow.Array, n int) ([]int32, error) {
	if n < 1 || n > maxInt32 {
		return dst, fault.New(fault.Invalid, "%d is not a number of buckets: it must be between 1 and %d", n, maxInt32)
	}
	start := len(dst)
	dst, err := Hashes(dst, a)
	if err != nil {
		return dst, err
	}
	out, m := dst[start:], NewModulus(n)
	for i, h := range out {
		out[i] = m.Of(h)
	}
	if a.NullN() > 0 {
		for i := range out {
			if a.IsNull(i) {
				out[i] = Null
			}
		}
	}
	return dst, nil
}

// Hashes appends to dst the hash of every row of a, and returns the extended
// slice. The hash of a null row is arbitrary. It fails with Invalid if the type
// cannot be bucketed.
func Hashes(dst []int32, a arrow.Array) ([]int32, error) {
	if !Supported(a.DataType()) {
		return dst, fault.New(fault.Invalid, "a column of type %s cannot be bucketed", a.DataType()).
			WithRemedy("use a key of type int, long, date, time, timestamp, decimal, string, uuid, fixed or binary")
	}
	if a.Len() == 0 {
		return dst, nil // an empty array may have no buffers
	}
	start := len(dst)
	dst = slices.Grow(dst, a.Len())[:start+a.Len()]
	out := dst[start:]
	switch a := a.(type) {
	case *array.Int32:
		integers(out, a.Int32Values())
	case *array.Int64:
		integers(out, a.Int64Values())
	case *array.Date32:
		integers(out, a.Date32Values())
	case *array.Time64:
		integers(out, a.Time64Values())
	case *array.Timestamp:
		timestamps(out, a)
	case *array.Decimal128:
		decimals(out, a.Values())
	case *array.FixedSizeBinary:
		fixed(out, a)
	case *array.String:
		variable(out, a.ValueOffsets(), a.ValueBytes())
	case *array.LargeString:
		variable(out, a.ValueOffsets(), a.ValueBytes())
	case *array.Binary:
		variable(out, a.ValueOffsets(), a.ValueBytes())
	case *array.LargeBinary:
		variable(out, a.ValueOffsets(), a.ValueBytes())
	}
	return dst, nil
}

// integers hashes a value that equals the one before, as of rows of one request, once.
func integers[T ~int32 | ~int64](out []int32, values []T) {
	values = values[:len(out)]
	before := values[0]
	hash := HashInt64(int64(before))
	for i, v := range values {
		if v != before {
			before, hash = v, HashInt64(int64(v))
		}
		out[i] = hash
	}
}

// timestamps hashes microseconds. Nanoseconds are floored to microseconds first,
// as the specification requires, so that an instant has one hash in both units.
func timestamps(out []int32, a *array.Timestamp) {
	values := a.TimestampValues()
	if a.DataType().(*arrow.TimestampType).Unit == arrow.Microsecond {
		integers(out, values)
		return
	}
	for i, v := range values[:len(out)] {
		micros := v / 1000
		if v%1000 < 0 {
			micros--
		}
		out[i] = HashInt64(int64(micros))
	}
}

func decimals(out []int32, values []decimal128.Num) {
	for i, v := range values[:len(out)] {
		out[i] = hashDecimal(v)
	}
}

func fixed(out []int32, a *array.FixedSizeBinary) {
	for i := range out {
		out[i] = HashBytes(a.Value(i))
	}
}

// variable hashes the byte ranges between offsets; bytes begin at the first
// offset, as ValueBytes of a sliced array does.
func variable[O int32 | int64](out []int32, offsets []O, bytes []byte) {
	first, last := offsets[0], offsets[0]
	for i, end := range offsets[1 : len(out)+1] {
		out[i] = HashBytes(bytes[last-first : end-first])
		last = end
	}
}
