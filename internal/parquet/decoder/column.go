package decoder

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/parquet/page"
)

// Column decodes a column of the open row group without the library.
type Column interface {
	// Read decodes the next rows. It returns fewer rows than asked for only at the end of the
	// column. The caller releases the result.
	Read(rows int, mem memory.Allocator) (arrow.ArrayData, error)
	// Skip skips the next rows. It fails if the column has fewer rows left.
	Skip(rows int) error
	// Release frees the memory of the pages.
	Release()
}

// New returns a decoder for the chunk of a top-level column with one leaf, or nil if this package
// cannot decode the column. field is the library's field of the column, rows is the number of the
// column's rows, and from has the pages of the chunk.
func New(of *page.Chunk, field arrow.Field, rows int64, from *page.Reader) Column {
	if flat := newFlatColumn(of, field, from); flat != nil {
		return flat
	}
	if list := newListColumn(of, field, rows, from); list != nil {
		return list
	}
	if text := newByteArrayColumn(of, field, from); text != nil {
		return text
	}
	return nil
}
