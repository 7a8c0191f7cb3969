package scenario

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/scenario/cell"
	"github.com/penstock/penstock/loader/catalog"
)

// Spec parses partition fields such as "day bucket(4,request_id) day(ts)
// truncate(2,name)". A field without a transform is the column itself.
func Spec(text string, fields []catalog.Field) (catalog.Spec, error) {
	spec := catalog.Spec{}
	for i, word := range strings.Fields(text) {
		p := catalog.PartitionField{ID: 1000 + i, Transform: catalog.Transform{Kind: catalog.Identity}}
		column := word
		if kind, inner, ok := strings.Cut(word, "("); ok {
			column = strings.TrimSuffix(inner, ")")
			p.Transform.Kind = catalog.TransformKind(kind)
			if argument, name, two := strings.Cut(column, ","); two {
				n, err := strconv.Atoi(argument)
				if err != nil {
					return nil, fmt.Errorf("number in %q: %w", word, err)
				}
				p.Transform.N, column = n, name
			}
		}
		for _, f := range fields {
			if f.Name == column {
				p.Source, p.Name = f.ID, fieldName(p.Transform.Kind, f.Name)
			}
		}
		if p.Source == 0 {
			return nil, fmt.Errorf("partition field %q names no column", word)
		}
		spec = append(spec, p)
	}
	return spec, nil
}

// fieldName names a partition field like Iceberg's writers.
func fieldName(kind catalog.TransformKind, column string) string {
	switch kind {
	case catalog.Identity:
		return column
	case catalog.Truncate:
		return column + "_trunc"
	default:
		return column + "_" + string(kind)
	}
}

type partition struct {
	values []any
	rows   []int32
}

// divide assigns rows to partitions. Partitions are sorted by their values other than
// buckets, in the order of first appearance, so that the order of equal keys does not
// depend on the number of buckets.
func divide(t *catalog.Table, spec catalog.Spec, rows [][]any) ([]*partition, error) {
	var partitions []*partition
	at, seen := map[string]*partition{}, map[string]int{}
	for number, row := range rows {
		values := make([]any, len(spec))
		for i, f := range spec {
			column := slices.IndexFunc(t.Fields, func(x catalog.Field) bool { return x.ID == f.Source })
			var err error
			if values[i], err = transform(f.Transform, t.Fields[column].Type, row[column]); err != nil {
				return nil, err
			}
		}
		id := fmt.Sprintf("%#v", values)
		if at[id] == nil {
			at[id] = &partition{values: values}
			partitions = append(partitions, at[id])
			if rest := unbucketed(spec, values); seen[rest] == 0 {
				seen[rest] = len(seen) + 1
			}
		}
		at[id].rows = append(at[id].rows, int32(number))
	}
	slices.SortStableFunc(partitions, func(a, b *partition) int {
		return cmp.Compare(seen[unbucketed(spec, a.values)], seen[unbucketed(spec, b.values)])
	})
	return partitions, nil
}

// unbucketed identifies the partition values other than buckets.
func unbucketed(spec catalog.Spec, values []any) string {
	var rest []any
	for i, f := range spec {
		if f.Transform.Kind != catalog.Bucket {
			rest = append(rest, values[i])
		}
	}
	return fmt.Sprintf("%#v", rest)
}

// transform returns the partition value of a column's value.
func transform(t catalog.Transform, dt arrow.DataType, v any) (any, error) {
	if v == nil {
		return nil, nil //nolint:nilnil // the partition of nulls
	}
	switch t.Kind {
	case catalog.Identity:
	case catalog.Bucket:
		return cell.Bucket(dt, v, t.N), nil
	case catalog.Truncate:
		v = truncated(dt, v, t.N)
	case catalog.Year, catalog.Month, catalog.Day, catalog.Hour:
		return period(t.Kind, instant(dt, v.(int64))), nil
	default:
		return nil, fmt.Errorf("scenario knows no transform %s", t.Kind)
	}
	if d, ok := v.(cell.Decimal); ok {
		return string(d), nil
	}
	return v, nil
}

// truncated implements Iceberg's truncate: numbers are rounded down to a multiple of the
// width, decimals by their unscaled value; text is truncated to width code points, and
// binary to width bytes.
func truncated(dt arrow.DataType, v any, width int) any {
	switch v := v.(type) {
	case int64:
		return cell.FloorDiv(v, int64(width)) * int64(width)
	case cell.Decimal:
		scale := dt.(*arrow.Decimal128Type).Scale
		unscaled, w := v.Unscaled(scale), big.NewInt(int64(width))
		return cell.NewDecimal(new(big.Int).Sub(unscaled, new(big.Int).Mod(unscaled, w)), scale) // Mod is never negative
	case string:
		if dt.ID() == arrow.BINARY {
			return v[:min(width, len(v))]
		}
		points := []rune(v)
		return string(points[:min(width, len(points))])
	default:
		return v
	}
}

