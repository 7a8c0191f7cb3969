package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/scenario/cell"
	"github.com/penstock/penstock/loader/catalog"
)

// Value returns one value in the form that the oracle uses: nil, bool, int64 (also days,
// microseconds and nanoseconds), float64, string (also bytes), cell.Decimal, []any for a list,
// cell.Struct or cell.Map.
func Value(column arrow.Array, row int) any {
	if column.IsNull(row) {
		return nil
	}
	switch a := column.(type) {
	case *array.Int32:
		return int64(a.Value(row))
	case *array.Int64:
		return a.Value(row)
	case *array.Float32:
		return float64(a.Value(row))
	case *array.Float64:
		return a.Value(row)
	case *array.String:
		return strings.Clone(a.Value(row))
	case *array.Binary:
		return string(a.Value(row))
	case *array.FixedSizeBinary:
		return string(a.Value(row))
	case *array.Decimal128:
		return cell.NewDecimal(a.Value(row).BigInt(), a.DataType().(*arrow.Decimal128Type).Scale)
	case *array.Boolean:
		return a.Value(row)
	case *array.Time64:
		return int64(a.Value(row))
	case *array.Timestamp:
		return int64(a.Value(row))
	case *array.Date32:
		return int64(a.Value(row))
	default:
		return nestedValue(column, row)
	}
}

func nestedValue(column arrow.Array, row int) any {
	switch a := column.(type) {
	case *array.Dictionary:
		return Value(a.Dictionary(), a.GetValueIndex(row))
	case *array.Map:
		from, to := a.ValueOffsets(row)
		entries := make(cell.Map, 0, to-from)
		for i := from; i < to; i++ {
			entries = append(entries, cell.Entry{Key: Value(a.Keys(), int(i)), Value: Value(a.Items(), int(i))})
		}
		return entries
	case array.ListLike: // of any length, but no map
		from, to := a.ValueOffsets(row)
		list := make([]any, 0, to-from)
		for i := from; i < to; i++ {
			list = append(list, Value(a.ListValues(), int(i)))
		}
		return list
	case *array.Struct:
		fields := make(cell.Struct, a.NumField())
		for i := range fields {
			fields[i] = Value(a.Field(i), row)
		}
		return fields
	default:
		return column.ValueStr(row)
	}
}

// Values returns the rows of a batch, see Value. A dictionary of structs, as in batches with wire:
// indexed, becomes the fields of its structs, and a category becomes its values.
func Values(b arrow.RecordBatch) [][]any {
	rows := make([][]any, b.NumRows())
	for i := range rows {
		for _, c := range b.Columns() {
			indexed, ok := c.(*array.Dictionary)
			if !ok || batch.IsCoded(c) {
				rows[i] = append(rows[i], Value(c, i))
				continue
			}
			of, at := indexed.Dictionary().(*array.Struct), indexed.GetValueIndex(i)
			for k := range of.NumField() {
				rows[i] = append(rows[i], Value(of.Field(k), at))
			}
		}
	}
	return rows
}

