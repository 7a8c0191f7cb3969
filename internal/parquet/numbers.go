package parquet

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/parquet/charged"
)

// Numbers are the values of a 64-bit integer column in rows where it is null, or in all rows if the
// file lacks it. The value of the file's first row is First, and each row's value is Step more than
// the value of the row before.
type Numbers struct{ First, Step int64 }

// fill returns a column with its nulls replaced by Numbers. row is the number of the column's first
// row in the file.
func (n Numbers) fill(column arrow.Array, row int64, mem memory.Allocator) (out arrow.Array, err error) {
	defer charged.Refused(&err)
	stored := column.(*array.Int64) //nolint:forcetypeassert // Read checks the type
	values := memory.NewResizableBuffer(mem)
	defer values.Release()
	values.Resize(column.Len() * arrow.Int64SizeBytes)
	for i, numbers := 0, arrow.Int64Traits.CastFromBytes(values.Bytes()); i < len(numbers); i++ {
		if stored.IsValid(i) {
			numbers[i] = stored.Value(i)
		} else {
			numbers[i] = n.First + n.Step*(row+int64(i))
		}
	}
	data := array.NewData(column.DataType(), column.Len(), []*memory.Buffer{nil, values}, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}
