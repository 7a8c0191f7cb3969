package flight

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/tensor"
	"github.com/penstock/penstock/loader/dataset"
)

const (
	// maxTensorPlan is the maximum size of a client's tensor plan, in bytes. Vocabularies are most of
	// a plan.
	maxTensorPlan = 64 << 20
	// planMemory is how many times the bytes of its text a plan takes while it is read. Most of it
	// are the texts of vocabularies: as decoded, and with the overhead of slices.
	planMemory = 8
)

// blocks assembles the batches of one stream in the ring of its session.
type blocks struct {
	layout *tensor.Layout
	budget *budget.Budget
	held   *budget.Reservation // of vocabularies
}

// forBlocks returns the query of a stream whose session takes blocks. Of the forms of batches, the
// plain one is nearest to a block, so it replaces a choice that is left to the server, unless its
// batches may be too large.
func (p planned) forBlocks(session *local.Session) planned {
	if !session.TakesBlocks() || !p.Query.Wire.Auto() {
		return p
	}
	if int64(p.BatchRows)*p.ExpectedBytes(p.Outputs) <= maxPlainBlock {
		p.Query.Wire = dataset.WirePlain
	}
	return p
}

// maxPlainBlock is the maximum expected size of a batch that becomes a block, in bytes, if its
// smaller form could be sent instead.
const maxPlainBlock = 32 << 20

// openBlocks returns the blocks of a stream with a schema, or nil if its client does not accept
// blocks, or if the plan cannot be used: batches are then sent instead. The caller calls close.
func (o *streamSender) openBlocks(ctx context.Context, schema *arrow.Schema) *blocks {
	if !o.session.TakesBlocks() {
		return nil
	}
	b := &blocks{budget: o.options.Budget}
	if err := b.open(o.session, schema); err != nil {
		b.close()
		o.log.InfoContext(ctx, "the stream sends batches instead of blocks", "error", err)
		return nil
	}
	return b
}

func (b *blocks) open(session *local.Session, schema *arrow.Schema) error {
	text, err := session.Plan(maxTensorPlan)
	if err != nil {
		return fault.New(fault.Invalid, "read a tensor plan: %w", err)
	}
	if b.held, err = b.budget.Reserve("the tensor plan of a stream", planMemory*int64(len(text))); err != nil {
		return err
	}
	plan, err := tensor.ReadPassed(text)
	if err != nil {
		return err
	}
	b.layout, err = tensor.Compile(schema, plan)
	return err
}

// close releases the memory of the plan.
func (b *blocks) close() {
	if b != nil && b.held != nil {
		b.held.Release()
	}
}

// deliverBlock delivers a batch as a block. It reports whether it did: without a free slot, without
// memory, or if the plan refuses a value, the batch must be sent as it is, and the client converts it
// or reports the mistake.
func (o *streamSender) deliverBlock(ctx context.Context, b arrow.RecordBatch) (bool, error) {
	if o.blocks == nil || !o.session.Takes() {
		return false, nil
	}
	if err := o.stream.waiting(func() error { return o.session.Wait(ctx) }); err != nil {
		return false, err
	}
	bytes, err := o.assemble(b)
	if err != nil {
		o.log.DebugContext(ctx, "a batch was not delivered as a block", "step", o.cursor.Step, "error", err)
		return false, nil
	}
	o.mappedBytes += bytes
	return bytes > 0, nil
}

// assemble assembles a batch as a block, and delivers it. It returns 0 if there is no free slot.
func (o *streamSender) assemble(b arrow.RecordBatch) (bytes int64, err error) {
	layout := o.blocks.layout
	sizes, err := layout.Size(b)
	if err != nil {
		return 0, err
	}
	scratch, err := o.blocks.budget.Reserve("the conversion of a batch", sizes.Scratch)
	if err != nil {
		return 0, err
	}
	defer scratch.Release()
	cursor := o.cursor.Text(&o.planText)
	slot, ok := o.session.Slot(int(sizes.Bytes)+len(cursor), o.options.Local.LendRing)
	if !ok {
		return 0, nil
	}
	if err := layout.Fill(b, sizes, slot.Memory()[:sizes.Bytes]); err != nil {
		o.session.ReturnSlot(slot)
		return 0, err
	}
	copy(slot.Memory()[sizes.Bytes:], cursor)
	about := local.Block{Bytes: int(sizes.Bytes), Cursor: len(cursor), Rows: int(b.NumRows()), Step: o.cursor.Step}
	if err := o.session.DeliverBlock(slot, about); err != nil {
		return 0, err
	}
	return sizes.Bytes, nil
}
