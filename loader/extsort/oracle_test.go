package extsort_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/sortkey"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/partition"
)

// This file sorts plain Go values, and shares no code with the package.

// record is a row: by column, nil for null, int64, float64, bool, string, or []int64.
type record []any

// kind is a column that tests may have.
type kind struct {
	name   string
	types  []arrow.DataType // one is chosen
	random func(r *rand.Rand) any
	nested bool // it cannot be sorted or partitioned by
}

var micros = &arrow.TimestampType{Unit: arrow.Microsecond}

// kinds are all columns but seq, which numbers the rows.
var kinds = []kind{
	{"id", []arrow.DataType{arrow.PrimitiveTypes.Int64}, func(r *rand.Rand) any {
		return []any{int64(r.IntN(40)), int64(r.IntN(40)) - 20, int64(math.MinInt64), int64(math.MinInt64 + 1), int64(math.MaxInt64), r.Int64()}[r.IntN(6)]
	}, false},
	{"small", []arrow.DataType{arrow.PrimitiveTypes.Int32}, func(r *rand.Rand) any { return int64(r.IntN(4)) - 2 }, false},
	{"score", []arrow.DataType{arrow.PrimitiveTypes.Float64}, func(r *rand.Rand) any {
		return []any{math.NaN(), math.Copysign(math.NaN(), -1), math.Inf(1), math.Inf(-1), 0.0, math.Copysign(0, -1), r.NormFloat64(), 1.5}[r.IntN(8)]
	}, false},
	{"name", []arrow.DataType{
		arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView,
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String},
	}, func(r *rand.Rand) any { return strings.Repeat("aé", r.IntN(7)) + []string{"", "b", "\x00"}[r.IntN(3)] }, false},
	{"raw", []arrow.DataType{arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary}, func(r *rand.Rand) any { return strings.Repeat("\xff", r.IntN(9)) }, false},
	{"ok", []arrow.DataType{arrow.FixedWidthTypes.Boolean}, func(r *rand.Rand) any { return r.IntN(2) == 0 }, false},
	{"day", []arrow.DataType{arrow.FixedWidthTypes.Date32}, func(r *rand.Rand) any { return int64(r.IntN(200)) - 100 }, false},
	{"at", []arrow.DataType{micros}, func(r *rand.Rand) any { return r.Int64N(4*24*3600*1e6) - 2*24*3600*1e6 }, false},
	{"price", []arrow.DataType{&arrow.Decimal128Type{Precision: 20, Scale: 2}}, func(r *rand.Rand) any { return int64(r.IntN(500)) - 250 }, false},
	{"code", []arrow.DataType{&arrow.FixedSizeBinaryType{ByteWidth: 3}}, func(r *rand.Rand) any { return fmt.Sprintf("%03d", r.IntN(300)) }, false},
	{"history", []arrow.DataType{arrow.ListOf(arrow.PrimitiveTypes.Int64), arrow.LargeListOf(arrow.PrimitiveTypes.Int64)}, func(r *rand.Rand) any {
		out := make([]int64, r.IntN(r.IntN(30)+1))
		for i := range out {
			out[i] = r.Int64N(1000)
		}
		return out
	}, true},
	{"pair", []arrow.DataType{arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64}, arrow.Field{Name: "b", Type: arrow.BinaryTypes.LargeString})}, func(r *rand.Rand) any {
		return pair{r.Int64N(9), strings.Repeat("z", r.IntN(9))}
	}, true},
}

// pair is a struct.
type pair struct {
	a int64
	b string
}

// table is random rows and how they are to be sorted.
type table struct {
	schema *arrow.Schema
	rows   []record
	layout extsort.Layout
	values []func(record) any // by field of the partition
}

// newTable makes a table whose first column is the key, and whose last numbers the rows.
func newTable(r *rand.Rand, rows int) *table {
	t := &table{layout: extsort.Layout{Key: []int{0}}}
	chosen := []kind{kinds[0]}
	for _, k := range kinds[1:] {
		if r.IntN(2) == 0 {
			chosen = append(chosen, k)
		}
	}
	var fields []arrow.Field
	for _, k := range chosen {
		fields = append(fields, arrow.Field{Name: k.name, Type: k.types[r.IntN(len(k.types))], Nullable: true})
	}
	t.schema = arrow.NewSchema(append(fields, arrow.Field{Name: "seq", Type: arrow.PrimitiveTypes.Int64}), nil)
	for seq := range rows {
		var row record
		for _, k := range chosen {
			if r.IntN(8) == 0 {
				row = append(row, nil)
			} else {
				row = append(row, k.random(r))
			}
		}
		t.rows = append(t.rows, append(row, int64(seq)))
	}
	for range r.IntN(4) {
		if column := r.IntN(len(chosen)); !chosen[column].nested {
			t.layout.Sort = append(t.layout.Sort, extsort.SortColumn{Column: column, Order: sortkey.ColumnOrder{Descending: r.IntN(2) == 0, NullsFirst: r.IntN(2) == 0}})
		}
	}
	for range r.IntN(3) {
		t.partitionBy(r, r.IntN(len(chosen)), chosen)
	}
	return t
}

