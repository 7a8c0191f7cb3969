package scenario

import (
	"fmt"
	"strconv"
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

func typeOf(kind string) (arrow.DataType, error) {
	switch kind {
	case "int":
		return arrow.PrimitiveTypes.Int32, nil
	case "long":
		return arrow.PrimitiveTypes.Int64, nil
	case "float":
		return arrow.PrimitiveTypes.Float32, nil
	case "double":
		return arrow.PrimitiveTypes.Float64, nil
	case "string":
		return arrow.BinaryTypes.String, nil
	case "boolean":
		return arrow.FixedWidthTypes.Boolean, nil
	case "date":
		return arrow.FixedWidthTypes.Date32, nil
	case "list<long>":
		return arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int64, Nullable: true}), nil
	}
	return nil, fmt.Errorf("scenario knows no type %q", kind)
}

// Spec parses partition fields such as "day bucket(4,request_id)".
func Spec(text string, fields []catalog.Field) (catalog.Spec, error) {
	spec := catalog.Spec{}
	for i, word := range strings.Fields(text) {
		p := catalog.PartitionField{ID: 1000 + i, Transform: catalog.Transform{Kind: catalog.Identity}}
		column := word
		if inner, ok := strings.CutPrefix(word, "bucket("); ok {
			count, name, _ := strings.Cut(strings.TrimSuffix(inner, ")"), ",")
			n, err := strconv.Atoi(count)
			if err != nil {
				return nil, fmt.Errorf("bucket count of %q: %w", word, err)
			}
			p.Transform, column = catalog.Transform{Kind: catalog.Bucket, N: n}, name
		}
		for _, f := range fields {
			if f.Name == column {
				p.Source, p.Name = f.ID, f.Name
			}
		}
		if p.Source == 0 {
			return nil, fmt.Errorf("partition field %q names no column", word)
		}
		spec = append(spec, p)
	}
	return spec, nil
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
			words[i] = strings.ReplaceAll(fmt.Sprint(v), " ", ",")
			if v == nil {
				words[i] = null
			}
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

// Values returns the rows of a batch, see Value.
func Values(b arrow.RecordBatch) [][]any {
	rows := make([][]any, b.NumRows())
	for i := range rows {
		for _, c := range b.Columns() {
			rows[i] = append(rows[i], Value(c, i))
		}
	}
	return rows
}
