package batch

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
)

// Charged is a batch that a budget pays for as long as somebody holds it, or a
// slice of it: the last Release gives the memory back, and then the charge. It
// is safe for concurrent use as other batches are.
type Charged struct {
	arrow.RecordBatch
	refs   atomic.Int64
	charge *charge
}

// charge is what a Charged and its slices have in common.
type charge struct {
	holders atomic.Int64
	held    *budget.Reservation
}

func (c *charge) drop() {
	if c.holders.Add(-1) == 0 {
		c.held.Release()
	}
}

// NewCharged takes a batch and a reservation over: the batch's one reference is
// the caller's as before, and the reservation ends with the last one.
func NewCharged(b arrow.RecordBatch, held *budget.Reservation) *Charged {
	c := &charge{held: held}
	return c.of(b)
}

// of makes one more holder of the charge.
func (c *charge) of(b arrow.RecordBatch) *Charged {
	c.holders.Add(1)
	out := &Charged{RecordBatch: b, charge: c}
	out.refs.Store(1)
	return out
}

// Bytes is what the budget pays.
func (c *Charged) Bytes() int64 { return c.charge.held.Held() }

// Lend says that the batch comes back by itself: the network has it, and nobody
// need do anything for its last Release.
func (c *Charged) Lend() { c.charge.held.Lend() }

// Stuck says that the network does not take the batch.
func (c *Charged) Stuck() { c.charge.held.Stuck() }

// Retain adds a reference.
func (c *Charged) Retain() {
	c.refs.Add(1)
	c.RecordBatch.Retain()
}

// Release drops a reference.
func (c *Charged) Release() {
	last := c.refs.Add(-1) == 0
	c.RecordBatch.Release()
	if last {
		c.charge.drop()
	}
}

// NewSlice returns rows [i, j) of the batch, which keep its charge.
func (c *Charged) NewSlice(i, j int64) arrow.RecordBatch {
	return c.charge.of(c.RecordBatch.NewSlice(i, j))
}
