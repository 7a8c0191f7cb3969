package foreign

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
)

// MatchColumns compares the schema of a file with the schema of the first file, and returns the
// position in the file of each of the first file's columns. The file's columns may have another
// order. If the file has other columns or types, MatchColumns returns Invalid.
func MatchColumns(first, schema *arrow.Schema, name string) ([]int, error) {
	differs := func(format string, args ...any) error {
		return fault.As(fault.New(fault.Invalid, format, args...).In("", name)).WithRemedy("stage files with other columns by a call of their own")
	}
	if schema.NumFields() != first.NumFields() {
		return nil, differs("%s has %s, the first file %d", name, fault.Count(schema.NumFields(), "column"), first.NumFields())
	}
	columns := make([]int, first.NumFields())
	for i, f := range first.Fields() {
		at := i
		if schema.Field(i).Name != f.Name {
			found := schema.FieldIndices(f.Name)
			if len(found) != 1 {
				return nil, differs("%s does not have column %q of the first file", name, f.Name)
			}
			at = found[0]
		}
		if have := schema.Field(at).Type; !arrow.TypeEqual(have, f.Type) {
			return nil, differs("column %q of %s has type %s, and in the first file %s", f.Name, name, have, f.Type)
		}
		columns[i] = at
	}
	return columns, nil
}

// Arrange returns a batch with its columns in the order of the first file, given the positions that
// MatchColumns returned. The caller releases it.
func Arrange(first *arrow.Schema, b arrow.RecordBatch, columns []int) arrow.RecordBatch {
	out := make([]arrow.Array, len(columns))
	for i, at := range columns {
		out[i] = b.Column(at)
	}
	return array.NewRecordBatch(first, out, b.NumRows())
}
