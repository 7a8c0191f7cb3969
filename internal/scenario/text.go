package scenario

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/loader/catalog"
)

// null is how a text table writes a null.
const null = "-"

// Fields parses a header such as "request_id:long! label:float tags:list<long>":
// names and Iceberg types, "!" for required, field ids from 1.
func Fields(header string) ([]catalog.Field, error) {
	var fields []catalog.Field
	for i, word := range strings.Fields(header) {
		name, kind, _ := strings.Cut(word, ":")
		kind, required := strings.CutSuffix(kind, "!")
		dt, err := typeOf(kind)
		if err != nil {
			return nil, err
		}
		fields = append(fields, catalog.Field{ID: i + 1, Name: name, Type: dt, Required: required})
	}
	return fields, nil
}

// plainTypes are the types whose names take no arguments.
//
//nolint:gochecknoglobals // a constant table
var plainTypes = map[string]arrow.DataType{
	"int":          arrow.PrimitiveTypes.Int32,
	"long":         arrow.PrimitiveTypes.Int64,
	"float":        arrow.PrimitiveTypes.Float32,
	"double":       arrow.PrimitiveTypes.Float64,
	"string":       arrow.BinaryTypes.String,
	"binary":       arrow.BinaryTypes.Binary,
	"boolean":      arrow.FixedWidthTypes.Boolean,
	"date":         arrow.FixedWidthTypes.Date32,
	"time":         arrow.FixedWidthTypes.Time64us,
	"timestamp":    &arrow.TimestampType{Unit: arrow.Microsecond},
	"timestamptz":  &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
	"timestamp_ns": &arrow.TimestampType{Unit: arrow.Nanosecond},
}

func typeOf(kind string) (arrow.DataType, error) {
	if dt, ok := plainTypes[kind]; ok {
		return dt, nil
	}
	if element, ok := strings.CutPrefix(kind, "list<"); ok {
		dt, err := typeOf(strings.TrimSuffix(element, ">"))
		return arrow.ListOfField(arrow.Field{Name: "element", Type: dt, Nullable: true}), err
	}
	var precision, scale int32
	if n, _ := fmt.Sscanf(kind, "decimal(%d,%d)", &precision, &scale); n == 2 {
		return &arrow.Decimal128Type{Precision: precision, Scale: scale}, nil
	}
	return nil, fmt.Errorf("scenario knows no type %q", kind)
}

// Rows parses lines of values in the order of the fields.
func Rows(fields []catalog.Field, lines []string) (arrow.RecordBatch, error) {
	arrowFields := make([]arrow.Field, len(fields))
	for i, f := range fields {
		arrowFields[i] = f.Arrow()
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(arrowFields, nil))
	defer b.Release()
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) != len(fields) {
			return nil, fmt.Errorf("row %q has %d values, the header has %d", line, len(words), len(fields))
		}
		for i, word := range words {
			if word == null {
				b.Field(i).AppendNull()
				continue
			}
			if err := b.Field(i).AppendValueFromString(word); err != nil {
				return nil, fmt.Errorf("value %q of %s: %w", word, fields[i].Name, err)
			}
		}
	}
	return b.NewRecordBatch(), nil
}

// Format renders rows as an aligned text table with a header of names and
// types, rows in order.
func Format(schema *arrow.Schema, rows [][]any) string {
	lines := [][]string{{}}
	for _, f := range schema.Fields() {
		required := ""
		if !f.Nullable {
			required = "!"
		}
		lines[0] = append(lines[0], f.Name+":"+f.Type.String()+required)
	}
	for _, row := range rows {
		words := make([]string, len(row))
		for i, v := range row {
			words[i] = word(schema.Field(i).Type, v)
		}
		lines = append(lines, words)
	}
	widths := make([]int, len(lines[0]))
	for _, words := range lines {
		for i, word := range words {
			widths[i] = max(widths[i], len(word))
		}
	}
	var b strings.Builder
	for _, words := range lines {
		var line strings.Builder
		for i, word := range words {
			fmt.Fprintf(&line, "%-*s  ", widths[i], word)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// Values returns the rows of a batch, see Value. A dictionary of structs stands
// for the fields of its structs, as in a batch of wire: indexed.
func Values(b arrow.RecordBatch) [][]any {
	rows := make([][]any, b.NumRows())
	for i := range rows {
		for _, c := range b.Columns() {
			level, ok := c.(*array.Dictionary)
			if !ok {
				rows[i] = append(rows[i], Value(c, i))
				continue
			}
			of, at := level.Dictionary().(*array.Struct), level.GetValueIndex(i)
			for k := range of.NumField() {
				rows[i] = append(rows[i], Value(of.Field(k), at))
			}
		}
	}
	return rows
}

// Expanded returns the schema of the plain batches that indexed ones stand for.
func Expanded(schema *arrow.Schema) *arrow.Schema {
	var fields []arrow.Field
	for _, f := range schema.Fields() {
		if level, ok := f.Type.(*arrow.DictionaryType); ok {
			fields = append(fields, level.ValueType.(*arrow.StructType).Fields()...)
			continue
		}
		fields = append(fields, f)
	}
	return arrow.NewSchema(fields, nil)
}

// word renders a value as a text table has it.
func word(dt arrow.DataType, v any) string {
	if v == nil {
		return null
	}
	switch dt := dt.(type) {
	case *arrow.Date32Type:
		return arrow.Date32(v.(int64)).FormattedString()
	case *arrow.TimestampType:
		return strings.ReplaceAll(arrow.Timestamp(v.(int64)).ToTime(dt.Unit).Format("2006-01-02T15:04:05.999999999"), " ", "T")
	case *arrow.BinaryType:
		return base64.StdEncoding.EncodeToString([]byte(v.(string)))
	}
	return strings.ReplaceAll(fmt.Sprint(v), " ", ",")
}
