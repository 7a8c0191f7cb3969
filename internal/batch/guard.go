package batch

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/invariant"
)

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
