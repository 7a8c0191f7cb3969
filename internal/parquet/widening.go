package parquet

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/penstock/penstock/internal/fault"
)

// widening says how the values of a column are stored that are of another type in the
// table: by the type promotions of the Iceberg specification, "Schema Evolution", as old
// writers have timestamps, and as tools write files that know nothing of Iceberg.
type widening int

const (
	sameWidth  widening = iota
	toInt64             // from int32
	toFloat64           // from float32
	dateMicros          // from days to timestamps
	dateNanos
	int96Micros // from INT96 to timestamps
	int96Nanos
	millisOfDay // from milliseconds in 32 bits to microseconds
	oneWidth    // from bytes of one width to bytes of any
	moreDigits  // from decimals that may have more digits than the table's
	nullsAlone  // from a column without values
)

// stored returns the bytes of a value in the file.
func (w widening) stored() int {
	switch w {
	case toInt64, dateMicros, dateNanos, millisOfDay:
		return arrow.Int32SizeBytes
	case toFloat64:
		return arrow.Float32SizeBytes
	case int96Micros, int96Nanos:
		return int96Bytes
	case sameWidth, oneWidth, moreDigits, nullsAlone:
	}
	return arrow.Int64SizeBytes
}

// widens says whether values of one type are read as another, which is not nested.
// Decimals of any precision are decoded to one width.
func widens(have, want arrow.DataType) (widening, bool) {
	switch a := have.(type) {
	case *arrow.Int32Type:
		if want.ID() == arrow.INT64 {
			return toInt64, true
		}
		return sameWidth, want.ID() == arrow.DATE32 // days, without the annotation
	case *arrow.Float32Type:
		if want.ID() == arrow.FLOAT64 {
			return toFloat64, true
		}
	case *arrow.Decimal128Type:
		b, ok := want.(*arrow.Decimal128Type)
		switch {
		case !ok || a.Scale != b.Scale:
		case a.Precision > b.Precision:
			return moreDigits, true
		default:
			return sameWidth, true
		}
	case *arrow.Time32Type:
		if a.Unit == arrow.Millisecond && want.ID() == arrow.TIME64 {
			return millisOfDay, true
		}
	case *arrow.FixedSizeBinaryType:
		if want.ID() == arrow.BINARY {
			return oneWidth, true
		}
	case *nullType:
		return nullsAlone, true
	}
	return sameWidth, false
}

// instants says how timestamps come of a type that is none. A date becomes its
// midnight, and never one of UTC; INT96 becomes either. Integers without an annotation
// count microseconds, and become timestamps of no other unit.
func instants(have arrow.DataType, want *arrow.TimestampType) (widening, bool) {
	micros, nanos := sameWidth, sameWidth
	switch have.(type) {
	case *arrow.Int64Type:
		return sameWidth, want.Unit == arrow.Microsecond
	case *nullType:
		return nullsAlone, true
	case *arrow.Date32Type:
		if want.TimeZone == "" {
			micros, nanos = dateMicros, dateNanos
		}
	case *int96Type:
		micros, nanos = int96Micros, int96Nanos
	}
	switch want.Unit {
	case arrow.Microsecond:
		return micros, micros != sameWidth
	case arrow.Nanosecond:
		return nanos, nanos != sameWidth
	case arrow.Second, arrow.Millisecond: // no table has these
	}
	return sameWidth, false
}

// widen converts values, also those under nulls.
func widen[From int32 | float32, To int64 | float64](out []To, values []From) {
	for i := range out {
		out[i] = To(values[i])
	}
}

// instants makes timestamps of what is stored in so many bytes each. Those under nulls
// become zero.
func (s *shape) instants(out []int64, stored, validity []byte) error {
	width, instant := s.widening.stored(), s.widening.instant()
	for i := range out {
		value := stored[i*width : (i+1)*width]
		var ok bool
		if validity != nil && !bitutil.BitIsSet(validity, i) {
			out[i] = 0
		} else if out[i], ok = instant(value); !ok {
			return fault.New(fault.Invalid, "column %s holds a time, stored as the bytes %x, that %s does not reach", s.path, value, s.want)
		}
	}
	return nil
}

// instant makes one timestamp; false if it is beyond 64 bits.
func (w widening) instant() func(stored []byte) (int64, bool) {
	switch w {
	case dateMicros:
		return func(stored []byte) (int64, bool) { return instantOf(dayOf(stored), microsPerDay, 0) }
	case dateNanos:
		return func(stored []byte) (int64, bool) { return instantOf(dayOf(stored), nanosPerDay, 0) }
	case int96Micros:
		return microsOfInt96
	case int96Nanos:
		return nanosOfInt96
	case sameWidth, toInt64, toFloat64, millisOfDay, oneWidth, moreDigits, nullsAlone:
	}
	return nil
}

func dayOf(stored []byte) int64 {
	return int64(int32(binary.LittleEndian.Uint32(stored))) //nolint:gosec // bits of a signed number
}
