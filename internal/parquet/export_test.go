package parquet

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// PageHeaders returns the start and end of each page header in a column chunk.
func PageHeaders(chunk []byte) ([][2]int, error) {
	var out [][2]int
	for t := (thrift{rest: chunk}); len(t.rest) > 0; {
		from := len(chunk) - len(t.rest)
		h, _, err := t.body()
		if err != nil {
			return nil, err
		}
		out = append(out, [2]int{from, len(chunk) - len(t.rest) - int(h.stored)})
	}
	return out, nil
}

// CheckPages walks the pages of all leaves of a file, as a reader does before decoding.
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

// Stored returns the stored bytes of columns in a row group, which are what Read reads
// except for small gaps. Ids that the file lacks are ignored.
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

// AwaitFetch waits until no read ahead is running.
func (r *Reader) AwaitFetch() {
	if r.ahead != nil {
		<-r.ahead.done
	}
}

// ToBinary converts fixed-size to variable-size bytes.
func ToBinary(fixed *array.FixedSizeBinary) (arrow.ArrayData, error) {
	conv := &conversion{want: arrow.BinaryTypes.Binary}
	return conv.toBinary(fixed.Data(), fixed.NullBitmapBytes(), memory.DefaultAllocator)
}

// ReadBeyond reads the first bytes of a file as the library does if a chunk is longer than in the
// footer.
func ReadBeyond(ctx context.Context, f *File, scratch memory.Allocator, length int) error {
	s := &source{ctx: ctx, file: f, scratch: &trackedAllocator{under: scratch, account: &account{}}}
	_, err := s.ReadAt(make([]byte, length), 0)
	return err
}
