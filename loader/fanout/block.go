package fanout

import (
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/loader/stream"
)

// block is a step of a group's reader. Members take either the step's whole batch or views of the
// batch. Several goroutines use a block.
type block struct {
	*stream.Step
	group *readerGroup
	spec  batchSpec
	// readIn is the step of the stream that read the block; zero if that step is not traced.
	readIn trace.Link

	// Guarded by Sharer.mu.
	bytes   int64 // the memory of its batch and its views
	dropped bool  // it was removed from the window

	mu    sync.Mutex
	views map[viewKey]*keptView
	over  bool // the block was released: further views are not kept
}

// viewKey identifies a view of a block. The wire format is not part of the key, since members of a
// group that take the same columns have the same wire format.
type viewKey struct {
	columns  string // selectedColumns.id
	from, to int64
}

// chargedBatch is a batch whose reserved memory is known, and whose reservation several users can
// share. The batches that package lane returns are *batch.Charged.
type chargedBatch interface {
	Bytes() int64
	Share()
}

// newBlock returns a block. It takes ownership of the step's batch, and prepares it for use by
// several goroutines: it computes the null counts, which Arrow otherwise computes on first use, and
// stops counting the batch's memory against the share of one peer.
func newBlock(g *readerGroup, step *stream.Step, spec batchSpec) *block {
	b := &block{Step: step, group: g, spec: spec, views: map[viewKey]*keptView{}}
	if step.Batch == nil {
		return b
	}
	publish(step.Batch)
	if c, ok := step.Batch.(chargedBatch); ok {
		b.bytes = c.Bytes()
	}
	return b
}

func publish(b arrow.RecordBatch) {
	batch.CountNulls(b)
	if c, ok := b.(chargedBatch); ok {
		c.Share()
	}
}

// sliceFor returns the member's next step as a slice of the block. It returns false if the block
// does not contain that step.
func (b *block) sliceFor(m *groupMember) (stream.StepSlice, bool) {
	if b.End {
		return b.Whole(), true
	}
	if !b.spec.columns.contains(m.spec.columns) {
		return stream.StepSlice{}, false
	}
	slice, ok := b.SliceAt(m.at, m.spec.perLane)
	return slice, ok && (b.Batch != nil || !m.own.TakesAt(m.at.Step()))
}

// view returns a slice of the block's batch for a member. If several members need the same view,
// the first of them makes it, and the others wait. The caller must hold a reference to the block's
// batch, and releases the view.
func (b *block) view(m *groupMember, of stream.StepSlice) (arrow.RecordBatch, error) {
	key := viewKey{columns: m.spec.columns.id}
	key.from, key.to = of.Span()
	for {
		b.mu.Lock()
		kept := b.views[key]
		if kept == nil {
			kept = &keptView{made: make(chan struct{})}
			b.views[key] = kept
			b.mu.Unlock()
			return b.makeView(m, of, key, kept)
		}
		if kept.batch != nil {
			kept.batch.Retain()
			b.mu.Unlock()
			return kept.batch, nil
		}
		b.mu.Unlock()
		select {
		case <-kept.made:
		case <-m.ctx.Done():
			return nil, context.Cause(m.ctx)
		}
	}
}

// makeView makes a view, and keeps it unless the block was released in the meantime. It holds no
// lock while it waits for memory, because the memory may become free only when this block is
// released.
func (b *block) makeView(m *groupMember, of stream.StepSlice, key viewKey, kept *keptView) (made arrow.RecordBatch, err error) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if made != nil && !b.over {
			made.Retain()
			kept.batch = made
		} else {
			delete(b.views, key)
		}
		close(kept.made)
	}()
	if made, err = m.own.View(of); err == nil && made != b.Batch {
		publish(made)
		b.grow(made)
	}
	return made, err
}

// grow adds the memory that a view has in addition to the block's batch to the bytes of the block's
// window.
func (b *block) grow(view arrow.RecordBatch) {
	all, ok := view.(chargedBatch)
	base, also := b.Batch.(chargedBatch)
	if !ok || !also {
		return
	}
	s := b.group.sharer
	s.mu.Lock()
	defer s.mu.Unlock()
	if more := all.Bytes() - base.Bytes(); !b.dropped {
		b.bytes, b.group.bytes, s.bytes = b.bytes+more, b.group.bytes+more, s.bytes+more
	}
}

// keptView is a view that members share.
type keptView struct {
	made  chan struct{}     // closed when a member has made the view, or has failed
	batch arrow.RecordBatch // guarded by block.mu; nil: not made
}

// Release releases the block's batch and its views.
func (b *block) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.Batch == nil {
		return
	}
	b.over = true
	for key, one := range b.views {
		if one.batch != nil {
			one.batch.Release()
			delete(b.views, key)
		}
	}
	b.Batch.Release()
}

// countView counts a batch that a member received, if the batch is a view of a block's batch.
func (s *Sharer) countView(view bool) {
	if view {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.views++
	}
}
