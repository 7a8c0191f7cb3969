package resolve

import (
	"encoding/binary"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
)

// interval bounds the values of one column in a file or a group of files. It includes its bounds,
// and contains every value that is not null. It may be too wide, but is never too narrow. A bound
// without a value is absent. Values have the units of expr.Value.
type interval struct {
	low, high expr.Value
	empty     bool // no row has a value
}

// bounded reports whether the interval excludes any value.
func (i interval) bounded() bool {
	return i.empty || i.low != (expr.Value{}) || i.high != (expr.Value{})
}

// overlaps reports whether i and o can contain the same value.
func (i interval) overlaps(o interval) bool {
	return !i.empty && !o.empty && !below(i.high, o.low) && !below(o.high, i.low)
}

// below reports whether an upper bound is less than a lower bound.
func below(high, low expr.Value) bool {
	order, ok := high.Compare(low)
	return ok && order < 0
}

// and returns the intersection of i and o. If the intersection is empty, one of the two intervals
// must be wrong. Then the result is unbounded, so that no row is lost.
func (i interval) and(o interval) interval {
	switch {
	case i.empty || o.empty:
		return interval{empty: true}
	case !i.overlaps(o):
		return interval{}
	}
	out := i
	if order, ok := o.low.Compare(i.low); ok && order > 0 || i.low == (expr.Value{}) {
		out.low = o.low
	}
	if order, ok := o.high.Compare(i.high); ok && order < 0 || i.high == (expr.Value{}) {
		out.high = o.high
	}
	return out
}

// or returns an interval that contains i and o.
func (i interval) or(o interval) interval {
	switch {
	case i.empty:
		return o
	case o.empty:
		return i
	}
	var out interval
	if order, ok := i.low.Compare(o.low); ok {
		out.low = i.low
		if order > 0 {
			out.low = o.low
		}
	}
	if order, ok := i.high.Compare(o.high); ok {
		out.high = i.high
		if order < 0 {
			out.high = o.high
		}
	}
	return out
}

// append appends a unique, self-delimiting encoding of the interval.
func (i interval) append(text []byte) []byte {
	own := i.low.String() + ".." + i.high.String()
	if i.empty {
		own = ""
	}
	return append(binary.AppendUvarint(text, uint64(len(own))), own...)
}

// statistics returns the interval of a column according to a file's value ranges.
func statistics(f catalog.File, column catalog.Field) interval {
	r, ok := f.Ranges[column.ID]
	if !ok {
		return interval{}
	}
	if r.Rows == 0 || r.Rows > 0 && r.Nulls == r.Rows {
		return interval{empty: true}
	}
	var i interval
	if r.HasLower {
		i.low = r.Lower
	}
	if r.HasUpper {
		i.high = r.Upper
	}
	if order, ok := i.low.Compare(i.high); ok && order > 0 {
		return interval{} // the bounds contradict each other, so nothing is known
	}
	if nanoseconds(column.Type) {
		i.low, i.high = moved(i.low, -1), moved(i.high, 1) // the bounds were rounded to microseconds
	}
	return i
}

func nanoseconds(t arrow.DataType) bool {
	ts, ok := t.(*arrow.TimestampType)
	return ok && ts.Unit == arrow.Nanosecond
}

// moved returns an integer bound shifted by a number. If the result overflows, it is absent.
func moved(v expr.Value, by int64) expr.Value {
	n, ok := v.Integer()
	if !ok || by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
		return expr.Value{}
	}
	return expr.Int(n + by)
}

// partitioned returns the interval of source values for a partition value. If the partition value
// is null, all source values are null, whatever the transform. Other values of buckets and unknown
// transforms do not bound the source values.
func partitioned(p catalog.PartitionField, value any, column catalog.Field) interval {
	if p.Transform.Kind == catalog.Other {
		return interval{}
	}
	if value == nil {
		return interval{empty: true}
	}
	switch p.Transform.Kind {
	case catalog.Identity:
		v := identity(value, column.Type)
		return interval{low: v, high: v}.fine(column.Type)
	case catalog.Truncate:
		return truncated(value, p.Transform.N, column.Type)
	case catalog.Year, catalog.Month, catalog.Day, catalog.Hour:
		if ordinal, ok := value.(int64); ok {
			return calendar(p.Transform.Kind, ordinal, column.Type)
		}
	case catalog.Bucket, catalog.Other: // these transforms keep no order
	}
	return interval{}
}

