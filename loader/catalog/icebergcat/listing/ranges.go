package listing

import (
	"bytes"
	"cmp"
	"math"
	"strings"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
)

// nanosPerMicro is the number of nanoseconds in a microsecond.
const nanosPerMicro = 1000

// ranges converts the statistics of a file in a manifest. Statistics that are missing, malformed or
// contradictory are treated as unknown, so that a range may be too wide, but is never too narrow.
// If the table has a name mapping, no statistics are used: files may have been imported from other
// tools, and their statistics may refer to an earlier mapping or use the units of the file.
func (l *Listing) ranges(d iceberg.DataFile, partition map[int]any) map[int]expr.Range {
	lower, upper := d.LowerBoundValues(), d.UpperBoundValues()
	nulls, nans := d.NullValueCounts(), d.NaNValueCounts()
	identity := l.identity(d, partition)
	out := make(map[int]expr.Range, len(l.bounds))
	for _, f := range l.bounds {
		if _, ok := f.Type.(iceberg.PrimitiveType); !ok || catalog.IsLineage(f.ID) {
			continue // statistics are those of primitive columns, and of stored row ids
		}
		if r, ok := identity[f.ID]; ok {
			out[f.ID] = r
			continue
		}
		r := expr.Unbounded(d.Count())
		if l.mapped {
			out[f.ID] = r
			continue
		}
		if n, ok := nulls[f.ID]; ok && n >= 0 && n <= d.Count() {
			r.Nulls = n
		}
		if n, ok := nans[f.ID]; ok && n == 0 {
			r.NoNaN = true
		}
		low, high := literal(f.Type, lower[f.ID]), literal(f.Type, upper[f.ID])
		if low == nil || high == nil || inOrder(low, high) {
			r.Lower, r.HasLower = bound(low, false)
			r.Upper, r.HasUpper = bound(high, true)
		}
		out[f.ID] = r
	}
	return out
}

// identity returns the ranges of columns with an identity partition field: such a column has one
// value in all rows of the file.
func (l *Listing) identity(d iceberg.DataFile, partition map[int]any) map[int]expr.Range {
	spec := l.specs[int(d.SpecID())]
	out := make(map[int]expr.Range)
	for _, field := range spec.Fields() {
		if _, ok := field.Transform.(iceberg.IdentityTransform); !ok || len(field.SourceIDs) != 1 {
			continue
		}
		raw, ok := partition[field.FieldID]
		if !ok {
			continue
		}
		for _, f := range l.bounds {
			if f.ID != field.SourceID() {
				continue
			}
			if v, ok := constant(f.Type, raw); ok {
				out[f.ID] = expr.Constant(v, d.Count())
			}
		}
	}
	return out
}

// constant converts an identity partition value of a column. It returns false if the value does not
// have the column's current type, or if the conversion would not be exact.
func constant(t iceberg.Type, raw any) (expr.Value, bool) {
	if raw == nil {
		return expr.Value{}, true
	}
	switch t.(type) {
	case iceberg.BooleanType:
		v, ok := raw.(bool)
		return expr.Bool(v), ok
	case iceberg.Int32Type, iceberg.Int64Type:
		if v, ok := raw.(int32); ok {
			return expr.Int(int64(v)), true
		}
		v, ok := raw.(int64)
		return expr.Int(v), ok
	case iceberg.DateType:
		v, ok := raw.(iceberg.Date)
		return expr.Int(int64(v)), ok
	case iceberg.TimeType:
		v, ok := raw.(iceberg.Time)
		return expr.Int(int64(v)), ok
	case iceberg.TimestampType, iceberg.TimestampTzType:
		v, ok := raw.(iceberg.Timestamp)
		return expr.Int(int64(v)), ok
	case iceberg.StringType:
		v, ok := raw.(string)
		return expr.Text(v), ok
	default:
		return expr.Value{}, false
	}
}

