package parquet

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/parquet/convert"
)

// Statistics bound the values of a column in a row group. Bounds are correct but may be
// loose: every value that is neither null nor NaN is within them.
//
// A bound is bool, int64 (integers, dates in days, times and timestamps in microseconds),
// float64, string, []byte (in unsigned byte order) or *big.Int (unscaled decimals, with
// Scale). Nil means unknown.
type Statistics struct {
	Lower, Upper any
	Scale        int32
	Rows         int64
	Nulls        int64 // -1: unknown
	MayHaveNaN   bool  // float columns: the bounds ignore NaN
}

// Statistics returns the statistics of a column in a row group, in terms of the table's type as. It
// returns false if the file has none: the column is absent or nested, or its chunk has no
// statistics. Bounds of types that old writers ordered wrongly are unknown, and so are the bounds
// of INT96.
func (f *Footer) Statistics(rowGroup, fieldID int, as arrow.DataType) (Statistics, bool) {
	c, ok := f.bounder(rowGroup, fieldID, as)
	if !ok {
		return Statistics{}, false
	}
	stored := f.meta.RowGroups[rowGroup].Columns[c.leaf].MetaData.Statistics
	if stored == nil {
		return Statistics{}, false
	}
	out := c.unbounded(f.groups[rowGroup].Rows)
	if n := stored.NullCount; n != nil && *n >= 0 && *n <= out.Rows {
		out.Nulls = *n
	}
	if !f.trusted(rowGroup, c.leaf) {
		return out, true
	}
	low, high := stored.MinValue, stored.MaxValue
	if c.column.ColumnOrder() != parquet.ColumnOrders.TypeDefinedOrder {
		// Writers computed these deprecated bounds with a comparison of signed numbers, or in no
		// defined order.
		low, high = nil, nil
		if c.hasSignedOrder() {
			low, high = stored.Min, stored.Max
		}
	}
	out.Lower, out.Upper = c.bounds(low, high)
	return out, true
}

// bounder returns the decoder of a column's bounds in a row group. It returns false if the column
// cannot have bounds.
func (f *Footer) bounder(rowGroup, fieldID int, as arrow.DataType) (boundsDecoder, bool) {
	field, ok := f.Field(fieldID)
	if !ok || rowGroup < 0 || rowGroup >= len(f.groups) {
		return boundsDecoder{}, false
	}
	if len(field.Leaves) != 1 || arrow.IsNested(field.Type.ID()) {
		return boundsDecoder{}, false
	}
	leaf := field.Leaves[0]
	if f.leafKinds[leaf] == unknownLeaf { // the order of the values is unknown, too
		return boundsDecoder{}, false
	}
	return boundsDecoder{leaf: leaf, column: f.meta.Schema.Column(leaf), kind: batch.StorageOf(field.Type), as: as}, true
}

// unbounded returns statistics with only the number of rows.
func (c boundsDecoder) unbounded(rows int64) Statistics {
	out := Statistics{Rows: rows, Nulls: -1, MayHaveNaN: c.kind.ID() == arrow.FLOAT32 || c.kind.ID() == arrow.FLOAT64}
	if d, ok := c.kind.(arrow.DecimalType); ok {
		out.Scale = d.GetScale()
	}
	return out
}

// trusted reports whether the chunk has statistics and its writer's version is not known to write
// wrong statistics.
func (f *Footer) trusted(rowGroup, leaf int) (ok bool) {
	defer func() {
		if recover() != nil { // statistics of a length that the type cannot have
			ok = false
		}
	}()
	chunk, err := f.meta.RowGroup(rowGroup).ColumnChunk(leaf)
	if err != nil {
		return false
	}
	ok, err = chunk.StatsSet()
	return ok && err == nil
}

// boundsDecoder decodes the bounds of a column.
type boundsDecoder struct {
	leaf   int
	column *schema.Column
	kind   arrow.DataType
	as     arrow.DataType
}

// hasSignedOrder reports whether values of the column's type are ordered like the signed numbers
// that store them.
func (c boundsDecoder) hasSignedOrder() bool {
	if c.column.SortOrder() != schema.SortSIGNED {
		return false
	}
	switch c.column.PhysicalType() {
	case parquet.Types.Int32, parquet.Types.Int64, parquet.Types.Float, parquet.Types.Double, parquet.Types.Boolean:
		return true
	default:
		return false
	}
}

