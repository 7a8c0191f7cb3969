package spill

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// partition says how a stream is divided. One goroutine uses it.
type partition interface {
	// begin sees the stream's schema before any row. It returns the positions of
	// the columns that are kept.
	begin(schema *arrow.Schema) ([]int, error)
	// assign writes which part each row of a batch belongs to, or a negative
	// number for a row of no part.
	assign(b arrow.RecordBatch, parts []int32) error
}

// partWriter is a stream on its way into parts. Rows wait in memory, in the
// batches of the stream, until there are many; then they are written part after
// part. Whatever waits is reserved, save the last batch before it is written,
// which the stream holds anyway.
type partWriter struct {
	in       joiner.Input
	by       partition
	opts     Options
	mostRows int64 // of a stored batch; 0: as its bytes allow

	columns   []int // that are kept
	out       *Parts
	held      *budget.Reservation
	kept      batch.Retained // what the columns of waiting batches keep
	mostBytes int64          // that wait
	bytes     int64          // that do wait
	rows      int64          // that do wait
	waiting   []waitingBatch
}

// waitingBatch is a batch whose rows are to be written.
type waitingBatch struct {
	columns []arrow.Array // those that are kept, then the rows' numbers
	rows    []int32       // the rows, part after part
	ends    []int32       // where each part ends in rows
}

// rowOverhead is the bytes of a waiting row beside its columns: its number in
// the stream, its part, and its place in rows.
const rowOverhead = 8 + 4 + 4