// literal decodes a bound. It returns nil for bounds that cannot be decoded or trusted: it ignores
// truncated bounds of fixed columns, because writers may truncate an upper bound without rounding
// it up, and all bounds of uuids, because writers order uuids differently.
func literal(t iceberg.Type, raw []byte) iceberg.Literal {
	switch t := t.(type) {
	case iceberg.UUIDType:
		return nil
	case iceberg.FixedType:
		if len(raw) != t.Len() {
			return nil
		}
	}
	if raw == nil {
		return nil
	}
	written := boundType(t, raw)
	v, err := iceberg.LiteralFromBytes(written, raw)
	if err == nil && written != t {
		v, err = v.To(t)
	}
	if err != nil {
		return nil
	}
	return v
}

// boundType returns the type with which a bound was written. It may be a narrower type than the
// column's, if the column's type was widened later.
func boundType(t iceberg.Type, raw []byte) iceberg.Type {
	const narrow = 4 // bytes
	switch t.(type) {
	case iceberg.Int64Type:
		if len(raw) == narrow {
			return iceberg.PrimitiveTypes.Int32
		}
	case iceberg.Float64Type:
		if len(raw) == narrow {
			return iceberg.PrimitiveTypes.Float32
		}
	}
	return t
}

// bound converts a literal. If up is true, it rounds nanoseconds up, for an upper bound; otherwise
// down, for a lower bound.
func bound(v iceberg.Literal, up bool) (expr.Value, bool) {
	switch v := v.(type) {
	case iceberg.BoolLiteral:
		return expr.Bool(bool(v)), true
	case iceberg.Int32Literal:
		return expr.Int(int64(v)), true
	case iceberg.Int64Literal:
		return expr.Int(int64(v)), true
	case iceberg.DateLiteral:
		return expr.Int(int64(v)), true
	case iceberg.TimeLiteral:
		return expr.Int(int64(v)), true
	case iceberg.TimestampLiteral:
		return expr.Int(int64(v)), true
	case iceberg.TimestampNsLiteral:
		return expr.Int(micros(int64(v), up)), true
	case iceberg.Float32Literal:
		return expr.Float(float64(v)), !math.IsNaN(float64(v))
	case iceberg.Float64Literal:
		return expr.Float(float64(v)), !math.IsNaN(float64(v))
	case iceberg.StringLiteral:
		return expr.Text(string(v)), true
	case iceberg.BinaryLiteral:
		return expr.Bytes(v), true
	case iceberg.FixedLiteral:
		return expr.Bytes(v), true
	case iceberg.DecimalLiteral:
		return expr.Decimal(v.Val.BigInt(), v.Scale), true
	default:
		return expr.Value{}, false
	}
}

func micros(nanos int64, up bool) int64 {
	whole, rest := nanos/nanosPerMicro, nanos%nanosPerMicro
	switch {
	case rest > 0 && up:
		return whole + 1
	case rest < 0 && !up:
		return whole - 1
	default:
		return whole
	}
}

// inOrder reports whether the lower bound is less than or equal to the upper bound.
func inOrder(low, high iceberg.Literal) bool {
	switch l := low.(type) {
	case iceberg.Int32Literal:
		return ordered(l, high)
	case iceberg.Int64Literal:
		return ordered(l, high)
	case iceberg.DateLiteral:
		return ordered(l, high)
	case iceberg.TimeLiteral:
		return ordered(l, high)
	case iceberg.TimestampLiteral:
		return ordered(l, high)
	case iceberg.TimestampNsLiteral:
		return ordered(l, high)
	case iceberg.Float32Literal:
		return ordered(l, high)
	case iceberg.Float64Literal:
		return ordered(l, high)
	case iceberg.StringLiteral:
		return ordered(l, high)
	case iceberg.BinaryLiteral:
		h, ok := high.(iceberg.BinaryLiteral)
		return ok && bytes.Compare(l, h) <= 0
	case iceberg.FixedLiteral:
		h, ok := high.(iceberg.FixedLiteral)
		return ok && bytes.Compare(l, h) <= 0
	case iceberg.DecimalLiteral:
		h, ok := high.(iceberg.DecimalLiteral)
		return ok && l.Val.Cmp(h.Val) <= 0
	default:
		return strings.EqualFold(low.Type().String(), high.Type().String())
	}
}

// ordered implements inOrder for literals of one type. It also returns true if one of them is NaN.
func ordered[T cmp.Ordered](low T, high any) bool {
	h, ok := high.(T)
	return ok && !(low > h)
}
