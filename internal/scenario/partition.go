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

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/expr"
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

// fieldName names a partition field as Iceberg's writers do.
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

// divide finds the partition of every row. Partitions come by their values
// other than buckets, in the order of first appearance, so that the order of
// equal keys does not depend on the number of buckets.
func divide(t *catalog.Table, spec catalog.Spec, rows arrow.RecordBatch) ([]*partition, error) {
	columns := make([][]any, len(spec))
	for i, f := range spec {
		column := slices.IndexFunc(t.Fields, func(x catalog.Field) bool { return x.ID == f.Source })
		var err error
		if columns[i], err = transform(f.Transform, rows.Column(column)); err != nil {
			return nil, err
		}
	}
	var partitions []*partition
	at, seen := map[string]*partition{}, map[string]int{}
	for row := range int(rows.NumRows()) {
		values := make([]any, len(spec))
		for i := range spec {
			values[i] = columns[i][row]
		}
		id := fmt.Sprintf("%#v", values)
		if at[id] == nil {
			at[id] = &partition{values: values}
			partitions = append(partitions, at[id])
			if rest := unbucketed(spec, values); seen[rest] == 0 {
				seen[rest] = len(seen) + 1
			}
		}
		at[id].rows = append(at[id].rows, int32(row))
	}
	slices.SortStableFunc(partitions, func(a, b *partition) int {
		return cmp.Compare(seen[unbucketed(spec, a.values)], seen[unbucketed(spec, b.values)])
	})
	return partitions, nil
}

// unbucketed identifies the partition values that are no buckets.
func unbucketed(spec catalog.Spec, values []any) string {
	var rest []any
	for i, f := range spec {
		if f.Transform.Kind != catalog.Bucket {
			rest = append(rest, values[i])
		}
	}
	return fmt.Sprintf("%#v", rest)
}

func transform(t catalog.Transform, column arrow.Array) ([]any, error) {
	values := make([]any, column.Len())
	if t.Kind == catalog.Bucket {
		buckets, err := bucket.Array(nil, column, t.N)
		if err != nil {
			return nil, err
		}
		for i, b := range buckets {
			if b >= 0 {
				values[i] = int64(b)
			}
		}
		return values, nil
	}
	for i := range values {
		if column.IsNull(i) {
			continue
		}
		switch t.Kind {
		case catalog.Identity:
			values[i] = Value(column, i)
		case catalog.Truncate:
			values[i] = truncated(column, i, t.N)
		case catalog.Year, catalog.Month, catalog.Day, catalog.Hour:
			values[i] = period(t.Kind, instant(column, i))
		default:
			return nil, fmt.Errorf("scenario knows no transform %s", t.Kind)
		}
		if d, ok := values[i].(Decimal); ok {
			values[i] = string(d)
		}
	}
	return values, nil
}

// truncated is Iceberg's truncate: numbers are floored to a multiple of the
// width, decimals by their unscaled value, text is cut to that many code
// points, and binary to that many bytes.
func truncated(column arrow.Array, row, width int) any {
	switch v := Value(column, row).(type) {
	case int64:
		return v - ((v%int64(width))+int64(width))%int64(width)
	case Decimal:
		unscaled, w := column.(*array.Decimal128).Value(row).BigInt(), big.NewInt(int64(width))
		floor := new(big.Int).Sub(unscaled, new(big.Int).Mod(unscaled, w)) // Mod is never negative
		return newDecimal(floor, column.DataType().(*arrow.Decimal128Type).Scale)
	case string:
		if column.DataType().ID() == arrow.BINARY {
			return v[:min(width, len(v))]
		}
		points := []rune(v)
		return string(points[:min(width, len(points))])
	default:
		return v
	}
}

// Decimal is a decimal number as text, with all digits of its scale.
type Decimal string

// newDecimal writes a number times ten to the minus scale.
func newDecimal(unscaled *big.Int, scale int32) Decimal {
	return Decimal(new(big.Rat).SetFrac(unscaled, powerOfTen(scale)).FloatString(int(scale)))
}

