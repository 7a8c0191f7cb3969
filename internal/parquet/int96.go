package parquet

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// int96Type is the type of INT96 columns until they are converted to timestamps:
// fixed-size bytes, but distinct from other columns of such bytes.
type int96Type struct{ arrow.FixedSizeBinaryType }

func (*int96Type) Name() string   { return "int96" }
func (*int96Type) String() string { return "int96" }

// nullType is the type of a column annotated to be all null, whatever its physical type.
type nullType struct{ arrow.NullType }

// arrowField returns the Arrow field of a column, with int96Type and nullType where they
// apply.
func (f *Footer) arrowField(node *pqarrow.SchemaField) arrow.Field {
	field := *node.Field
	if node.IsLeaf() {
		switch f.leafKinds[node.ColIndex] {
		case int96Leaf:
			field.Type = &int96Type{arrow.FixedSizeBinaryType{ByteWidth: int96Bytes}}
		case nullLeaf:
			field.Type = &nullType{}
		case unknownLeaf:
			field.Type = ofUnknown(field.Type)
		case ordinaryLeaf, narrowLeaf:
		}
		return field
	}
	switch kind := field.Type.(type) {
	case *arrow.ListType:
		field.Type = arrow.ListOfField(f.arrowField(&node.Children[0]))
	case *arrow.MapType:
		pair := node.Children[0].Children
		of := arrow.MapOfFields(f.arrowField(&pair[0]), f.arrowField(&pair[1]))
		of.KeysSorted = kind.KeysSorted
		field.Type = of
	case *arrow.StructType:
		fields := make([]arrow.Field, len(node.Children))
		for i := range fields {
			fields[i] = f.arrowField(&node.Children[i])
		}
		field.Type = arrow.StructOf(fields...)
	}
	return field
}

const (
	// epochDay is the Julian day number of 1970-01-01. INT96 days begin at midnight.
	epochDay = 2_440_588

	secondsPerDay = 24 * 60 * 60
	microsPerDay  = secondsPerDay * 1_000_000
	nanosPerDay   = secondsPerDay * 1_000_000_000
	nanosPerMicro = 1000
)

// int96ToMicros returns the microsecond that contains an INT96 instant, rounded down as
// in Iceberg. It returns false on overflow.
func int96ToMicros(stored []byte) (int64, bool) {
	day, nanos := splitInt96(stored)
	return instantOf(day, microsPerDay, nanos/nanosPerMicro)
}

// int96ToNanos returns the nanosecond of an INT96 instant. It returns false on overflow.
func int96ToNanos(stored []byte) (int64, bool) {
	day, nanos := splitInt96(stored)
	return instantOf(day, nanosPerDay, nanos)
}

// splitInt96 returns the days since 1970 and the nanoseconds since midnight. The stored
// nanoseconds may be negative or exceed a day.
func splitInt96(stored []byte) (day, nanos int64) {
	nanos = int64(binary.LittleEndian.Uint64(stored))                     //nolint:gosec // bits of a signed number
	day = int64(int32(binary.LittleEndian.Uint32(stored[8:]))) - epochDay //nolint:gosec // bits of a signed number
	day, nanos = day+nanos/nanosPerDay, nanos%nanosPerDay
	if nanos < 0 {
		day, nanos = day-1, nanos+nanosPerDay
	}
	return day, nanos
}

// instantOf returns the instant, in units since 1970, of a day and the units since its
// midnight. It returns false on overflow.
func instantOf(day, perDay, units int64) (int64, bool) {
	if day < 0 { // the midnight of the first representable day may be out of range
		day, units = day+1, units-perDay
	}
	whole := day * perDay
	sum := whole + units
	return sum, whole/perDay == day && (units < 0) == (sum < whole)
}
