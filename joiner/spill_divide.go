package joiner

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// dividing is a stream on its way into parts.
type dividing struct {
	in Input
	at []int // positions of the columns that are kept; nil: all
	// of says which part each row belongs to.
	of       func(b arrow.RecordBatch, keys []arrow.Array, parts []int32) error
	mostRows int64 // of a stored batch; 0: as its bytes allow
	// begin, if it is set, looks at the stream's schema before any row.
	begin func(*arrow.Schema) error

	opts  Options
	out   *Parts
	held  *budget.Reservation
	kept  batch.Retained
	most  int64 // bytes that wait
	bytes int64 // that do wait
	rows  int64 // that do wait

	waiting []waiting
}

// waiting is a batch whose rows are to be written.
type waiting struct {
	columns []arrow.Array // those that are kept, then the rows' numbers
	rows    []int32       // the rows, part after part
	ends    []int32       // where each part ends in rows
	bytes   int64         // reserved for it, beside what its columns keep
}

func (d *dividing) divide(ctx context.Context, parts int, opts Options, how Spilling) (*Parts, error) {
	held, err := opts.Budget.Reserve(d.in.name(), 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	store, err := how.Disk(d.in.name())
	if err != nil {
		return nil, err
	}
	d.opts, d.held, d.kept, d.most = opts, held, batch.Retained{}, how.memory(opts.Budget)/2
	d.out = &Parts{in: d.in, store: store, parts: make([]storedPart, parts), opts: opts}
	d.out.refs.Store(1)
	if err := d.read(ctx); err != nil {
		d.drop()
		store.Release()
		return nil, err
	}
	return d.out, nil
}

// read reads the stream whole.
func (d *dividing) read(ctx context.Context) error {
	reader, err := open(ctx, d.in)
	if err != nil {
		return err
	}
	defer reader.Release()
	if err := d.plan(reader.Schema()); err != nil {
		return err
	}
	for ctx.Err() == nil && reader.Next() {
		if b := reader.RecordBatch(); b.NumRows() > 0 {
			if err := d.take(ctx, reader.Schema(), b); err != nil {
				return err
			}
		}
	}
	if err := ended(ctx, reader); err != nil {
		return err
	}
	return d.write(ctx)
}

func (d *dividing) plan(schema *arrow.Schema) error {
	if d.begin != nil {
		if err := d.begin(schema); err != nil {
			return err
		}
	}
	if d.at == nil {
		d.at = make([]int, schema.NumFields())
		for i := range d.at {
			d.at[i] = i
		}
	}
	fields, err := fieldsAt(schema, d.at)
	if err != nil {
		return err
	}
	d.out.schema = arrow.NewSchema(append(fields, arrow.Field{Type: arrow.PrimitiveTypes.Int64}), nil)
	return nil
}

// take puts the rows of a batch among those that wait, and writes them all
// when they are many, or when there is no room for more. Those of the last batch
// before that are only borrowed.
func (d *dividing) take(ctx context.Context, schema *arrow.Schema, b arrow.RecordBatch) error {
	if err := checkTypes(schema, b); err != nil {
		return err
	}
	w := waiting{bytes: b.NumRows() * (word + half + half)}
	if err := d.held.GrowWait(ctx, w.bytes); err != nil {
		return err
	}
	d.bytes += w.bytes
	d.rows += b.NumRows()
	for _, at := range d.at {
		w.columns = append(w.columns, b.Column(at))
	}
	more := d.kept.Add(w.columns)
	d.bytes += more
	full := d.bytes >= d.most || d.held.Grow(more) != nil
	for _, c := range w.columns {
		c.Retain()
	}
	w.columns = append(w.columns, d.numbers(int(b.NumRows())))
	d.waiting = append(d.waiting, w)
	if err := d.assign(&d.waiting[len(d.waiting)-1], b); err != nil {
		return err
	}
	d.out.rows += b.NumRows()
	if !full {
		return nil
	}
	return d.write(ctx)
}

// numbers makes the column of the rows' numbers in the stream.
func (d *dividing) numbers(rows int) arrow.Array {
	buffer := memory.NewResizableBuffer(d.opts.memory())
	defer buffer.Release()
	buffer.Resize(arrow.Int64Traits.BytesRequired(rows))
	values := arrow.Int64Traits.CastFromBytes(buffer.Bytes())
	for i := range values {
		values[i] = d.out.rows + int64(i)
	}
	made := array.NewData(arrow.PrimitiveTypes.Int64, rows, []*memory.Buffer{nil, buffer}, nil, 0, 0)
	defer made.Release()
	return array.NewInt64Data(made)
}

// assign asks for the rows' parts and lists the rows part after part.
func (d *dividing) assign(w *waiting, b arrow.RecordBatch) error {
	keys := make([]arrow.Array, len(d.in.Key))
	for i, at := range d.in.Key {
		keys[i] = b.Column(at)
	}
	to := make([]int32, b.NumRows())
	if err := d.of(b, keys, to); err != nil {
		return err
	}
	parts := int32(len(d.out.parts))
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
	w.rows = make([]int32, ends[parts])
	for row, p := range to {
		if p >= 0 {
			w.rows[ends[p]] = int32(row)
			ends[p]++ // the start of a part becomes its end
		}
	}
	w.ends = ends[:parts]
	return nil
}

// of returns the rows of a part.
func (w *waiting) of(part int) []int32 {
	if part == 0 {
		return w.rows[:w.ends[0]]
	}
	return w.rows[w.ends[part-1]:w.ends[part]]
}

// write writes all rows that wait, part after part.
func (d *dividing) write(ctx context.Context) error {
	if len(d.waiting) == 0 {
		return nil
	}
	if err := d.held.GrowWait(ctx, d.batchBytes()); err != nil {
		return err
	}
	for number := range d.out.parts {
		segments := make([][]batch.Segment, len(d.at)+1)
		rows := 0
		for i := range d.waiting {
			at := d.waiting[i].of(number)
			if len(at) == 0 {
				continue
			}
			rows += len(at)
			for c, column := range d.waiting[i].columns {
				segments[c] = append(segments[c], batch.Segment{Values: column, Indices: at})
			}
		}
		if rows > 0 {
			if err := d.writePart(&d.out.parts[number], segments, rows); err != nil {
				return err
			}
		}
	}
	d.drop()
	return nil
}

// largestStored bounds the batches of a part, in bytes.
const largestStored = 1 << 20

// batchBytes returns what the bytes of a stored batch aim at.
func (d *dividing) batchBytes() int64 { return min(d.most/4, largestStored) }

// writePart writes the rows of one part, in batches that are not too large to
// be read beside others.
func (d *dividing) writePart(p *storedPart, segments [][]batch.Segment, rows int) error {
	size := d.bytes/d.rows + 1 // bytes of a row, on average
	most := int(max(d.batchBytes()/size, 1))
	if d.mostRows > 0 {
		most = min(most, int(d.mostRows))
	}
	for from := 0; from < rows; from += most {
		n := min(most, rows-from)
		if err := d.writeBatch(p, segments, from, n); err != nil {
			return err
		}
	}
	return nil
}

// writeBatch writes n rows of a part, beginning with row from.
func (d *dividing) writeBatch(p *storedPart, segments [][]batch.Segment, from, n int) error {
	b, err := gatherRows(d.out.schema, segments, from, n, d.opts.memory())
	if err != nil {
		return err
	}
	defer b.Release()
	number, err := d.out.store.Append(b)
	if err != nil {
		return err
	}
	p.add(number, int64(n), d.out.store.Size(number))
	return nil
}

// add puts a batch behind those that a part has.
func (p *storedPart) add(number int, rows, bytes int64) {
	p.batches = append(p.batches, stored{number: number, from: p.rows, rows: rows, bytes: bytes})
	p.rows += rows
	p.bytes += bytes
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
		column, err := batch.Gather(schema.Field(i).Type, cut(list, from, n), mem)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	return array.NewRecordBatch(schema, columns, int64(n)), nil
}

// cut returns n rows of segments, beginning with row from.
func cut(list []batch.Segment, from, n int) []batch.Segment {
	var out []batch.Segment
	for _, s := range list {
		skip := min(from, len(s.Indices))
		from -= skip
		take := min(n, len(s.Indices)-skip)
		n -= take
		if take > 0 {
			out = append(out, batch.Segment{Values: s.Values, Indices: s.Indices[skip : skip+take]})
		}
	}
	return out
}

// drop releases what waits.
func (d *dividing) drop() {
	for _, w := range d.waiting {
		for _, c := range w.columns {
			c.Release()
		}
	}
	d.waiting = slices.Delete(d.waiting, 0, len(d.waiting))
	d.kept, d.bytes, d.rows = batch.Retained{}, 0, 0
	d.held.Shrink(d.held.Held())
}
