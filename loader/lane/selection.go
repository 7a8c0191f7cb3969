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

// selection holds the rows of one batch until the batch is cut. Each open range has reserved its
// current batch, and the staging rows to which its batches refer. The selection reserves the other
// memory that it keeps.
type selection struct {
	runs     []run
	detached int                  // no run before this index keeps memory of a range that is not reserved
	ended    []array.RecordReader // ranges that stay open until the batch is cut
	memory   memory.Allocator
	requests *Requests // nil: no column refers to rows of the same batch
	held     *budget.Reservation
	kept     batch.Retained // the arrays whose memory is reserved in held
}

// run is consecutive rows of one batch of a range. It holds a reference to the batch.
type run struct {
	batch      arrow.RecordBatch
	from, rows int
	of         int      // the number of rows of the whole batch
	origins    []origin // for each column, if rows of some column's dictionary were copied; otherwise nil
	begins     []int32  // the rows of the run that begin requests; set only if batches are grouped
}

// origin identifies the staging rows from which the rows of a run's dictionary were copied. Several
// runs may have rows of the same original dictionary.
type origin struct {
	dictionary arrow.ArrayData // the original dictionary, which is only compared and not read; nil if no rows were copied
	references []int32         // for each row of the run: its reference to the original dictionary
}

func newSelection(mem memory.Allocator, held *budget.Reservation, requests *Requests) *selection {
	return &selection{memory: mem, held: held, requests: requests, kept: batch.Retained{}}
}

func (s *selection) add(b arrow.RecordBatch, from, rows int) {
	b.Retain()
	s.runs = append(s.runs, run{batch: b, from: from, rows: rows, of: int(b.NumRows())})
}

// divide records which of the rows added last begin requests. These are the rows that do not
// continue the request of the row before.
func (s *selection) divide(ctx context.Context, continues []bool) error {
	x, requests := &s.runs[len(s.runs)-1], 0
	for _, on := range continues {
		if !on {
			requests++
		}
	}
	if err := s.reserve(ctx, int64(requests*arrow.Int32SizeBytes)); err != nil {
		return err
	}
	x.begins = make([]int32, 0, requests)
	for row, on := range continues {
		if !on {
			x.begins = append(x.begins, int32(row))
		}
	}
	return nil
}

// has reports whether the rows added last are rows of the given batch.
func (s *selection) has(b arrow.RecordBatch) bool {
	return len(s.runs) > 0 && s.runs[len(s.runs)-1].batch == b
}

// reserveLast reserves the memory of the rows added last, before their range moves on to its next
// batch.
func (s *selection) reserveLast(ctx context.Context) error {
	g := batch.NewGatherer(s.memory)
	defer g.Release()
	return s.reserveRun(ctx, g, &s.runs[len(s.runs)-1])
}

// reserveRun reserves the memory of a run whose range moves on to its next batch. This includes the
// dictionary whose rows are those of the batch itself. If the run needs only few rows of that
// dictionary, it copies them instead.
func (s *selection) reserveRun(ctx context.Context, g *batch.Gatherer, x *run) error {
	if err := s.reserve(ctx, s.kept.Add(x.batch.Columns())); err != nil || s.requests == nil {
		return err
	}
	return s.own(ctx, g, x, func(at int) bool { return at == s.requests.Index }, ownRows)
}

// reserveDictionaries reserves the dictionaries of a batch, except those that the range's next
// batch uses too. The reserved ones were made for that one batch.
func (s *selection) reserveDictionaries(ctx context.Context, from, to arrow.RecordBatch) error {
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
	return s.reserve(ctx, bytes)
}

// next begins the rows of another lane.
func (s *selection) next() { s.detached = len(s.runs) }

// detach makes the rows of a range that has ended independent of that range, before the lane opens
// its next range. So at most one build side is held.
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
	if err := s.reserveRun(ctx, g, x); err != nil {
		return err
	}
	return s.own(ctx, g, x, func(at int) bool { return s.requests == nil || at != s.requests.Index }, 1)
}

// ownRows applies to a dictionary that consists of the rows of its own batch. It is kept whole if
// its size is at most ownRows times the size of a copy of the needed rows: the dictionary is
// released soon, and a copy would have to be copied once more when the batch is cut.
const ownRows = 2

// own makes a run independent of the dictionaries of its wanted columns. If a dictionary is at most
// maxRatio times as large as a copy of the rows to which the run refers, own reserves the
// dictionary and keeps it. Otherwise it replaces the dictionary by such a copy.
func (s *selection) own(ctx context.Context, g *batch.Gatherer, x *run, wanted func(at int) bool, maxRatio int64) error {
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
		own, err := s.copyRows(ctx, g, of, maxRatio)
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

// copyRows copies the staging rows to which a column refers. If the whole dictionary is at most
// maxRatio times as large as the copy, copyRows reserves the dictionary instead, and returns nil.
func (s *selection) copyRows(ctx context.Context, g *batch.Gatherer, of *array.Dictionary, maxRatio int64) (arrow.Array, error) {
	rows, at := distinctNeighbours(of.Indices().(*array.Int32).Int32Values())
	parts := []batch.Segment{{Values: of.Dictionary(), Indices: rows}}
	size, err := g.Size(of.Dictionary().DataType(), parts)
	if err != nil {
		return nil, err
	}
	references := int64(len(at)) * int64(arrow.Int32SizeBytes)
	whole := []arrow.Array{of.Dictionary()}
	if bytes := s.kept.Add(whole); bytes <= maxRatio*(size+references) {
		return nil, s.reserve(ctx, bytes)
	}
	s.kept.Remove(whole)
	if err := s.reserve(ctx, size+2*references); err != nil { // the size includes the references that origin keeps
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

// distinctNeighbours drops each reference that equals the reference before it, as is usual for rows
// of one request. It returns the remaining references, and for each original reference its position
// among them.
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

// reserve reserves memory.
func (s *selection) reserve(ctx context.Context, bytes int64) error {
	return fewerRows(s.held.GrowWait(ctx, bytes))
}

// fewerRows adds to an error the remedy for a batch that does not fit in memory.
func fewerRows(err error) error {
	if fault.KindOf(err) != fault.Exhausted {
		return err
	}
	return fault.As(err).WithRemedy("ask for fewer rows per batch with batch_rows or batch_requests, for fewer columns or lanes, or raise the server's memory budget")
}

func (s *selection) release() {
	for _, x := range s.runs {
		x.batch.Release()
	}
	batch.ReleaseAll(s.ended...)
	s.held.Release()
}
