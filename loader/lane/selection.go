package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// selection is the rows of one batch until it is cut. A range pays for its batch
// at hand, and its build sides for their rows; a selection pays for the batches
// that their ranges have gone on from. It does not pay for the build sides of a
// range that ends within it, of which it keeps the rows as long.
type selection struct {
	runs []run
	held *budget.Reservation
	kept batch.Retained // what held pays for
}

// run is consecutive rows of one batch of a range. It holds a reference.
type run struct {
	batch      arrow.RecordBatch
	from, rows int
}

func (s *selection) add(b arrow.RecordBatch, from, rows int) {
	b.Retain()
	s.runs = append(s.runs, run{batch: b, from: from, rows: rows})
}

// has says whether the last rows that were added are of a batch.
func (s *selection) has(b arrow.RecordBatch) bool {
	return len(s.runs) > 0 && s.runs[len(s.runs)-1].batch == b
}

// pass pays for a batch that its range is about to go on from.
func (s *selection) pass(ctx context.Context, b arrow.RecordBatch) error {
	return s.pay(ctx, b.Columns())
}

// passed pays for the dictionaries of a batch that the range no longer uses in
// its next one: they were made for that batch.
func (s *selection) passed(ctx context.Context, from, to arrow.RecordBatch) error {
	var gone []arrow.Array
	for i, c := range from.Columns() {
		before, ok := c.(*array.Dictionary)
		if !ok {
			continue
		}
		if after, ok := to.Column(i).(*array.Dictionary); !ok || after.Data().Dictionary() != before.Data().Dictionary() {
			gone = append(gone, before.Dictionary())
		}
	}
	return s.pay(ctx, gone)
}

// pay pays for arrays, without their dictionaries: for each buffer once.
func (s *selection) pay(ctx context.Context, arrays []arrow.Array) error {
	if s.kept == nil {
		s.kept = batch.Retained{}
	}
	return fewerRows(s.held.GrowWait(ctx, s.kept.Add(arrays)))
}

// fewerRows says what helps where there is no memory for a batch.
func fewerRows(err error) error {
	if fault.KindOf(err) != fault.Exhausted {
		return err
	}
	return fault.As(err).WithRemedy("ask for fewer rows a batch with batch_rows, for fewer columns or lanes, or raise the server's memory budget")
}

func (s *selection) release() {
	for _, x := range s.runs {
		x.batch.Release()
	}
	s.held.Release()
}
