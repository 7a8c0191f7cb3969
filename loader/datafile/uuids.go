package datafile

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// readsAsUUIDs reports whether texts of the input become UUIDs of a column of the table. DuckDB sends its UUIDs as texts.
func readsAsUUIDs(from arrow.DataType, f catalog.Field) bool {
	switch from.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return isUUIDColumn(f)
	}
	return false
}

// isUUIDColumn reports whether the type of a column of the table is uuid.
func isUUIDColumn(f catalog.Field) bool { return f.Declared != nil && !arrow.IsNested(f.Type.ID()) }

// uuidsOf returns the UUIDs that texts stand for, with memory from mem. It returns Invalid for a text that is not the 36 characters
// of a UUID.
func uuidsOf(texts arrow.Array, to *arrow.FixedSizeBinaryType, mem memory.Allocator) (arrow.Array, error) {
	out := array.NewFixedSizeBinaryBuilder(mem, to)
	defer out.Release()
	out.Reserve(texts.Len())
	values, ok := texts.(array.StringLike)
	if !ok {
		return nil, fault.New(fault.Internal, "columns of type %s are no texts", texts.DataType())
	}
	for i := range values.Len() {
		if values.IsNull(i) {
			out.AppendNull()
			continue
		}
		id, err := uuid.Parse(values.Value(i))
		if err != nil || len(values.Value(i)) != len(id.String()) { // the library accepts other forms
			return nil, fault.New(fault.Invalid, "the text %q is not a UUID such as 795b929e-9a9a-80fd-ea7b-5bf55eb561a4", fault.Shorten(values.Value(i), maxShownText)).
				WithRemedy("correct the text, or leave the row out")
		}
		out.Append(id[:])
	}
	return out.NewArray(), nil
}

// maxShownText is the maximum number of characters of a text in an error.
const maxShownText = 60
