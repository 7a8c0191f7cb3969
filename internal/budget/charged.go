package budget

import "github.com/apache/arrow-go/v18/arrow/memory"

// NewBuffer returns a buffer over p, memory of the garbage collector that is charged to held, of
// which it takes ownership: the last Release of the buffer releases held. So memory that a call
// still uses after its caller has left stays charged.
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

// Lend calls use with p, memory of the garbage collector that is charged to r. If use fails, the
// caller gives p up: its bytes are no longer those of r, and stay charged until the last reference
// to the buffer is released.
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
