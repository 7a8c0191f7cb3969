package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// cutter makes batches of one layout, which its options contain.
type cutter struct {
	options  *Options
	distinct []distinctRows // one element for each indexed column
}

// newCutter returns a cutter for the current layout of the options.
func newCutter(options *Options) cutter {
	ct := cutter{options: options, distinct: make([]distinctRows, len(options.Indexed))}
	for i, x := range options.Indexed {
		ct.distinct[i].requests = ct.requestRows(x)
	}
	return ct
}

// requestRows returns nil unless the indexed column has one row for each request.
func (ct *cutter) requestRows(of IndexedColumn) *requestRows {
	if ct.options.Requests == nil || of.Index != ct.options.Requests.Index {
		return nil
	}
	return newRequestRows(ct.options.Requests, of.Columns)
}

// cut gathers one batch. Its size is known from offsets and widths, and reserved, before
// the first value is copied.
func (ct *cutter) cut(ctx context.Context, of *pendingStep) (arrow.RecordBatch, error) {
	held, err := ct.options.Budget.ReserveFor(ctx, "a batch", 0)
	if err != nil {
		return nil, err
	}
	b, spare, err := ct.gatherBatch(ctx, of.runs, of.rows, func(bytes int64) error {
		if limit := ct.options.MaxBytes; limit > 0 && held.Held()+bytes > limit {
			return ct.tooLarge(of.rowCount, held.Held()+bytes)
		}
		return fewerRows(held.GrowWait(ctx, bytes))
	})
	if err != nil {
		held.Release()
		return nil, err
	}
	held.Shrink(spare)
	return batch.NewCharged(b, held), nil
}

// gatherBatch is like cut, for a given function that reserves memory. It also returns how many of
// the reserved bytes were not used.
func (ct *cutter) gatherBatch(ctx context.Context, runs []run, rows int64, reserve func(bytes int64) error) (b arrow.RecordBatch, spare int64, err error) {
	g := batch.NewGatherer(ct.options.Memory)
	defer g.Release()
	computed := computation{ctx: ctx, memory: ct.options.Memory, budget: ct.options.Budget}
	defer computed.release()
	made, rows, err := ct.reserveSources(&computed, runs, rows, reserve)
	defer func() {
		for _, c := range made {
			c.release()
		}
	}()
	computed.releaseInputs()
	if err != nil {
		return nil, 0, err
	}
	bytes := sharedBytes(made)
	for _, c := range made {
		n, err := c.size(g)
		if err != nil {
			return nil, 0, err
		}
		bytes += n
	}
	if err := reserve(bytes); err != nil {
		return nil, 0, err
	}
	besides, err := ct.options.Budget.ReserveFor(ctx, "the codes of a batch", 0)
	if err != nil {
		return nil, 0, err
	}
	defer besides.Release()
	if err := fewerRows(besides.GrowWait(ctx, working(made))); err != nil {
		return nil, 0, err
	}
	columns := make([]arrow.Array, 0, len(made))
	defer func() { release(columns) }()
	g.Defer()
	for _, c := range made {
		column, err := c.column(g)
		if err != nil {
			return nil, 0, err
		}
		columns = append(columns, column)
	}
	if err := g.Complete(ct.options.Cores); err != nil {
		return nil, 0, err
	}
	return array.NewRecordBatch(ct.options.Schema, columns, rows), unused(made), nil
}

// reserveSources reserves the memory of the sources of a batch's columns, and returns the sources
// and the batch's number of rows. The caller releases the sources, even after an error.
func (ct *cutter) reserveSources(e *computation, runs []run, rows int64, reserve func(bytes int64) error) ([]source, int64, error) {
	if ct.options.Grouped != nil {
		return ct.groupedSources(e, runs, rows, reserve)
	}
	if err := reserve(ct.indexedBytes(ct.options.Indexed, rows)); err != nil {
		return nil, 0, err
	}
	made, err := ct.sources(e, runs, int(rows))
	return made, rows, err
}

// tooLarge returns the error for a batch that is larger than MaxBytes. The error says how many
// rows, or requests, would fit.
func (ct *cutter) tooLarge(of rowCount, bytes int64) error {
	lanes := int64(len(ct.options.Lanes))
	// The suggestion leaves a quarter of the limit free, since later rows may be larger.
	fit := int64(float64(of.counted)*float64(ct.options.MaxBytes)/float64(bytes)*3/4) / lanes * lanes
	err := fault.New(fault.Exhausted, "a batch of %s takes %d bytes, more than the limit of %d (max_batch_bytes)", fault.Count(of.rows, "row"), bytes, ct.options.MaxBytes)
	if fit == 0 {
		return err.WithRemedy("ask for fewer columns or fewer lanes in a shard, or raise max_batch_bytes")
	}
	return err.WithRemedy("ask for %s of at most %d, or for fewer columns, or raise max_batch_bytes",
		ct.options.SizedBy.Field, fit*int64(ct.options.SizedBy.Batches))
}

// source makes one column of the current batch.
type source interface {
	// size returns the bytes that the method column will take.
	size(g *batch.Gatherer) (int64, error)
	// column returns the column, which the caller releases.
	column(g *batch.Gatherer) (arrow.Array, error)
	release()
}