// instant returns the start of a date, or the time of a timestamp.
func instant(dt arrow.DataType, v int64) time.Time {
	switch dt := dt.(type) {
	case *arrow.Date32Type:
		return time.Unix(v*secondsPerDay, 0).UTC()
	case *arrow.TimestampType:
		if dt.Unit == arrow.Nanosecond {
			return time.Unix(0, v).UTC()
		}
	}
	return time.UnixMicro(v).UTC()
}

// period returns the years, months, days or hours since 1970-01-01, negative before it.
func period(kind catalog.TransformKind, t time.Time) int64 {
	years := int64(t.Year() - 1970)
	switch kind {
	case catalog.Year:
		return years
	case catalog.Month:
		return years*12 + int64(t.Month()) - 1
	case catalog.Day:
		return cell.FloorDiv(t.Unix(), 86400)
	default:
		return cell.FloorDiv(t.Unix(), 3600)
	}
}

// ranges computes the ranges of a file's columns that a manifest would record. Bounds of text and
// binary columns are truncated, like those of other writers.
func ranges(t *catalog.Table, rows [][]any) map[int]expr.Range {
	all := map[int]expr.Range{}
	for i, f := range t.Fields {
		if arrow.IsNested(f.Type.ID()) {
			continue
		}
		r := expr.Range{Rows: int64(len(rows)), NoNaN: true}
		var lower, upper any
		for _, row := range rows {
			v := row[i]
			if f, ok := v.(float64); ok && math.IsNaN(f) {
				r.NoNaN = false
				continue
			}
			if v == nil {
				r.Nulls++
				continue
			}
			if lower == nil || cell.Compare(v, lower) < 0 {
				lower = v
			}
			if upper == nil || cell.Compare(v, upper) > 0 {
				upper = v
			}
		}
		if lower != nil {
			r.Lower, r.HasLower = bound(f.Type, lower, false)
			r.Upper, r.HasUpper = bound(f.Type, upper, true)
		}
		all[f.ID] = r
	}
	return all
}

func bound(dt arrow.DataType, v any, upper bool) (expr.Value, bool) {
	switch v := v.(type) {
	case int64:
		if ts, ok := dt.(*arrow.TimestampType); ok && ts.Unit == arrow.Nanosecond {
			v = cell.FloorDiv(v, 1000)
		}
		return expr.Int(v), true
	case float64:
		return expr.Float(v), true
	case bool:
		return expr.Bool(v), true
	case cell.Decimal:
		scale := dt.(*arrow.Decimal128Type).Scale
		return expr.Decimal(v.Unscaled(scale), int(scale)), true
	case string:
		switch dt.ID() {
		case arrow.STRING:
			text, ok := cutText(v, upper)
			return expr.Text(text), ok
		case arrow.BINARY:
			raw, ok := cutBytes([]byte(v), upper)
			return expr.Bytes(raw), ok
		}
		return expr.Bytes([]byte(v)), true
	default:
		return expr.Value{}, false
	}
}

// boundLength is the length to which bounds are truncated. It is small, so that tests often have
// truncated bounds.
const boundLength = 4

// cutText truncates a bound to boundLength code points. In an upper bound, it increments the last
// code point that can be incremented. It returns false if there is no such code point.
func cutText(v string, upper bool) (string, bool) {
	points := []rune(v)
	if len(points) <= boundLength {
		return v, true
	}
	points = points[:boundLength]
	if !upper {
		return string(points), true
	}
	for i, r := range slices.Backward(points) {
		if r++; r == 0xd800 {
			r = 0xe000 // skip surrogates
		}
		if r <= utf8.MaxRune {
			return string(append(points[:i:i], r)), true
		}
	}
	return "", false
}

// cutBytes is like cutText, but truncates bytes.
func cutBytes(v []byte, upper bool) ([]byte, bool) {
	if len(v) <= boundLength || !upper {
		return v[:min(len(v), boundLength)], true
	}
	for i, b := range slices.Backward(v[:boundLength]) {
		if b < math.MaxUint8 {
			return append(v[:i:i], b+1), true
		}
	}
	return nil, false
}
