package loader

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
)

// Reading says what does not belong to a plan's identity: which shard of it
// is read, from where, and in which form.
type Reading struct {
	Shard     dataset.Shard
	Columns   []dataset.Column // nil: all
	BatchRows int
	Tail      dataset.Tail
	Count     dataset.Count
	Wire      dataset.Wire
	Cursor    dataset.Cursors // empty: from the start
}

// ReadingOf returns the reading that a query describes, defaults set.
func ReadingOf(query dataset.Query) Reading {
	q := query.Defaults()
	return Reading{Shard: q.Shard, Columns: q.Columns, BatchRows: q.BatchRows, Tail: q.Tail, Count: q.Count, Wire: q.Wire, Cursor: q.Cursor}
}

// Open makes the stream of one shard of a plan. Nothing is read before the
// first Next. The caller releases the stream; cancelling ctx ends it.
func (l *Loader) Open(ctx context.Context, p *plan.Plan, r Reading) (Stream, error) {
	begun, err := begin(p, r)
	if err != nil {
		return nil, err
	}
	outputs, err := p.Relation.Select(r.Columns)
	if err != nil {
		return nil, err
	}
	if len(outputs) == 0 {
		return nil, fault.InvalidField("columns", "no column is asked for")
	}
	indexed, err := r.Wire.Indexed()
	if err != nil {
		return nil, err
	}
	schema, err := p.Relation.Schema(outputs, r.Wire)
	if err != nil {
		return nil, err
	}
	ctx, leave := l.options.Budget.Enter(ctx) // the stream may wait for memory
	opened, err := newRanges(ctx, l, p, outputs, begun.lanes)
	if err != nil {
		leave()
		return nil, err
	}
	columns, tables := opened.cut(indexed)
	closed := func() {
		opened.close()
		leave()
	}
	lanes := lane.New(ctx, lane.Options{
		Lanes: begun.lanes, Rows: begun.q, Steps: begun.stepsLeft(p, r.Tail),
		Schema: schema, Columns: columns, Indexed: tables, Open: opened.openRange, Closed: closed, Memory: l.options.Memory,
	})
	return &stream{Reader: lanes, plan: p, reading: r, start: begun, ranges: opened, indexed: tables}, nil
}
