package parquet

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// int96Type is what a column of INT96 is until it is a timestamp: bytes of one width.
// It is a type of its own, so that no other column of such bytes is taken for one.
type int96Type struct{ arrow.FixedSizeBinaryType }

func (*int96Type) Name() string   { return "int96" }
func (*int96Type) String() string { return "int96" }

// nullType is what a column is that holds nulls alone, whatever it is stored as.
type nullType struct{ arrow.NullType }

// fieldOf returns a field of the file, in which columns of INT96, and of nulls alone, are
// of their own type.
func (f *Footer) fieldOf(node *pqarrow.SchemaField) arrow.Field {
	field := *node.Field
	if node.IsLeaf() {
		switch f.leafKinds[node.ColIndex] {
		case int96Leaf:
			field.Type = &int96Type{arrow.FixedSizeBinaryType{ByteWidth: int96Bytes}}
		case nullLeaf:
			field.Type = &nullType{}
		case ordinaryLeaf, narrowLeaf:
		}
		return field
	}
	switch kind := field.Type.(type) {
	case *arrow.ListType:
		field.Type = arrow.ListOfField(f.fieldOf(&node.Children[0]))
	case *arrow.MapType:
		pair := node.Children[0].Children
		of := arrow.MapOfFields(f.fieldOf(&pair[0]), f.fieldOf(&pair[1]))
		of.KeysSorted = kind.KeysSorted
		field.Type = of
	case *arrow.StructType:
		fields := make([]arrow.Field, len(node.Children))
		for i := range fields {
			fields[i] = f.fieldOf(&node.Children[i])
		}
		field.Type = arrow.StructOf(fields...)
	}
	return field
}

const (
	// epochDay is the Julian day of 1970-01-01, as INT96 counts: from midnight.
	epochDay = 2_440_588

	secondsPerDay = 24 * 60 * 60
	microsPerDay  = secondsPerDay * 1_000_000
	nanosPerDay   = secondsPerDay * 1_000_000_000
	nanosPerMicro = 1000
)

// microsOfInt96 returns the microsecond that an INT96 lies in, as Iceberg has it;
// false if 64 bits do not reach so far.
func microsOfInt96(stored []byte) (int64, bool) {
	day, nanos := splitInt96(stored)
	return instantOf(day, microsPerDay, nanos/nanosPerMicro)
}

// nanosOfInt96 returns the nanosecond that an INT96 is.
func nanosOfInt96(stored []byte) (int64, bool) {
	day, nanos := splitInt96(stored)
	return instantOf(day, nanosPerDay, nanos)
}

// splitInt96 returns days since 1970 and nanoseconds since their midnight. What is
// stored may be less than none or more than a day.
func splitInt96(stored []byte) (day, nanos int64) {
	nanos = int64(binary.LittleEndian.Uint64(stored))                     //nolint:gosec // bits of a signed number
	day = int64(int32(binary.LittleEndian.Uint32(stored[8:]))) - epochDay //nolint:gosec // bits of a signed number
	day, nanos = day+nanos/nanosPerDay, nanos%nanosPerDay
	if nanos < 0 {
		day, nanos = day-1, nanos+nanosPerDay
	}
	return day, nanos
}

// instantOf returns an instant in units since 1970: a day, and the units since its
// midnight. False if it is beyond 64 bits.
func instantOf(day, perDay, units int64) (int64, bool) {
	if day < 0 { // the day that the least number lies in begins before it
		day, units = day+1, units-perDay
	}
	whole := day * perDay
	sum := whole + units
	return sum, whole/perDay == day && (units < 0) == (sum < whole)
}