// bounds decodes both bounds. Both are unknown if the lower bound exceeds the upper bound.
func (c boundsDecoder) bounds(low, high []byte) (lower, upper any) {
	switch c.column.PhysicalType() {
	case parquet.Types.Boolean:
		return decodeBound(low, 1, func(b []byte) any { return b[0] != 0 }),
			decodeBound(high, 1, func(b []byte) any { return b[0] != 0 })
	case parquet.Types.Int32:
		decode := func(b []byte) any { return int64(int32(binary.LittleEndian.Uint32(b))) } //nolint:gosec // bits of a signed number
		return c.integers(decodeBound(low, 4, decode), decodeBound(high, 4, decode))
	case parquet.Types.Int64:
		decode := func(b []byte) any { return int64(binary.LittleEndian.Uint64(b)) } //nolint:gosec // bits of a signed number
		return c.integers(decodeBound(low, 8, decode), decodeBound(high, 8, decode))
	case parquet.Types.Float:
		decode := func(b []byte) any { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }
		return floats(decodeBound(low, 4, decode), decodeBound(high, 4, decode))
	case parquet.Types.Double:
		decode := func(b []byte) any { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
		return floats(decodeBound(low, 8, decode), decodeBound(high, 8, decode))
	case parquet.Types.ByteArray, parquet.Types.FixedLenByteArray:
		return c.binary(low), c.binary(high)
	default: // INT96 has no agreed order
		return nil, nil
	}
}

// integers converts bounds stored as integers by their logical type.
func (c boundsDecoder) integers(low, high any) (lower, upper any) {
	a, hasLow := low.(int64)
	b, hasHigh := high.(int64)
	if hasLow && hasHigh && a > b {
		return nil, nil
	}
	form := func(v int64, _ bool) any { return v }
	switch kind := c.kind.(type) {
	case *arrow.Int32Type, *arrow.Int64Type: // also days and microseconds without an annotation
	case *arrow.Date32Type:
		if c.as.ID() == arrow.TIMESTAMP { // the column was promoted after the file was written
			form = func(v int64, _ bool) any { return midnight(v) }
		}
	case arrow.TemporalWithUnit: // timestamps and times
		form = func(v int64, up bool) any { return micros(v, kind.TimeUnit(), up) }
	case arrow.DecimalType:
		form = func(v int64, _ bool) any { return big.NewInt(v) }
	default: // unsigned numbers, and types that this version does not support
		return nil, nil
	}
	if hasLow {
		lower = form(a, false)
	}
	if hasHigh {
		upper = form(b, true)
	}
	return lower, upper
}

// midnight returns the microsecond at which a day starts, or nil on overflow.
func midnight(day int64) any {
	if at, ok := convert.Midnight(day); ok {
		return at
	}
	return nil
}

// micros converts to microseconds, rounding lower bounds down and upper ones up. It
// returns nil on overflow.
func micros(v int64, unit arrow.TimeUnit, up bool) any {
	switch unit {
	case arrow.Nanosecond:
		q := v / 1000
		if r := v % 1000; r < 0 && !up {
			q--
		} else if r > 0 && up {
			q++
		}
		return q
	case arrow.Microsecond:
		return v
	case arrow.Millisecond:
		if v > math.MaxInt64/1000 || v < math.MinInt64/1000 {
			return nil
		}
		return v * 1000
	default:
		return nil
	}
}

// floats discards bounds that include NaN and extends zero to both of its signs.
func floats(low, high any) (lower, upper any) {
	a, hasLow := low.(float64)
	b, hasHigh := high.(float64)
	if math.IsNaN(a) || math.IsNaN(b) || (hasLow && hasHigh && a > b) {
		return nil, nil
	}
	if hasLow {
		if a == 0 {
			a = math.Copysign(0, -1)
		}
		lower = a
	}
	if hasHigh {
		if b == 0 {
			b = 0 // also a negative zero
		}
		upper = b
	}
	return lower, upper
}

func (c boundsDecoder) binary(stored []byte) any {
	if stored == nil || (c.column.PhysicalType() == parquet.Types.FixedLenByteArray && len(stored) != c.column.TypeLength()) {
		return nil
	}
	switch c.kind.(type) {
	case *arrow.StringType:
		return string(stored)
	case *arrow.BinaryType, *arrow.FixedSizeBinaryType:
		return slices.Clone(stored)
	case arrow.DecimalType:
		if len(stored) == 0 {
			return nil
		}
		return unscaled(stored)
	default:
		return nil
	}
}

// unscaled decodes a number in big-endian two's complement.
func unscaled(stored []byte) *big.Int {
	v := new(big.Int).SetBytes(stored)
	if stored[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(stored))))
	}
	return v
}

func decodeBound(stored []byte, width int, decode func([]byte) any) any {
	if len(stored) != width {
		return nil
	}
	return decode(stored)
}

// isTimeNanos reports whether a leaf is annotated as times of day in nanoseconds.
func (f *Footer) isTimeNanos(leaf int) bool {
	logical, ok := f.meta.Schema.Column(leaf).LogicalType().(schema.TimeLogicalType)
	return ok && logical.TimeUnit() == schema.TimeUnitNanos
}

// statisticsProveNanos reports whether the statistics of a leaf prove that its times of
// day are in nanoseconds, as annotated: some are too large for microseconds, or all are
// null or midnight. No checksum covers a footer, so a single flipped bit can turn an
// annotation of microseconds into nanoseconds, and the times would come out a thousand
// times too small.
func (f *Footer) statisticsProveNanos(leaf int) bool {
	other := false
	for group := range f.groups {
		chunk := f.meta.RowGroups[group].Columns[leaf].MetaData
		s := chunk.Statistics
		if chunk.NumValues == 0 {
			continue
		}
		if s == nil || !f.trusted(group, leaf) {
			return false
		}
		lower, upper := s.MinValue, s.MaxValue
		if len(lower) == 0 && len(upper) == 0 && s.NullCount != nil && *s.NullCount == chunk.NumValues {
			continue // all null
		}
		if len(lower) != arrow.Int64SizeBytes || len(upper) != arrow.Int64SizeBytes {
			return false
		}
		if binary.LittleEndian.Uint64(upper) >= convert.MicrosPerDay {
			return true
		}
		other = other || binary.LittleEndian.Uint64(lower) > 0 || binary.LittleEndian.Uint64(upper) > 0
	}
	return !other
}