// partitionBy adds a field to the partition, if there is a transform for the column.
func (t *table) partitionBy(r *rand.Rand, column int, chosen []kind) {
	var transform catalog.Transform
	of := func(v any) any { return v }
	switch chosen[column].name {
	case "id":
		transform, of = catalog.Transform{Kind: catalog.Bucket, N: 5}, func(v any) any { return bucketOf(binary.LittleEndian.AppendUint64(nil, uint64(v.(int64))), 5) }
	case "name":
		if transform = (catalog.Transform{Kind: catalog.Truncate, N: 2}); r.IntN(2) == 0 {
			of = func(v any) any { return string([]rune(v.(string))[:min(2, len([]rune(v.(string))))]) }
		} else {
			transform, of = catalog.Transform{Kind: catalog.Bucket, N: 3}, func(v any) any { return bucketOf([]byte(v.(string)), 3) }
		}
	case "small", "ok", "raw":
		transform = catalog.Transform{Kind: catalog.Identity}
	case "at":
		transform, of = catalog.Transform{Kind: catalog.Day}, func(v any) any { return int64(math.Floor(float64(v.(int64)) / 24 / 3600 / 1e6)) }
	case "day":
		transform, of = catalog.Transform{Kind: catalog.Month}, func(v any) any {
			at := time.Unix(0, 0).UTC().AddDate(0, 0, int(v.(int64)))
			return int64(at.Year()*12 + int(at.Month()) - 1970*12 - 1)
		}
	case "price":
		transform, of = catalog.Transform{Kind: catalog.Truncate, N: 100}, func(v any) any { return fmt.Sprintf("%.0f.00", math.Floor(float64(v.(int64))/100)) }
	default:
		return
	}
	t.layout.Partition = append(t.layout.Partition, partition.By{Column: column, Transform: transform})
	t.values = append(t.values, func(row record) any {
		if row[column] == nil {
			return nil
		}
		return of(row[column])
	})
}

// bucketOf is Iceberg's bucket of bytes: murmur3_x86_32 without the sign bit, modulo n.
func bucketOf(v []byte, n int32) int64 {
	var h uint32
	mix := func(k uint32) uint32 { return bits.RotateLeft32(k*0xcc9e2d51, 15) * 0x1b873593 }
	size := uint32(len(v))
	for ; len(v) >= 4; v = v[4:] {
		h = bits.RotateLeft32(h^mix(binary.LittleEndian.Uint32(v)), 13)*5 + 0xe6546b64
	}
	tail := uint32(0)
	for i, b := range v {
		tail |= uint32(b) << (8 * i)
	}
	h ^= mix(tail)
	h ^= size
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return int64(int32((h^h>>16)&math.MaxInt32) % n)
}

// batches cuts the rows into batches of random sizes.
func (t *table) batches(r *rand.Rand, size int) []arrow.RecordBatch {
	var out []arrow.RecordBatch
	for from := 0; from < len(t.rows); {
		to := min(from+r.IntN(size+1), len(t.rows))
		margin := r.IntN(3)
		first := max(from-margin, 0)
		whole := t.batch(t.rows[first:to])
		out = append(out, whole.NewSlice(int64(from-first), int64(to-first)))
		whole.Release()
		from = to
	}
	return out
}

func (t *table) batch(rows []record) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.schema)
	defer b.Release()
	for _, row := range rows {
		for i, v := range row {
			appendTo(b.Field(i), v)
		}
	}
	return b.NewRecordBatch()
}

// appendTo appends a value to a builder of any type of kinds.
func appendTo(b array.Builder, v any) {
	if v == nil {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.Int64Builder:
		b.Append(v.(int64))
	case *array.Int32Builder:
		b.Append(int32(v.(int64)))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.Date32Builder:
		b.Append(arrow.Date32(v.(int64)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.(int64)))
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(v.(int64)))
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(v.(string)); err != nil {
			b.AppendNull()
		}
	case array.StringLikeBuilder:
		b.Append(v.(string))
	case *array.ListBuilder:
		b.Append(true)
		b.ValueBuilder().(*array.Int64Builder).AppendValues(v.([]int64), nil)
	case *array.LargeListBuilder:
		b.Append(true)
		b.ValueBuilder().(*array.Int64Builder).AppendValues(v.([]int64), nil)
	case *array.StructBuilder:
		b.Append(true)
		b.FieldBuilder(0).(*array.Int64Builder).Append(v.(pair).a)
		b.FieldBuilder(1).(*array.LargeStringBuilder).Append(v.(pair).b)
	case interface{ Append(v []byte) }:
		b.Append([]byte(v.(string)))
	}
}

