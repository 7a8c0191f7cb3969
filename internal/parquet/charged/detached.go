package charged

import (
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/release"
)

// NewDetached allocates memory with a reservation of its own, which ends when the memory is freed.
// Batches that share the memory have not reserved it, and may outlive the row group.
func (a *Account) NewDetached(under memory.Allocator, size int) (*memory.Buffer, error) {
	if err := a.Reserve(int64(size)); err != nil {
		return nil, err
	}
	out := memory.NewResizableBuffer(&detachedAllocator{Allocator: under, reserved: a.Detach(int64(size))})
	out.Resize(size)
	return out, nil
}

// detachedAllocator allocates one buffer, and gives the buffer's reserved bytes back when the
// buffer is freed.
type detachedAllocator struct {
	memory.Allocator
	reserved *release.Handle
}

// Free frees the buffer.
func (d *detachedAllocator) Free(b []byte) {
	d.Allocator.Free(b)
	d.reserved.Release()
}
