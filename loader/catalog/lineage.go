package catalog

import "github.com/apache/arrow-go/v18/arrow"

// The reserved field ids of row lineage, from format version 3 on.
const (
	updatedID = 2147483539
	rowID     = 2147483540
)

// The columns of row lineage, which queries read by name.
const (
	UpdatedColumn = "_last_updated_sequence_number"
	RowIDColumn   = "_row_id"
)

// LineageFields returns the columns that every table of format version 3 has in addition to the
// columns of its schema.
func LineageFields() []Field {
	return []Field{
		{ID: rowID, Name: RowIDColumn, Type: arrow.PrimitiveTypes.Int64},
		{ID: updatedID, Name: UpdatedColumn, Type: arrow.PrimitiveTypes.Int64},
	}
}

// IsLineage reports whether a field id is that of a column of row lineage.
func IsLineage(id int) bool { return id == rowID || id == updatedID }

// LineageOf returns the values of a column of row lineage for the rows of f in which the file does
// not store this column: the value of row n is first plus n times step, counting rows from 0. It
// returns false if the values are null, because the file is older than the table's row lineage.
func (f File) LineageOf(id int) (first, step int64, known bool) {
	switch {
	case f.FirstRow == nil:
		return 0, 0, false
	case id == rowID:
		return *f.FirstRow, 1, true
	default:
		return f.Sequence, 0, true
	}
}
