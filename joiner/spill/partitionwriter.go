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

// partitioner defines how a stream is divided. It need not be safe for concurrent use.
type partitioner interface {
	// begin gets the stream's schema before any row. It returns the positions of the
	// columns to keep.
	begin(schema *arrow.Schema) ([]int, error)
	// assign sets parts[i] to the partition of row i of a batch, or to a negative number if the row
	// belongs to no partition.
	assign(b arrow.RecordBatch, parts []int32) error
}

// partitionWriter writes a stream as Partitions. It retains batches of the stream until they have
// many rows, and then writes the rows partition by partition. All retained memory is reserved. Only
// the last batch before a write may be unreserved, because the stream holds this batch anyway.
type partitionWriter struct {
	in      joiner.Input
	by      partitioner
	opts    Options
	maxRows int64 // maximum rows of a stored batch; 0: only its bytes are limited

	columns  []int // positions of the columns to keep
	out      *Partitions
	held     *budget.Reservation
	kept     batch.Retained // the memory of the waiting batches' columns
	maxBytes int64          // maximum bytes of waiting rows
	bytes    int64          // bytes of waiting rows
	rows     int64          // number of waiting rows
	waiting  []waitingBatch
}

// waitingBatch is a batch whose rows are not yet written.
type waitingBatch struct {
	columns []arrow.Array // the columns that are kept, then the row numbers
	rows    []int32       // the rows, partition by partition
	ends    []int32       // by partition: where it ends in rows
}

// rowOverhead is the bytes of a waiting row besides its columns: its number in the
// stream, its partition, and its position in rows.
const rowOverhead = 8 + 4 + 4

// write reads the stream and writes it as a number of partitions. The caller releases
// them; after an error nothing is held.
func (w *partitionWriter) write(ctx context.Context, parts int) (*Partitions, error) {
	held, err := w.opts.Budget.Reserve(rowsOnDisk, 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	store, err := w.opts.Disk(rowsOnDisk)
	if err != nil {
		return nil, err
	}
	w.held, w.kept, w.maxBytes = held, batch.Retained{}, w.opts.workingMemory()/2
	w.out = &Partitions{in: w.in, store: store, parts: make([]batchList, parts), opts: w.opts}
	w.out.in.Open = nil // partitions may outlive the opened stream
	w.out.refs.Store(1)
	err = w.in.ReadAll(ctx, w.begin, func(b arrow.RecordBatch) error { return w.add(ctx, b) })
	if err == nil {
		err = w.flush(ctx)
	}
	if err != nil {
		w.releaseWaiting()
		store.Release()
		return nil, err
	}
	return w.out, nil
}

func (w *partitionWriter) begin(schema *arrow.Schema) error {
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

// add retains the rows of a batch. It then writes all waiting rows if there are many of them, if
// the budget has no room for the new rows, or if another reservation waits for memory (perhaps the
// reservation for the reader's next batch).
func (w *partitionWriter) add(ctx context.Context, b arrow.RecordBatch) error {
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
	full := w.bytes >= w.maxBytes || w.held.Grow(more) != nil || w.opts.Budget.Waited()
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

// rowNumbers returns a column with the numbers that the next rows have in the stream.
func (w *partitionWriter) rowNumbers(rows int) arrow.Array {
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

// assign determines the partition of each row, and lists the rows partition by partition.
func (w *partitionWriter) assign(x *waitingBatch, b arrow.RecordBatch) error {
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
			ends[p]++ // the start of a partition becomes its end
		}
	}
	x.ends = ends[:parts]
	return nil
}

// rowsOf returns the numbers of the batch's rows in a partition.
func (x *waitingBatch) rowsOf(part int) []int32 {
	if part == 0 {
		return x.rows[:x.ends[0]]
	}
	return x.rows[x.ends[part-1]:x.ends[part]]
}

// flush writes all waiting rows, partition by partition.
func (w *partitionWriter) flush(ctx context.Context) error {
	if len(w.waiting) == 0 {
		return nil
	}
	reserved := w.batchBytes()
	if err := w.held.GrowWait(ctx, reserved); err != nil {
		return err
	}
	reserve := func(bytes int64) error { // for a batch with rows that are larger than the average
		more := max(bytes-reserved, 0)
		reserved += more
		return w.held.GrowWait(ctx, more)
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
			if err := w.writePartition(&w.out.parts[part], segments, rows, reserve); err != nil {
				return err
			}
		}
	}
	w.releaseWaiting()
	return nil
}

// maxStoredBytes is the largest target size of one stored batch, in bytes.
const maxStoredBytes = 1 << 20

// batchBytes returns the target size of a stored batch.
func (w *partitionWriter) batchBytes() int64 { return min(w.maxBytes/4, maxStoredBytes) }

// writePartition writes the rows of one partition, in batches small enough that several can be read
// at once. reserve is called with the bytes of each batch.
func (w *partitionWriter) writePartition(to *batchList, segments [][]batch.Segment, rows int, reserve func(bytes int64) error) error {
	size := w.bytes/w.rows + 1 // average bytes of a row
	most := int(max(w.batchBytes()/size, 1))
	if w.maxRows > 0 {
		most = min(most, int(w.maxRows))
	}
	for from := 0; from < rows; from += most {
		some := make([][]batch.Segment, len(segments))
		for i, list := range segments {
			some[i] = rowsFrom(list, from, most)
		}
		b, err := gatherRows(w.out.schema, some, min(most, rows-from), w.opts.allocator(), reserve)
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

// releaseWaiting releases all waiting rows and the reservation for them.
func (w *partitionWriter) releaseWaiting() {
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

// gatherRows returns a batch of a number of rows. segments has the segments of each column. reserve is
// called with the bytes of the batch before they are allocated.
func gatherRows(schema *arrow.Schema, segments [][]batch.Segment, rows int, mem memory.Allocator, reserve func(bytes int64) error) (arrow.RecordBatch, error) {
	g := batch.NewGatherer(mem)
	defer g.Release()
	bytes := int64(0)
	for i, list := range segments {
		size, err := g.Size(schema.Field(i).Type, list)
		if err != nil {
			return nil, err
		}
		bytes += size
	}
	if err := reserve(bytes); err != nil {
		return nil, err
	}
	columns := make([]arrow.Array, 0, len(segments))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, list := range segments {
		column, err := g.Gather(schema.Field(i).Type, list)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	return array.NewRecordBatch(schema, columns, int64(rows)), nil
}

// rowsFrom returns n rows of segments, starting at row from.
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
