package flight

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/flight/blocks"
)

// openBlocks returns the blocks of a stream with a schema, or nil if its client does not accept
// blocks, or if the plan cannot be used: batches are then sent instead. The caller calls Close.
func (o *streamSender) openBlocks(ctx context.Context, schema *arrow.Schema) *blocks.Blocks {
	if !o.session.TakesBlocks() {
		return nil
	}
	b, err := blocks.Open(o.session, o.options.Local.LendRing, o.options.Budget, schema)
	if err != nil {
		o.log.InfoContext(ctx, "the stream sends batches instead of blocks", "error", err)
		return nil
	}
	b.Cores = o.options.Cores
	return b
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
	bytes, err := o.blocks.Deliver(b, o.cursor.Text(&o.planText), o.cursor.Step)
	if err != nil {
		o.log.DebugContext(ctx, "a batch was not delivered as a block", "step", o.cursor.Step, "error", err)
		return false, nil
	}
	o.mappedBytes += bytes
	return bytes > 0, nil
}
