package parquet

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// Statistics bound the values of one column in one row group. Bounds are true
// but need not be tight: no value that is neither null nor NaN lies outside.
//
// A bound is bool, int64 (integers, days of dates, microseconds of times and
// timestamps), float64, string, []byte (compared as unsigned bytes) or
// *big.Int (unscaled decimals; Scale is theirs). Nil is unknown.
type Statistics struct {
	Lower, Upper any
	Scale        int32
	Rows         int64
	Nulls        int64 // -1 is unknown
	MayHaveNaN   bool  // float columns: bounds say nothing of NaN
}

// Statistics returns what the file knows about a column in a row group, as the type
// that the table has it as. The second result is false where it knows nothing: a
// column that the file lacks, a list, map or struct, a chunk without statistics.
// Statistics whose order old writers got wrong count as unknown, and so do those
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
		// The deprecated pair was compared as signed numbers by everyone, and
		// as anything at all where that is not the type's order.
		low, high = nil, nil
		if c.signedNumber() {
			low, high = stored.Min, stored.Max
		}
	}
	out.Lower, out.Upper = c.bounds(low, high)
	return out, true
}

// bounder finds a column that can have statistics in a row group.
func (f *Footer) bounder(rowGroup, fieldID int, as arrow.DataType) (bounder, bool) {
	field, ok := f.Field(fieldID)
	if !ok || rowGroup < 0 || rowGroup >= len(f.groups) {
		return bounder{}, false
	}
	if len(field.Leaves) != 1 || arrow.IsNested(field.Type.ID()) {
		return bounder{}, false
	}
	leaf := field.Leaves[0]
	return bounder{leaf: leaf, column: f.meta.Schema.Column(leaf), kind: storageOf(field.Type), as: as}, true
}

// unbounded are statistics of so many rows of which nothing else is known.
func (c bounder) unbounded(rows int64) Statistics {
	out := Statistics{Rows: rows, Nulls: -1}
	if c.kind.ID() == arrow.FLOAT32 || c.kind.ID() == arrow.FLOAT64 {
		out.MayHaveNaN = true
	}
	if d, ok := c.kind.(arrow.DecimalType); ok {
		out.Scale = d.GetScale()
	}
	return out
}

// trusted asks whether the writer's version is known for wrong statistics.
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

// bounder makes bounds of what a file has of a column.
type bounder struct {
	leaf   int
	column *schema.Column
	kind   arrow.DataType
	as     arrow.DataType
}

// signedNumber holds for types whose order is that of their stored signed
// number.
func (c bounder) signedNumber() bool {
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

// bounds decodes both ends; a pair that contradicts itself is unknown.
func (c bounder) bounds(low, high []byte) (lower, upper any) {
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

// integers gives numbers stored as integers the form of their logical type.
func (c bounder) integers(low, high any) (lower, upper any) {
	a, hasLow := low.(int64)
	b, hasHigh := high.(int64)
	if hasLow && hasHigh && a > b {
		return nil, nil
	}
	form := func(v int64, _ bool) any { return v }
	switch kind := c.kind.(type) {
	case *arrow.Int32Type, *arrow.Int64Type: // days and microseconds too, without the annotation
	case *arrow.Date32Type:
		if c.as.ID() == arrow.TIMESTAMP { // promoted since
			form = func(v int64, _ bool) any { return midnight(v) }
		}
	case *arrow.TimestampType:
		form = func(v int64, up bool) any { return micros(v, kind.Unit, up) }
	case *arrow.Time32Type:
		form = func(v int64, up bool) any { return micros(v, kind.Unit, up) }
	case *arrow.Time64Type:
		form = func(v int64, up bool) any { return micros(v, kind.Unit, up) }
	case arrow.DecimalType:
		form = func(v int64, _ bool) any { return big.NewInt(v) }
	default: // unsigned numbers and what else this version does not serve
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

// midnight returns the microsecond that a day begins with, if 64 bits reach so far.
func midnight(day int64) any {
	if at, ok := instantOf(day, microsPerDay, 0); ok {
		return at
	}
	return nil
}

// micros converts to microseconds, down for lower bounds and up for upper
// ones. What leaves the range of int64 is unknown.
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

// floats drops bounds that NaN spoiled and widens zeros to both of their signs.
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
			b = 0 // a negative zero as well
		}
		upper = b
	}
	return lower, upper
}

func (c bounder) binary(stored []byte) any {
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

// unscaled reads a big-endian two's complement number.
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

// storageOf looks through extension types.
func storageOf(t arrow.DataType) arrow.DataType {
	if ext, ok := t.(arrow.ExtensionType); ok {
		return ext.StorageType()
	}
	return t
}
