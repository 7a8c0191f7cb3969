package budget

import "github.com/apache/arrow-go/v18/arrow/memory"

// NewBuffer returns a buffer with the memory p, which is on the Go heap and charged to held. The
// buffer takes ownership of held: the last Release of the buffer releases it. So if an abandoned
// call still uses the memory, the memory stays charged.
func NewBuffer(p []byte, held *Reservation) *memory.Buffer {
	return memory.NewBufferWithAllocator(p, charged{memory.DefaultAllocator, held})
}

// charged is the allocator of a buffer that is charged to a reservation.
type charged struct {
	memory.Allocator
	held *Reservation
}

// Free implements memory.Allocator.
func (c charged) Free([]byte) { c.held.Release() }

// Lend calls use with p, which is on the Go heap and charged to r. If use fails, the caller must
// not use p again: its bytes no longer belong to r, and stay charged until the last reference to
// the buffer is released.
func (r *Reservation) Lend(p []byte, use func(*memory.Buffer) error) error {
	lent := r.Split(int64(len(p)))
	b := NewBuffer(p, lent)
	defer b.Release()
	err := use(b)
	if err == nil {
		r.held.Add(lent.held.Swap(0))
	}
	return err
}
