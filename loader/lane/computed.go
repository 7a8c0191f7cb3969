package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/waits"
)

// Expression computes a column from other columns. It is safe for concurrent use.
type Expression interface {
	// Evaluate returns an array with a value for each row. All memory of the array and of its
	// computation comes from mem. The caller releases the array.
	Evaluate(columns arrow.RecordBatch, mem memory.Allocator) (arrow.Array, error)
	// Size returns an upper bound, in bytes, of the memory that Evaluate takes.
	Size(columns arrow.RecordBatch) int64
}

// computation evaluates the expressions of one batch, before the other columns are gathered. Each
// expression is evaluated once for each set of rows. The values remain valid until release.
type computation struct {
	ctx     context.Context //nolint:containedctx // of the call that makes the batch, within which the computation lives
	memory  memory.Allocator
	budget  *budget.Budget
	held    *budget.Reservation // for inputs and results; nil: nothing was computed yet
	inputs  []arrow.Array
	copied  int64 // bytes of those inputs that are copies
	results []arrow.Array
}

// rowSet is a set of rows for which columns are made: all rows of a batch, the distinct rows of an
// indexed column, or the first row of each request.
type rowSet struct {
	of      *computation
	rows    int64
	at      func(Column) []batch.Segment // the rows of a column of the ranges' batches
	inputs  map[Column]arrow.Array
	results map[*Made]arrow.Array
}

// rowsOf returns the rows of runs.
func (e *computation) rowsOf(runs []run) *rowSet {
	rows := int64(0)
	for _, x := range runs {
		rows += int64(x.rows)
	}
	return e.rows(func(c Column) []batch.Segment {
		segments := make([]batch.Segment, len(runs))
		for k, x := range runs {
			segments[k] = c.Segment(x.batch, x.from, x.rows)
		}
		return segments
	}, rows)
}

// distinct returns rows of structs, whose fields are the columns.
func (e *computation) distinct(of []batch.Segment) *rowSet {
	rows := int64(0)
	for _, s := range of {
		rows += int64(s.Len())
	}
	return e.rows(func(c Column) []batch.Segment {
		part := make([]batch.Segment, len(of))
		for i, s := range of {
			part[i] = batch.Segment{Values: s.Values.(*array.Struct).Field(c.Field), Indices: s.Indices}
		}
		return part
	}, rows)
}

// rows returns the set of the rows that a function selects.
func (e *computation) rows(at func(Column) []batch.Segment, rows int64) *rowSet {
	return &rowSet{of: e, rows: rows, at: at, inputs: map[Column]arrow.Array{}, results: map[*Made]arrow.Array{}}
}

// segments returns the segments of a column that is not packed.
func (s *rowSet) segments(c Column) ([]batch.Segment, error) {
	if c.Made == nil {
		return s.at(c), nil
	}
	values, err := s.values(c.Made)
	return []batch.Segment{{Values: values, Rows: int(s.rows)}}, err
}

// values returns the values of an expression. They belong to the computation.
func (s *rowSet) values(of *Made) (arrow.Array, error) {
	if known := s.results[of]; known != nil {
		return known, nil
	}
	columns := make([]arrow.Array, len(of.Columns))
	for i, c := range of.Columns {
		var err error
		if columns[i], err = s.input(c, of.Schema.Field(i)); err != nil {
			return nil, err
		}
	}
	b := array.NewRecordBatch(of.Schema, columns, s.rows)
	defer b.Release()
	out, err := s.of.evaluate(of.Expression, b)
	if err == nil {
		s.results[of] = out
	}
	return out, err
}

// input returns a column that an expression names, as an array of the field's type. The array
// belongs to the computation. It is a part of a range's batch, or a copy of parts.
func (s *rowSet) input(c Column, field arrow.Field) (arrow.Array, error) {
	if c.Made != nil {
		return s.values(c.Made)
	}
	if known := s.inputs[c]; known != nil {
		return known, nil
	}
	segments := s.at(c)
	var input arrow.Array
	if one := segments[0]; len(segments) == 1 && one.Indices == nil && arrow.TypeEqual(one.Values.DataType(), field.Type) {
		input = array.NewSlice(one.Values, int64(one.From), int64(one.From+one.Rows))
	} else {
		g := batch.NewGatherer(s.of.memory)
		defer g.Release()
		bytes, err := g.Size(field.Type, segments)
		if err == nil {
			err = s.of.grow(bytes)
		}
		if err == nil {
			s.of.copied += bytes
			input, err = g.Gather(field.Type, segments)
		}
		if err != nil {
			return nil, fault.Op(err, "gather column %q", field.Name)
		}
	}
	s.inputs[c] = input
	s.of.inputs = append(s.of.inputs, input)
	return input, nil
}

// evaluate returns the values of an expression, whose memory is reserved before.
func (e *computation) evaluate(x Expression, columns arrow.RecordBatch) (arrow.Array, error) {
	most := x.Size(columns)
	if err := e.grow(most); err != nil {
		return nil, err
	}
	end := waits.Begin(e.ctx, waits.Compute)
	out, err := x.Evaluate(columns, e.memory)
	end()
	if err != nil {
		return nil, err
	}
	e.results = append(e.results, out)
	bytes := batch.ArraySize(out)
	if bytes > most { // the allocator rounds sizes up
		return out, e.grow(bytes - most)
	}
	e.held.Shrink(most - bytes)
	return out, nil
}

func (e *computation) grow(bytes int64) (err error) {
	if e.held == nil {
		if e.held, err = e.budget.ReserveFor(e.ctx, "the computed columns of a batch", 0); err != nil {
			return err
		}
	}
	return fewerRows(e.held.GrowWait(e.ctx, bytes))
}

// releaseInputs releases the columns that expressions name, but not the results. No expression is
// evaluated after it.
func (e *computation) releaseInputs() {
	release(e.inputs)
	if e.held != nil {
		e.held.Shrink(e.copied)
	}
	e.inputs, e.copied = nil, 0
}

// release releases everything that the computation holds.
func (e *computation) release() {
	release(e.inputs)
	release(e.results)
	if e.held != nil {
		e.held.Release()
	}
}

// computed is a column of the result, or a field of such a column, whose values were computed.
type computed struct {
	field  arrow.Field
	values arrow.Array // of the computation
}

func (c *computed) size(*batch.Gatherer) (int64, error) { return batch.ArraySize(c.values), nil }

func (c *computed) column(*batch.Gatherer) (arrow.Array, error) {
	c.values.Retain()
	return required(c.field, c.values)
}

func (*computed) release() {}