// Ungrouped returns the values of a batch with wire: grouped, as rows of the plain batch that it
// represents. If a column is not a list in the plain schema, it either is a list with the values of
// the request's rows, or has one value for all rows of the request.
func Ungrouped(b arrow.RecordBatch, plain *arrow.Schema) ([][]any, error) {
	var rows [][]any
	for request, values := range Values(b) {
		items, lists := 1, 0
		for i, v := range values {
			if !arrow.TypeEqual(b.Column(i).DataType(), plain.Field(i).Type) {
				of := v.([]any)
				if lists++; lists > 1 && len(of) != items || len(of) == 0 {
					return nil, fmt.Errorf("request %d has lists of %d and of %d rows", request, items, len(of))
				}
				items = len(of)
			}
		}
		for item := range items {
			row := slices.Clone(values)
			for i, v := range values {
				if !arrow.TypeEqual(b.Column(i).DataType(), plain.Field(i).Type) {
					row[i] = v.([]any)[item]
				}
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Expanded returns the schema of the plain batches that indexed batches represent.
func Expanded(schema *arrow.Schema) *arrow.Schema {
	var fields []arrow.Field
	for _, f := range schema.Fields() {
		if indexed, ok := f.Type.(*arrow.DictionaryType); ok && !batch.MayBeCoded(indexed.ValueType) {
			fields = append(fields, indexed.ValueType.(*arrow.StructType).Fields()...)
			continue
		}
		fields = append(fields, f)
	}
	return arrow.NewSchema(fields, nil)
}

// batchOf is the inverse of Values for a table's own columns.
func batchOf(fields []catalog.Field, rows [][]any) (arrow.RecordBatch, error) {
	arrowFields := make([]arrow.Field, len(fields))
	for i, f := range fields {
		arrowFields[i] = f.Arrow()
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(arrowFields, nil))
	defer b.Release()
	for _, row := range rows {
		for i, v := range row {
			if err := appendValue(b.Field(i), v); err != nil {
				return nil, fmt.Errorf("column %s: %w", fields[i].Name, err)
			}
		}
	}
	return b.NewRecordBatch(), nil
}

// appendValue appends a value of the builder's type.
func appendValue(to array.Builder, v any) error {
	if v == nil {
		to.AppendNull()
		return nil
	}
	switch v := v.(type) {
	case bool:
		to.(*array.BooleanBuilder).Append(v)
	case int64:
		appendInteger(to, v)
	case float64:
		if b, ok := to.(*array.Float32Builder); ok {
			b.Append(float32(v))
			return nil
		}
		to.(*array.Float64Builder).Append(v)
	case cell.Decimal:
		b := to.(*array.Decimal128Builder)
		b.Append(decimal128.FromBigInt(v.Unscaled(b.Type().(*arrow.Decimal128Type).Scale)))
	case string:
		switch b := to.(type) {
		case *array.StringBuilder:
			b.Append(v)
		case *array.FixedSizeBinaryBuilder:
			b.Append([]byte(v))
		default:
			to.(*array.BinaryBuilder).Append([]byte(v))
		}
	default:
		return appendNested(to, v)
	}
	return nil
}

func appendInteger(to array.Builder, v int64) {
	switch b := to.(type) {
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Date32Builder:
		b.Append(arrow.Date32(v))
	case *array.Time64Builder:
		b.Append(arrow.Time64(v))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v))
	default:
		to.(*array.Int64Builder).Append(v)
	}
}

func appendNested(to array.Builder, v any) error {
	switch v := v.(type) {
	case []any:
		b := to.(*array.ListBuilder)
		b.Append(true)
		for _, element := range v {
			if err := appendValue(b.ValueBuilder(), element); err != nil {
				return err
			}
		}
	case cell.Map:
		b := to.(*array.MapBuilder)
		b.Append(true)
		for _, e := range v {
			if err := appendValue(b.KeyBuilder(), e.Key); err != nil {
				return err
			}
			if err := appendValue(b.ItemBuilder(), e.Value); err != nil {
				return err
			}
		}
	case cell.Struct:
		b := to.(*array.StructBuilder)
		b.Append(true)
		for i, field := range v {
			if err := appendValue(b.FieldBuilder(i), field); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("a %T is no value", v)
	}
	return nil
}

// Texts returns rows as texts for comparisons: two texts are equal if and only if the rows are
// equal. NaN equals NaN, and 0 differs from -0.
func Texts(rows [][]any) []string {
	texts := make([]string, len(rows))
	for i, row := range rows {
		words := make([]string, len(row))
		for k, v := range row {
			words[k] = textOf(v)
		}
		texts[i] = "[" + strings.Join(words, " ") + "]"
	}
	return texts
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case []any:
		return "list" + Texts([][]any{v})[0]
	case cell.Struct:
		return "struct" + Texts([][]any{v})[0]
	case cell.Map:
		var entries []any
		for _, e := range v {
			entries = append(entries, e.Key, e.Value)
		}
		return "map" + Texts([][]any{entries})[0]
	default:
		return fmt.Sprint(v)
	}
}