// write reads the stream and writes it in so many parts. The caller releases
// them; after an error nothing is held.
func (w *partWriter) write(ctx context.Context, parts int) (*Parts, error) {
	held, err := w.opts.Budget.Reserve(rowsOnDisk, 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	store, err := w.opts.Disk(rowsOnDisk)
	if err != nil {
		return nil, err
	}
	w.held, w.kept, w.mostBytes = held, batch.Retained{}, w.opts.workingMemory()/2
	w.out = &Parts{in: w.in, store: store, parts: make([]batchList, parts), opts: w.opts}
	w.out.in.Open = nil // parts may live longer than the stream that opened their rows
	w.out.refs.Store(1)
	err = w.in.ReadAll(ctx, w.begin, func(b arrow.RecordBatch) error { return w.add(ctx, b) })
	if err == nil {
		err = w.flush(ctx)
	}
	if err != nil {
		w.dropWaiting()
		store.Release()
		return nil, err
	}
	return w.out, nil
}

func (w *partWriter) begin(schema *arrow.Schema) error {
	columns, err := w.by.begin(schema)
	if err != nil {
		return err
	}
	w.columns = columns
	fields := make([]arrow.Field, 0, len(columns)+1)
	for _, at := range columns {
		fields = append(fields, schema.Field(at))
	}
	w.out.schema = arrow.NewSchema(append(fields, arrow.Field{Type: arrow.PrimitiveTypes.Int64}), nil)
	return nil
}

// add puts the rows of a batch among those that wait, and writes them all when
// they are many, when there is no room for more, or when somebody waits for room: it
// may be the reader of the next batch.
func (w *partWriter) add(ctx context.Context, b arrow.RecordBatch) error {
	overhead := b.NumRows() * rowOverhead
	if err := w.held.GrowWait(ctx, overhead); err != nil {
		return err
	}
	var x waitingBatch
	for _, at := range w.columns {
		x.columns = append(x.columns, b.Column(at))
	}
	more := w.kept.Add(x.columns)
	w.bytes += overhead + more
	w.rows += b.NumRows()
	full := w.bytes >= w.mostBytes || w.held.Grow(more) != nil || w.opts.Budget.Waited()
	for _, c := range x.columns {
		c.Retain()
	}
	x.columns = append(x.columns, w.rowNumbers(int(b.NumRows())))
	w.waiting = append(w.waiting, x)
	if err := w.assign(&w.waiting[len(w.waiting)-1], b); err != nil {
		return err
	}
	w.out.rows += b.NumRows()
	if !full {
		return nil
	}
	return w.flush(ctx)
}

// rowNumbers makes the column of the next rows' numbers in the stream.
func (w *partWriter) rowNumbers(rows int) arrow.Array {
	buffer := memory.NewResizableBuffer(w.opts.allocator())
	defer buffer.Release()
	buffer.Resize(arrow.Int64Traits.BytesRequired(rows))
	values := arrow.Int64Traits.CastFromBytes(buffer.Bytes())
	for i := range values {
		values[i] = w.out.rows + int64(i)
	}
	made := array.NewData(arrow.PrimitiveTypes.Int64, rows, []*memory.Buffer{nil, buffer}, nil, 0, 0)
	defer made.Release()
	return array.NewInt64Data(made)
}

// assign asks for the rows' parts and lists the rows part after part.
func (w *partWriter) assign(x *waitingBatch, b arrow.RecordBatch) error {
	to := make([]int32, b.NumRows())
	if err := w.by.assign(b, to); err != nil {
		return err
	}
	parts := int32(len(w.out.parts))
	ends := make([]int32, parts+1)
	for _, p := range to {
		if p >= parts {
			return fault.New(fault.Internal, "a row of part %d where there are %d", p, parts)
		}
		if p >= 0 {
			ends[p+1]++
		}
	}
	for p := range parts {
		ends[p+1] += ends[p]
	}
	x.rows = make([]int32, ends[parts])
	for row, p := range to {
		if p >= 0 {
			x.rows[ends[p]] = int32(row)
			ends[p]++ // the start of a part becomes its end
		}
	}
	x.ends = ends[:parts]
	return nil
}

// rowsOf returns the rows of a part.
func (x *waitingBatch) rowsOf(part int) []int32 {
	if part == 0 {
		return x.rows[:x.ends[0]]
	}
	return x.rows[x.ends[part-1]:x.ends[part]]
}

// flush writes all rows that wait, part after part.
func (w *partWriter) flush(ctx context.Context) error {
	if len(w.waiting) == 0 {
		return nil
	}
	if err := w.held.GrowWait(ctx, w.batchBytes()); err != nil {
		return err
	}
	for part := range w.out.parts {
		segments := make([][]batch.Segment, len(w.columns)+1)
		rows := 0
		for i := range w.waiting {
			at := w.waiting[i].rowsOf(part)
			if len(at) == 0 {
				continue
			}
			rows += len(at)
			for c, column := range w.waiting[i].columns {
				segments[c] = append(segments[c], batch.Segment{Values: column, Indices: at})
			}
		}
		if rows > 0 {
			if err := w.writePart(&w.out.parts[part], segments, rows); err != nil {
				return err
			}
		}
	}
	w.dropWaiting()
	return nil
}

// largestStored bounds the batches of a part, in bytes.
const largestStored = 1 << 20

// batchBytes returns what the bytes of a stored batch aim at.
func (w *partWriter) batchBytes() int64 { return min(w.mostBytes/4, largestStored) }

// writePart writes the rows of one part, in batches that are not too large to
// be read beside others.
func (w *partWriter) writePart(to *batchList, segments [][]batch.Segment, rows int) error {
	size := w.bytes/w.rows + 1 // bytes of a row, on average
	most := int(max(w.batchBytes()/size, 1))
	if w.mostRows > 0 {
		most = min(most, int(w.mostRows))
	}
	for from := 0; from < rows; from += most {
		b, err := gatherRows(w.out.schema, segments, from, min(most, rows-from), w.opts.allocator())
		if err != nil {
			return err
		}
		err = to.append(w.out.store, b)
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// dropWaiting releases what waits, and all that is reserved.
func (w *partWriter) dropWaiting() {
	for _, x := range w.waiting {
		for _, c := range x.columns {
			c.Release()
		}
	}
	clear(w.waiting)
	w.waiting = w.waiting[:0]
	w.kept, w.bytes, w.rows = batch.Retained{}, 0, 0
	w.held.Shrink(w.held.Held())
}

// gatherRows makes a batch of n rows of segments by column, beginning with row
// from.
func gatherRows(schema *arrow.Schema, segments [][]batch.Segment, from, n int, mem memory.Allocator) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, len(segments))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, list := range segments {
		column, err := batch.Gather(schema.Field(i).Type, rowsFrom(list, from, n), mem)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	return array.NewRecordBatch(schema, columns, int64(n)), nil
}

// rowsFrom returns n rows of segments, beginning with row from.
func rowsFrom(list []batch.Segment, from, n int) []batch.Segment {
	var out []batch.Segment
	for _, s := range list {
		skip := min(from, len(s.Indices))
		from -= skip
		some := min(n, len(s.Indices)-skip)
		n -= some
		if some > 0 {
			out = append(out, batch.Segment{Values: s.Values, Indices: s.Indices[skip : skip+some]})
		}
	}
	return out
}
