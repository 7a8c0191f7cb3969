package parquet

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// PageHeaders returns where the headers of a column chunk's pages lie in it:
// pairs of beginnings and ends.
func PageHeaders(chunk []byte) ([][2]int, error) {
	var out [][2]int
	for t := (thrift{rest: chunk}); len(t.rest) > 0; {
		from := len(chunk) - len(t.rest)
		h, _, err := t.body()
		if err != nil {
			return nil, err
		}
		out = append(out, [2]int{from, len(chunk) - len(t.rest) - int(h.size)})
	}
	return out, nil
}

// CheckPages follows the pages of all leaves of a file's content, as a reader
// does before it decodes them.
func CheckPages(f *File, content []byte) error {
	for group := range f.meta.RowGroups {
		for leaf := range f.meta.RowGroups[group].Columns {
			span := f.chunkSpan(group, leaf)
			if _, err := f.checkPages(group, leaf, content[span.start:span.start+span.length], false); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stored sums the stored bytes of the named columns in a row group: what Read
// asks storage for, save for small gaps. Ids that the file lacks count nothing.
func (f *Footer) Stored(rowGroup int, ids []int) int64 {
	var sum int64
	for _, id := range ids {
		field, _ := f.Field(id)
		for _, leaf := range field.Leaves {
			_, length := f.chunkRange(rowGroup, leaf)
			sum += length
		}
	}
	return sum
}

// AwaitFetch waits until nothing is read ahead any more.
func (r *Reader) AwaitFetch() {
	if r.ahead != nil {
		<-r.ahead.done
	}
}

// AnyWidth makes bytes of any width of an array of one.
func AnyWidth(fixed *array.FixedSizeBinary) (arrow.ArrayData, error) {
	s := &shape{want: arrow.BinaryTypes.Binary}
	return s.anyWidth(fixed.Data(), fixed.NullBitmapBytes(), memory.DefaultAllocator)
}
