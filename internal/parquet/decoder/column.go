package decoder

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/parquet/page"
)

// Column decodes a column of the open row group without the library.
type Column interface {
	// Read decodes the next rows, fewer only at the end of the column. The caller
	// releases the result.
	Read(rows int, mem memory.Allocator) (arrow.ArrayData, error)
	// Skip passes the next rows. It fails if the column ends before.
	Skip(rows int) error
	// Release frees the memory of the pages.
	Release()
}

// New returns the decoder of the chunk of a top-level column with one leaf, or nil if there is none. field is
// the column in the library, rows the number of its rows, and from has its pages.
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