// valueOf returns a value of the result.
func valueOf(a arrow.Array, row int) any {
	if a.IsNull(row) {
		return nil
	}
	switch a := a.(type) {
	case *array.Int64:
		return a.Value(row)
	case *array.Int32:
		return int64(a.Value(row))
	case *array.Float64:
		return a.Value(row)
	case *array.Boolean:
		return a.Value(row)
	case *array.Date32:
		return int64(a.Value(row))
	case *array.Timestamp:
		return int64(a.Value(row))
	case *array.Decimal128:
		return int64(a.Value(row).LowBits())
	case *array.String:
		return a.Value(row)
	case *array.Binary:
		return string(a.Value(row))
	case *array.FixedSizeBinary:
		return string(a.Value(row))
	case *array.Struct:
		return pair{a.Field(0).(*array.Int64).Value(row), a.Field(1).(*array.String).Value(row)}
	case *array.List:
		from, to := a.ValueOffsets(row)
		return slices.Clone(a.ListValues().(*array.Int64).Int64Values()[from:to])
	}
	return "unknown type"
}

// expected is a partition of the table.
type expected struct {
	values []any
	rows   []record
}

// sorted returns the partitions of the rows that keep, in order.
func (t *table) sorted(keep func(record) bool) []*expected {
	var out []*expected
	for _, row := range t.rows {
		if !keep(row) {
			continue
		}
		values := make([]any, 0, len(t.values))
		for _, of := range t.values {
			values = append(values, of(row))
		}
		i := slices.IndexFunc(out, func(e *expected) bool { return slices.Equal(e.values, values) })
		if i < 0 {
			i = len(out)
			out = append(out, &expected{values: values})
		}
		out[i].rows = append(out[i].rows, row)
	}
	slices.SortFunc(out, func(a, b *expected) int {
		for i, v := range a.values {
			column := t.schema.Field(t.layout.Partition[i].Column).Name
			if order := compareValues(numberOf(column, v), numberOf(column, b.values[i]), sortkey.ColumnOrder{NullsFirst: true}); order != 0 {
				return order
			}
		}
		return 0
	})
	for _, e := range out {
		slices.SortStableFunc(e.rows, t.compare)
	}
	return out
}

// numberOf returns the number that a decimal's text is.
func numberOf(column string, v any) any {
	if text, ok := v.(string); ok && column == "price" {
		var number float64
		if _, err := fmt.Sscan(text, &number); err != nil {
			return err
		}
		return number
	}
	return v
}

// compare compares rows by the order of the layout, or by the key.
func (t *table) compare(a, b record) int {
	by := t.layout.Sort
	if len(by) == 0 {
		by = []extsort.SortColumn{{Column: 0, Order: sortkey.ColumnOrder{NullsFirst: true}}}
	}
	for _, c := range by {
		if order := compareValues(a[c.Column], b[c.Column], c.Order); order != 0 {
			return order
		}
	}
	return 0
}

func compareValues(a, b any, o sortkey.ColumnOrder) int {
	if a == nil || b == nil {
		switch {
		case a == nil && b == nil:
			return 0
		case (a == nil) == o.NullsFirst:
			return -1
		default:
			return 1
		}
	}
	order := 0
	switch a := a.(type) {
	case int64:
		order = cmp.Compare(a, b.(int64))
	case string:
		order = strings.Compare(a, b.(string))
	case bool:
		order = strings.Compare(strconv.FormatBool(a), strconv.FormatBool(b.(bool)))
	case float64:
		order = compareFloats(a, b.(float64))
	}
	if o.Descending {
		return -order
	}
	return order
}

// compareFloats compares in Iceberg's order.
func compareFloats(a, b float64) int {
	rank := func(v float64) int {
		switch {
		case math.IsNaN(v) && math.Signbit(v):
			return -1
		case math.IsNaN(v):
			return 1
		default:
			return 0
		}
	}
	if one, two := rank(a), rank(b); one != two || one != 0 {
		return cmp.Compare(one, two)
	}
	if a != b || a != 0 {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(math.Copysign(1, a), math.Copysign(1, b))
}

// text shows a row, with the signs of zero and NaN.
func (r record) text() string {
	var b strings.Builder
	for _, v := range r {
		if f, ok := v.(float64); ok {
			fmt.Fprintf(&b, "%x|", math.Float64bits(f))
			continue
		}
		fmt.Fprintf(&b, "%v|", v)
	}
	return b.String()
}
