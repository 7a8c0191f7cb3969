// Package blocks assembles the batches of one stream as blocks of tensors, in the ring of the client's
// session (docs/spec/local.md, docs/spec/blocks.md). The batches may come from a lane, or from another
// server.
package blocks

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/segment"
	"github.com/penstock/penstock/internal/tensor"
)

const (
	// maxPlan is the maximum size of a client's tensor plan, in bytes. Vocabularies are most of a plan.
	maxPlan = 64 << 20
	// maxExpanded is the maximum size of a block, in bytes, if its batch has indexed columns that the
	// block expands. Above it, the batch is much smaller than eight slots of this size.
	maxExpanded = 32 << 20
)

// Blocks assembles the batches of one stream. It is not safe for concurrent use.
type Blocks struct {
	// Cores fill the blocks; nil: the caller's goroutine fills them.
	Cores *cores.Cores

	session *local.Session
	lend    func(size int) *segment.Loan
	budget  *budget.Budget
	layout  *tensor.Layout
	held    *budget.Reservation // of the plan and its vocabularies
}

// Open reads the tensor plan of a session, for a stream of batches with a schema. lend lends the
// memory of rings. All other memory is reserved in memory. Open returns an error if the plan does not
// fit the schema. The caller closes the result.
func Open(session *local.Session, lend func(size int) *segment.Loan, memory *budget.Budget, schema *arrow.Schema) (*Blocks, error) {
	size, err := session.PlanSize()
	if err == nil && size > maxPlan {
		err = fault.New(fault.Invalid, "it has %d bytes, more than %d", size, maxPlan)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "read a tensor plan: %w", err)
	}
	b := &Blocks{session: session, lend: lend, budget: memory}
	if b.held, err = memory.Reserve("the tensor plan of a stream", size); err != nil {
		return nil, err
	}
	if err := b.read(schema, size); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// read reads the tensor plan, whose size is reserved, for batches with a schema.
func (b *Blocks) read(schema *arrow.Schema, size int64) error {
	text, err := b.session.Plan(size)
	if err != nil {
		return fault.New(fault.Invalid, "read a tensor plan: %w", err)
	}
	reading, result := tensor.PassedBytes(text)
	if err := b.held.Grow(reading); err != nil {
		return err
	}
	plan, err := tensor.ReadPassed(text)
	if err != nil {
		return err
	}
	b.held.Shrink(size + reading - result)
	b.layout, err = tensor.Compile(schema, plan)
	return err
}

// Close releases the memory of the plan. Close does nothing for nil.
func (b *Blocks) Close() {
	if b != nil {
		b.held.Release()
	}
}

// Deliver assembles a batch as a block, and delivers it with the text of the cursor after the batch
// and the step of this cursor. It returns the size of the block. If the size is 0, there is no free
// slot, or the expanded rows are too large. If the size is 0 or there is an error, the batch must be sent
// in another way.
func (b *Blocks) Deliver(from arrow.RecordBatch, cursor []byte, step int64) (bytes int64, err error) {
	sizes, err := b.layout.Size(from)
	if err != nil {
		return 0, err
	}
	if b.layout.Expands() && sizes.Bytes > maxExpanded {
		return 0, nil
	}
	scratch, err := b.budget.Reserve("the conversion of a batch", sizes.Scratch)
	if err != nil {
		return 0, err
	}
	defer scratch.Release()
	slot, ok := b.session.Slot(int(sizes.Bytes)+len(cursor), b.lend)
	if !ok {
		return 0, nil
	}
	if err := b.layout.Fill(from, sizes, slot.Memory()[:sizes.Bytes], b.Cores); err != nil {
		b.session.ReturnSlot(slot)
		return 0, err
	}
	copy(slot.Memory()[sizes.Bytes:], cursor)
	about := local.Block{Bytes: int(sizes.Bytes), Cursor: len(cursor), Rows: int(from.NumRows()), Step: step}
	if err := b.session.DeliverBlock(slot, about); err != nil {
		return 0, err
	}
	return sizes.Bytes, nil
}
