package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// selection is the rows of one batch until it is cut. A range that is open pays for
// its batch at hand, and for the staging rows that its batches refer to. The
// selection pays for what it keeps beyond that.
type selection struct {
	runs     []run
	detached int                  // runs before this one keep nothing of a range that is not paid for
	ended    []array.RecordReader // ranges that stay open until the batch is cut
	memory   memory.Allocator
	requests *Requests // nil: no column refers to the rows of its own batch
	held     *budget.Reservation
	kept     batch.Retained // what held pays for
}

// run is consecutive rows of one batch of a range. It holds a reference.
type run struct {
	batch      arrow.RecordBatch
	from, rows int
	of         int      // rows of the batch that it is from
	origins    []origin // by column, once the run is detached; nil before
	begins     []int32  // rows of the run with which requests begin, where batches are grouped
}

// origin is where the staging rows of a detached run were copied from: those of
// several runs may be the same ones.
type origin struct {
	dictionary arrow.ArrayData // to be compared, not read; nil if nothing was copied
	references []int32         // into it, by row of the run
}

func newSelection(mem memory.Allocator, held *budget.Reservation, requests *Requests) *selection {
	return &selection{memory: mem, held: held, requests: requests, kept: batch.Retained{}}
}

func (s *selection) add(b arrow.RecordBatch, from, rows int) {
	b.Retain()
	s.runs = append(s.runs, run{batch: b, from: from, rows: rows, of: int(b.NumRows())})
}

// divide notes which of the rows last added requests begin with: those that do not go on.
func (s *selection) divide(ctx context.Context, goesOn []bool) error {
	x, requests := &s.runs[len(s.runs)-1], 0
	for _, on := range goesOn {
		if !on {
			requests++
		}
	}
	if err := s.pay(ctx, int64(requests*arrow.Int32SizeBytes)); err != nil {
		return err
	}
	x.begins = make([]int32, 0, requests)
	for row, on := range goesOn {
		if !on {
			x.begins = append(x.begins, int32(row))
		}
	}
	return nil
}

// has says whether the last rows that were added are of a batch.
func (s *selection) has(b arrow.RecordBatch) bool {
	return len(s.runs) > 0 && s.runs[len(s.runs)-1].batch == b
}

// pass pays for the last rows that were added, of a batch that their range is about to
// go on from.
func (s *selection) pass(ctx context.Context) error {
	g := batch.NewGatherer(s.memory)
	defer g.Release()
	return s.passRun(ctx, g, &s.runs[len(s.runs)-1])
}

// passRun pays for a run whose range goes on from its batch: also for the dictionary
// that is the batch's own rows, or for a copy of those that the run needs, where they
// are few.
func (s *selection) passRun(ctx context.Context, g *batch.Gatherer, x *run) error {
	if err := s.pay(ctx, s.kept.Add(x.batch.Columns())); err != nil || s.requests == nil {
		return err
	}
	return s.own(ctx, g, x, func(at int) bool { return at == s.requests.Index }, ownRows)
}

// passed pays for the dictionaries of a batch that the range no longer uses in
// its next one: they were made for that batch.
func (s *selection) passed(ctx context.Context, from, to arrow.RecordBatch) error {
	bytes := int64(0)
	for i, c := range from.Columns() {
		before, ok := c.(*array.Dictionary)
		if !ok || s.requests != nil && i == s.requests.Index {
			continue
		}
		if after, ok := to.Column(i).(*array.Dictionary); !ok || after.Data().Dictionary() != before.Data().Dictionary() {
			bytes += s.kept.Add([]arrow.Array{before.Dictionary()})
		}
	}
	return s.pay(ctx, bytes)
}

// next begins with the rows of another lane.
func (s *selection) next() { s.detached = len(s.runs) }

// detach makes the rows of a range that has ended independent of it, before the
// lane opens its next one: two build sides at a time would be one too many.
func (s *selection) detach(ctx context.Context) error {
	g := batch.NewGatherer(s.memory)
	defer g.Release()
	for ; s.detached < len(s.runs); s.detached++ {
		if err := s.detachRun(ctx, g, &s.runs[s.detached]); err != nil {
			return err
		}
	}
	return nil
}

