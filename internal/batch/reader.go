package batch

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/invariant"
)

// FromFunc returns a reader whose batches come from a function. next returns the next batch, or nil
// at the end. The reader owns the batch, and releases it on the following Next or Release. next is
// not called before the first Next, nor again after the end or an error. release, which may be nil,
// is called once, when the last reference to the reader is released. Retain and Release may be
// called from any goroutine, other methods from one at a time.
func FromFunc(schema *arrow.Schema, next func() (arrow.RecordBatch, error), release func()) array.RecordReader {
	r := &funcReader{schema: schema, next: next, release: release}
	r.refs.Store(1)
	return r
}

// FromFuncContext is FromFunc for a function that waits: each call of next gets ctx, the
// context of the whole read.
func FromFuncContext(ctx context.Context, schema *arrow.Schema, next func(context.Context) (arrow.RecordBatch, error), release func()) array.RecordReader {
	return FromFunc(schema, func() (arrow.RecordBatch, error) { return next(ctx) }, release)
}

type funcReader struct {
	refs    atomic.Int64
	schema  *arrow.Schema
	next    func() (arrow.RecordBatch, error) // nil after the end, an error or the last release
	release func()
	batch   arrow.RecordBatch // nil before the first Next and after the last
	err     error
}

func (r *funcReader) Retain() { r.refs.Add(1) }

func (r *funcReader) Release() {
	if r.refs.Add(-1) != 0 {
		return
	}
	r.releaseBatch()
	r.next = nil
	if r.release != nil {
		r.release()
	}
}

func (r *funcReader) Schema() *arrow.Schema { return r.schema }

func (r *funcReader) Next() bool {
	r.releaseBatch()
	if r.next == nil {
		return false
	}
	batch, err := r.next()
	if err != nil && batch != nil {
		batch.Release()
		batch = nil
	}
	if batch == nil {
		r.err, r.next = err, nil
		return false
	}
	r.batch = batch
	return true
}

func (r *funcReader) releaseBatch() {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
}

func (r *funcReader) RecordBatch() arrow.RecordBatch { return r.batch }

// Record does the same as RecordBatch, under the name that arrow-go used formerly.
func (r *funcReader) Record() arrow.RecordBatch { return r.batch }

func (r *funcReader) Err() error { return r.err }

// Guard returns a reader that, in invariant builds, asserts the contract between
// r and its consumer: no call follows the last Release, no Next follows an error,
// RecordBatch is called only after Next returned true, and every batch has the
// reader's schema, except for columns that are coded. In other builds it returns r. Guard takes ownership of the
// caller's reference: release the guard, not r.
func Guard(r array.RecordReader) array.RecordReader {
	if !invariant.On {
		return r
	}
	g := &guard{under: r}
	g.refs.Store(1)
	return g
}

type guard struct {
	under   array.RecordReader
	refs    atomic.Int64
	current bool // whether the last Next returned true
}

func (g *guard) open(call string) {
	invariant.Check(g.refs.Load() > 0, "%s after the last Release of a reader", call)
}

func (g *guard) Retain() {
	g.open("Retain")
	g.refs.Add(1)
}

func (g *guard) Release() {
	g.open("Release")
	if g.refs.Add(-1) == 0 {
		g.under.Release()
	}
}

func (g *guard) Schema() *arrow.Schema { return g.under.Schema() }

func (g *guard) Next() bool {
	g.open("Next")
	invariant.Check(g.under.Err() == nil, "Next after an error: %v", g.under.Err())
	g.current = g.under.Next()
	if g.current {
		got, want := g.under.RecordBatch().Schema(), g.under.Schema()
		invariant.Check(SameValues(got, want) || got.Equal(want), "a batch of schema %s in a stream of %s", got, want)
		invariant.Check(g.under.Err() == nil, "a batch and an error: %v", g.under.Err())
	}
	return g.current
}

func (g *guard) RecordBatch() arrow.RecordBatch {
	g.open("RecordBatch")
	invariant.Check(g.current, "RecordBatch without a Next that returned true")
	return g.under.RecordBatch()
}

// Record is arrow-go's former name of RecordBatch.
func (g *guard) Record() arrow.RecordBatch { return g.RecordBatch() }

func (g *guard) Err() error { return g.under.Err() }
