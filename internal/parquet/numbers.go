package parquet

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Numbers are the values of a column of 64-bit integers where the file lacks it, or has
// null: First in the file's first row, and Step more in each row after it.
type Numbers struct{ First, Step int64 }

// over returns a column with numbers in place of its nulls. Its rows begin with that
// number of the file.
func (n Numbers) over(column arrow.Array, row int64, mem memory.Allocator) (out arrow.Array, err error) {
	defer refused(&err)
	stored := column.(*array.Int64) //nolint:forcetypeassert // Read has seen to it
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