// fine converts an interval of nanoseconds to microseconds.
func (i interval) fine(t arrow.DataType) interval {
	if !nanoseconds(t) {
		return i
	}
	micros := func(v expr.Value) expr.Value {
		n, ok := v.Integer()
		if !ok {
			return expr.Value{}
		}
		return expr.Int(floorDiv(n, int64(time.Microsecond)))
	}
	return interval{low: moved(micros(i.low), -1), high: moved(micros(i.high), 1), empty: i.empty}
}

// identity converts the value of an identity partition to a bound. The bound is absent if the value
// is not of the column's type.
func identity(value any, t arrow.DataType) expr.Value {
	switch v := value.(type) {
	case int64:
		return expr.Int(v)
	case string:
		switch t := t.(type) {
		case *arrow.StringType, *arrow.LargeStringType:
			return expr.Text(v)
		case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.FixedSizeBinaryType:
			return expr.Bytes([]byte(v))
		case *arrow.Decimal128Type:
			if n, ok := unscaled(v, int(t.Scale)); ok {
				return expr.Decimal(n, int(t.Scale))
			}
		}
	}
	return expr.Value{}
}

// unscaled parses a manifest's decimal, in units of 10^-scale.
func unscaled(text string, scale int) (*big.Int, bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) > scale {
		return nil, false
	}
	return new(big.Int).SetString(whole+fraction+strings.Repeat("0", scale-len(fraction)), 10)
}

// truncated returns the interval of a truncate partition with a width. Truncation rounds numbers
// down to a multiple of the width, and cuts strings and bytes to that many characters or bytes.
func truncated(value any, width int, t arrow.DataType) interval {
	last := int64(width) - 1
	switch v := value.(type) {
	case int64:
		return interval{low: expr.Int(v), high: moved(expr.Int(v), last)}
	case string:
		if d, ok := t.(*arrow.Decimal128Type); ok {
			n, ok := unscaled(v, int(d.Scale))
			if !ok {
				return interval{}
			}
			return interval{low: expr.Decimal(n, int(d.Scale)), high: expr.Decimal(new(big.Int).Add(n, big.NewInt(last)), int(d.Scale))}
		}
		if len(v) < width { // v has fewer characters than width, so it is not truncated
			return interval{low: expr.Text(v), high: expr.Text(v)}
		}
		return interval{low: expr.Text(v), high: after(v)}
	}
	return interval{}
}

// after returns a bound above all values with a prefix. The result is absent if there is no such
// bound.
func after(prefix string) expr.Value {
	bytes := []byte(prefix)
	for len(bytes) > 0 && bytes[len(bytes)-1] == math.MaxUint8 {
		bytes = bytes[:len(bytes)-1]
	}
	if len(bytes) == 0 {
		return expr.Value{}
	}
	bytes[len(bytes)-1]++
	return expr.Bytes(bytes)
}

// calendar returns the interval of a year, month, day or hour partition. Old writers rounded times
// before 1970 up instead of down, so a partition of 0 or less may also contain values of the
// previous unit.
func calendar(kind catalog.TransformKind, ordinal int64, t arrow.DataType) interval {
	unit := calendarUnit(kind)
	first := ordinal
	if ordinal <= 0 {
		first--
	}
	start, end := unit.start(first), unit.start(ordinal+1)
	switch t := t.(type) {
	case *arrow.Date32Type:
		return interval{low: expr.Int(days(start)), high: expr.Int(days(end) - 1)}
	case *arrow.TimestampType:
		i := interval{low: expr.Int(start.UnixMicro()), high: expr.Int(end.UnixMicro() - 1)}
		if t.Unit == arrow.Nanosecond {
			i.high = moved(i.high, 1) // nanoseconds are rounded up to the end
		}
		return i
	}
	return interval{}
}

func days(t time.Time) int64 { return floorDiv(t.Unix(), hoursPerDay*secondsPerHour) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
