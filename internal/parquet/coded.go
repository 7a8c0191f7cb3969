package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/parquet/page"
	"github.com/penstock/penstock/internal/release"
)

// DefaultMinRepeats is the default of ReadOptions.MinRepeats: with fewer rows per value, the
// dictionary takes nearly as much memory as the rows, and merging it with others as much time as
// copying them.
const DefaultMinRepeats = 8

// mayCode reports whether a column of the open row group is decoded as codes, given its pages:
// all of them have indices, and values repeat.
func (r *Reader) mayCode(c column, pages *page.Stats) bool {
	return c.coded && !pages.HasValues && pages.Dictionary.Values > 0 && pages.Dictionary.Values*int64(r.opts.MinRepeats) <= r.group.left
}

// checked returns coded data, which needs no conversion, as an array.
func (conv *conversion) checked(coded arrow.ArrayData) (arrow.Array, error) {
	if conv.required && nullCount(coded) > 0 {
		return nil, fmt.Errorf("required column %s has nulls", conv.path)
	}
	return array.MakeFromData(coded), nil
}

// newDetached allocates memory that has an account of its own: batches that share it have not
// reserved it, and may outlive the row group.
func (r *Reader) newDetached(size int) (*memory.Buffer, error) {
	if err := r.account.Reserve(int64(size)); err != nil {
		return nil, err
	}
	out := memory.NewResizableBuffer(&detachedAllocator{Allocator: r.opts.Memory, reserved: r.account.Detach(int64(size))})
	out.Resize(size)
	return out, nil
}

// detachedAllocator allocates one buffer, and returns its reserved bytes when that is freed.
type detachedAllocator struct {
	memory.Allocator
	reserved *release.Handle
}

// Free frees the buffer.
func (d *detachedAllocator) Free(b []byte) {
	d.Allocator.Free(b)
	d.reserved.Release()
}