func (s *selection) detachRun(ctx context.Context, g *batch.Gatherer, x *run) error {
	if err := s.passRun(ctx, g, x); err != nil {
		return err
	}
	return s.own(ctx, g, x, func(at int) bool { return s.requests == nil || at != s.requests.Index }, 1)
}

// ownRows is how much larger than a copy of its rows the dictionary that is a batch's
// own rows may be, and still be kept whole: it is given up soon, and would be copied
// twice.
const ownRows = 2

// own gives a run copies of the rows that it refers to in some dictionary columns, or
// pays for the dictionaries, where they take no more than so many times as much.
func (s *selection) own(ctx context.Context, g *batch.Gatherer, x *run, wanted func(at int) bool, most int64) error {
	columns, origins := make([]arrow.Array, 0, x.batch.NumCols()), make([]origin, x.batch.NumCols())
	copy(origins, x.origins)
	defer func() { release(columns) }()
	copied := false
	for i, c := range x.batch.Columns() {
		columns = append(columns, array.NewSlice(c, int64(x.from), int64(x.from+x.rows)))
		of, ok := columns[i].(*array.Dictionary)
		if !ok || !wanted(i) {
			continue
		}
		own, err := s.copyRows(ctx, g, of, most)
		if err != nil {
			return err
		}
		if own == nil {
			continue
		}
		if origins[i].dictionary == nil {
			origins[i] = origin{dictionary: of.Data().Dictionary(), references: append([]int32{}, of.Indices().(*array.Int32).Int32Values()...)}
		}
		of.Release()
		columns[i], copied = own, true
	}
	if copied {
		own := array.NewRecordBatch(x.batch.Schema(), columns, int64(x.rows))
		x.batch.Release()
		x.batch, x.from, x.origins = own, 0, origins
	}
	return nil
}

// copyRows copies the staging rows that a column refers to. It returns nil where
// all of the dictionary is no more than so many times that, and pays for it.
func (s *selection) copyRows(ctx context.Context, g *batch.Gatherer, of *array.Dictionary, most int64) (arrow.Array, error) {
	rows, at := distinctNeighbours(of.Indices().(*array.Int32).Int32Values())
	parts := []batch.Segment{{Values: of.Dictionary(), Indices: rows}}
	size, err := g.Size(of.Dictionary().DataType(), parts)
	if err != nil {
		return nil, err
	}
	references := int64(len(at)) * int64(arrow.Int32SizeBytes)
	whole := []arrow.Array{of.Dictionary()}
	if bytes := s.kept.Add(whole); bytes <= most*(size+references) {
		return nil, s.pay(ctx, bytes)
	}
	s.kept.Remove(whole)
	if err := s.pay(ctx, size+2*references); err != nil { // with those of the origin
		return nil, err
	}
	values, err := g.Gather(of.Dictionary().DataType(), parts)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	data := array.NewData(arrow.PrimitiveTypes.Int32, len(at), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(at))}, nil, 0, 0)
	defer data.Release()
	indices := array.NewInt32Data(data)
	defer indices.Release()
	return array.NewDictionaryArray(of.DataType(), indices, values), nil
}

// distinctNeighbours returns references without those that are as the one before,
// since rows of one request follow each other, and where each is then.
func distinctNeighbours(references []int32) (rows, at []int32) {
	at = make([]int32, len(references))
	for i, r := range references {
		if i == 0 || r != references[i-1] {
			rows = append(rows, r)
		}
		at[i] = int32(len(rows) - 1)
	}
	return rows, at
}

// pay pays for so many bytes.
func (s *selection) pay(ctx context.Context, bytes int64) error {
	return fewerRows(s.held.GrowWait(ctx, bytes))
}

// fewerRows says what helps where there is no memory for a batch.
func fewerRows(err error) error {
	if fault.KindOf(err) != fault.Exhausted {
		return err
	}
	return fault.As(err).WithRemedy("ask for fewer rows a batch with batch_rows or batch_requests, for fewer columns or lanes, or raise the server's memory budget")
}

func (s *selection) release() {
	for _, x := range s.runs {
		x.batch.Release()
	}
	releaseAll(s.ended)
	s.held.Release()
}
