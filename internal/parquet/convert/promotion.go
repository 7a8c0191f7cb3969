package convert

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/penstock/penstock/internal/fault"
)

// promotion is a way to turn stored values into values of another type. The promotions are those of
// the Iceberg specification ("Schema Evolution"), those of timestamps of old writers, and those of
// values in files of tools without support for Iceberg.
type promotion int

const (
	unchanged        promotion = iota
	int32AsInt64               // from int32
	float32AsFloat64           // from float32
	dateAsMicros               // from days to timestamps
	dateAsNanos
	int96AsMicros // from INT96 to timestamps
	int96AsNanos
	millisAsMicros  // from 32-bit milliseconds to microseconds
	fixedAsBinary   // from fixed-size to variable-size bytes
	narrowerDecimal // from decimals that may have more digits than the table's type
	allNull         // from a column without values
)

// storedWidth returns the width in bytes of a stored value.
func (w promotion) storedWidth() int {
	switch w {
	case int32AsInt64, dateAsMicros, dateAsNanos, millisAsMicros:
		return arrow.Int32SizeBytes
	case float32AsFloat64:
		return arrow.Float32SizeBytes
	case int96AsMicros, int96AsNanos:
		return Int96Bytes
	case unchanged, fixedAsBinary, narrowerDecimal, allNull:
	}
	return arrow.Int64SizeBytes
}

// promotionOf returns the promotion between two primitive types, if there is one.
// Decimals of any precision are decoded to the same width.
func promotionOf(have, want arrow.DataType) (promotion, bool) {
	switch a := have.(type) {
	case *arrow.Int32Type:
		if want.ID() == arrow.INT64 {
			return int32AsInt64, true
		}
		return unchanged, want.ID() == arrow.DATE32 // days without the annotation
	case *arrow.Float32Type:
		if want.ID() == arrow.FLOAT64 {
			return float32AsFloat64, true
		}
	case *arrow.Decimal128Type:
		b, ok := want.(*arrow.Decimal128Type)
		switch {
		case !ok || a.Scale != b.Scale:
		case a.Precision > b.Precision:
			return narrowerDecimal, true
		default:
			return unchanged, true
		}
	case *arrow.Time32Type:
		if a.Unit == arrow.Millisecond && want.ID() == arrow.TIME64 {
			return millisAsMicros, true
		}
	case *arrow.FixedSizeBinaryType:
		if want.ID() == arrow.BINARY {
			return fixedAsBinary, true
		}
	case *AllNull:
		return allNull, true
	case *unknownInt32:
		if want.ID() == arrow.INT64 {
			return int32AsInt64, true
		}
		return unchanged, want.ID() == arrow.INT32
	case *unknownInt64:
		return unchanged, want.ID() == arrow.INT64
	}
	return unchanged, false
}

// timestampPromotion returns the promotion of a type that is not a timestamp to a timestamp. A date
// becomes its midnight, and only in a timestamp without time zone. INT96 becomes a timestamp with
// or without time zone. Integers without an annotation are microseconds, and become only timestamps
// of that unit.
func timestampPromotion(have arrow.DataType, want *arrow.TimestampType) (promotion, bool) {
	micros, nanos := unchanged, unchanged
	switch have.(type) {
	case *arrow.Int64Type:
		return unchanged, want.Unit == arrow.Microsecond
	case *AllNull:
		return allNull, true
	case *arrow.Date32Type:
		if want.TimeZone == "" {
			micros, nanos = dateAsMicros, dateAsNanos
		}
	case *Int96:
		micros, nanos = int96AsMicros, int96AsNanos
	}
	switch want.Unit {
	case arrow.Microsecond:
		return micros, micros != unchanged
	case arrow.Nanosecond:
		return nanos, nanos != unchanged
	case arrow.Second, arrow.Millisecond: // tables do not have timestamps in these units
	}
	return unchanged, false
}

// widen converts all values, including those under nulls.
func widen[From int32 | float32, To int64 | float64](out []To, values []From) {
	for i := range out {
		out[i] = To(values[i])
	}
}

// timestamps converts stored values to timestamps. Values under nulls become zero.
func (conv *Conversion) timestamps(out []int64, stored, validity []byte) error {
	width, instant := conv.promotion.storedWidth(), conv.promotion.timestamp()
	for i := range out {
		value := stored[i*width : (i+1)*width]
		var ok bool
		if validity != nil && !bitutil.BitIsSet(validity, i) {
			out[i] = 0
		} else if out[i], ok = instant(value); !ok {
			return fault.New(fault.Invalid, "column %s holds a time, stored as the bytes %x, that is out of range for %s", conv.Path, value, conv.Want)
		}
	}
	return nil
}

// timestamp returns the function that converts one value. That function returns false on overflow.
func (w promotion) timestamp() func(stored []byte) (int64, bool) {
	switch w {
	case dateAsMicros:
		return func(stored []byte) (int64, bool) { return Midnight(dayOf(stored)) }
	case dateAsNanos:
		return func(stored []byte) (int64, bool) { return instantOf(dayOf(stored), nanosPerDay, 0) }
	case int96AsMicros:
		return int96ToMicros
	case int96AsNanos:
		return int96ToNanos
	case unchanged, int32AsInt64, float32AsFloat64, millisAsMicros, fixedAsBinary, narrowerDecimal, allNull:
	}
	return nil
}

func dayOf(stored []byte) int64 {
	return int64(int32(binary.LittleEndian.Uint32(stored))) //nolint:gosec // bits of a signed number
}