func powerOfTen(n int32) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func (d Decimal) number() *big.Rat {
	n, _ := new(big.Rat).SetString(string(d))
	return n
}

// instant is when a date begins, or a timestamp.
func instant(column arrow.Array, row int) time.Time {
	switch a := column.(type) {
	case *array.Date32:
		return a.Value(row).ToTime()
	case *array.Timestamp:
		return a.Value(row).ToTime(a.DataType().(*arrow.TimestampType).Unit)
	default:
		return time.Time{}
	}
}

// period counts years, months, days or hours from 1970-01-01, downwards
// before it.
func period(kind catalog.TransformKind, t time.Time) int64 {
	years := int64(t.Year() - 1970)
	switch kind {
	case catalog.Year:
		return years
	case catalog.Month:
		return years*12 + int64(t.Month()) - 1
	case catalog.Day:
		return floorDiv(t.Unix(), 86400)
	default:
		return floorDiv(t.Unix(), 3600)
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ranges computes what a manifest would know of a file's columns. Bounds of
// text and binary are cut to a few bytes, as writers cut them.
func ranges(t *catalog.Table, rows arrow.RecordBatch) map[int]expr.Range {
	all := map[int]expr.Range{}
	for i, f := range t.Fields {
		column := rows.Column(i)
		if _, nested := column.(*array.List); nested {
			continue
		}
		var lower, upper any
		nan := false
		for row := range column.Len() {
			v := Value(column, row)
			if f, ok := v.(float64); ok && math.IsNaN(f) {
				nan = true
				continue
			}
			if v != nil && (lower == nil || compare(v, lower) < 0) {
				lower = v
			}
			if v != nil && (upper == nil || compare(v, upper) > 0) {
				upper = v
			}
		}
		r := expr.Range{Nulls: int64(column.NullN()), Rows: int64(column.Len()), NoNaN: !nan}
		if lower != nil {
			r.Lower, r.HasLower = bound(f.Type, lower, false)
			r.Upper, r.HasUpper = bound(f.Type, upper, true)
		}
		all[f.ID] = r
	}
	return all
}

// boundBytes is how much of a text a bound keeps: few, so that tests meet cut
// bounds often.
const boundBytes = 4

func bound(dt arrow.DataType, v any, upper bool) (expr.Value, bool) {
	switch v := v.(type) {
	case int64:
		if ts, ok := dt.(*arrow.TimestampType); ok && ts.Unit == arrow.Nanosecond {
			v = floorDiv(v, 1000)
		}
		return expr.Int(v), true
	case float64:
		return expr.Float(v), true
	case bool:
		return expr.Bool(v), true
	case Decimal:
		scale := dt.(*arrow.Decimal128Type).Scale
		return expr.Decimal(new(big.Rat).Mul(v.number(), new(big.Rat).SetInt(powerOfTen(scale))).Num(), int(scale)), true
	case string:
		if len(v) > boundBytes {
			v = v[:boundBytes]
			if upper {
				v = v[:boundBytes-1] + string(rune(v[boundBytes-1]+1)) // tests write ASCII
			}
		}
		if dt.ID() == arrow.BINARY {
			return expr.Bytes([]byte(v)), true
		}
		return expr.Text(v), true
	default:
		return expr.Value{}, false
	}
}

// compare orders two values of one kind that are not null; false is below
// true.
func compare(a, b any) int {
	switch x := a.(type) {
	case int64:
		return cmp.Compare(x, b.(int64))
	case float64: // NaN is above every number
		y := b.(float64)
		if math.IsNaN(x) || math.IsNaN(y) {
			return compare(math.IsNaN(x), math.IsNaN(y))
		}
		return cmp.Compare(x, y)
	case bool:
		return cmp.Compare(strconv.FormatBool(x), strconv.FormatBool(b.(bool)))
	case string:
		return strings.Compare(x, b.(string))
	case Decimal:
		return x.number().Cmp(b.(Decimal).number())
	default:
		return 0
	}
}