// sources returns the sources of a batch's columns. The caller releases them, even after an error.
func (ct *cutter) sources(e *computation, runs []run, rows int) ([]source, error) {
	out := make([]source, 0, ct.options.Schema.NumFields())
	plain, indexed, all := ct.options.Columns, ct.options.Indexed, e.rowsOf(runs)
	for _, field := range ct.options.Schema.Fields() {
		number := len(ct.options.Indexed) - len(indexed)
		if len(indexed) == 0 || indexed[0].At != len(out) {
			one, err := ct.plain(plain[0], field, all, runs)
			if err != nil {
				return out, err
			}
			out, plain = append(out, one), plain[1:]
			continue
		}
		x, err := ct.index(indexed[0], &ct.distinct[number], runs, rows)
		if err != nil {
			return out, err
		}
		out = append(out, x)
		if err := x.gather(field, indexed[0], e.distinct(ct.distinct[number].end())); err != nil {
			return out, err
		}
		indexed = indexed[1:]
	}
	return out, nil
}

// plain returns the source of a column that is not indexed.
func (ct *cutter) plain(c Column, field arrow.Field, all *rowSet, runs []run) (source, error) {
	if field.Type.ID() == arrow.DICTIONARY {
		segments, err := all.segments(c)
		return &category{gathered: gathered{field: field, segments: segments}}, err
	}
	if values := ct.shared(c, runs); values != nil {
		return &sharing{field: field, values: values}, nil
	}
	return c.source(field, all)
}

// source returns the source of the column for some rows.
func (c Column) source(field arrow.Field, of *rowSet) (source, error) {
	switch {
	case c.Made == nil:
		segments, err := of.segments(c)
		return &gathered{field: field, segments: segments}, err
	case c.Made.Expression != nil:
		values, err := of.values(c.Made)
		return &computed{field: field, values: values}, err
	}
	p := &packed{field: field, of: c.Made}
	for _, one := range c.Made.Columns {
		segments, err := of.segments(one)
		if err != nil {
			return p, err
		}
		p.segments = append(p.segments, segments)
	}
	return p, nil
}

// sharing is a column that is a slice of one batch of a range. The result keeps the memory of that
// batch in use.
type sharing struct {
	field  arrow.Field
	values arrow.Array
}

// shared returns the column's values if they can be used without a copy. That is so if they are a
// slice of one batch with at least half of the batch's rows, so that keeping the whole batch in
// memory is justified. The caller releases the result. nil means that the column must be copied.
func (ct *cutter) shared(c Column, runs []run) arrow.Array {
	if len(runs) != 1 || c.Made != nil || 2*runs[0].rows < runs[0].of {
		return nil
	}
	x, column := runs[0], runs[0].batch.Column(c.Index)
	if c.Field == Plain {
		return array.NewSlice(column, int64(x.from), int64(x.from+x.rows))
	}
	if ct.options.Requests == nil || c.Index != ct.options.Requests.Index {
		return nil
	}
	own := column.(*array.Dictionary)
	rows := own.Indices().(*array.Int32).Int32Values()[x.from : x.from+x.rows]
	for i, row := range rows {
		if row != rows[0]+int32(i) {
			return nil
		}
	}
	return array.NewSlice(own.Dictionary().(*array.Struct).Field(c.Field), int64(rows[0]), int64(rows[0])+int64(x.rows))
}

// sharedBytes returns the size of the batches whose memory the shared columns keep in use.
func sharedBytes(of []source) int64 {
	var columns []arrow.Array
	for _, c := range of {
		if l, ok := c.(*listed); ok {
			c = l.items
		}
		if s, ok := c.(*sharing); ok {
			columns = append(columns, s.values)
		}
	}
	return batch.ArraySize(columns...)
}

func (*sharing) size(*batch.Gatherer) (int64, error) { return 0, nil }

func (s *sharing) column(*batch.Gatherer) (arrow.Array, error) {
	s.values.Retain()
	return required(s.field, s.values)
}

func (s *sharing) release() { s.values.Release() }

// gathered is a column of the result, or a field of such a column, whose values are copied.
type gathered struct {
	field    arrow.Field
	segments []batch.Segment
}

func (c *gathered) size(g *batch.Gatherer) (int64, error) {
	bytes, err := g.Size(c.field.Type, c.segments)
	return bytes, fault.Op(err, "gather column %q", c.field.Name)
}

func (c *gathered) column(g *batch.Gatherer) (arrow.Array, error) {
	values, err := g.Gather(c.field.Type, c.segments)
	if err != nil {
		return nil, fault.Op(err, "gather column %q", c.field.Name)
	}
	return required(c.field, values)
}

func (*gathered) release() {}

// required returns the column, or an error if the column has nulls and its field does not allow
// nulls.
func required(field arrow.Field, column arrow.Array) (arrow.Array, error) {
	if nulls := column.NullN(); nulls > 0 && !field.Nullable {
		column.Release()
		return nil, fault.New(fault.Corrupt, "column %q is required and has %d nulls", field.Name, nulls)
	}
	return column, nil
}

func release(arrays []arrow.Array) {
	for _, a := range arrays {
		a.Release()
	}
}
