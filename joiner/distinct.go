package joiner

import (
	"context"
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
)

// Kept is the set of rows of a stream that are kept. It is safe for concurrent reading.
type Kept struct {
	bits []byte
	rows int64
	held *budget.Reservation
}

// Has reports whether a row is kept, counted from 0; false beyond the end of the
// stream.
func (k *Kept) Has(row int64) bool {
	return row >= 0 && row < k.rows && bitutil.BitIsSet(k.bits, int(row))
}

// Rows returns the number of rows of the stream.
func (k *Kept) Rows() int64 { return k.rows }

// At returns the nth row that is kept, counted from 0, or -1. It scans all rows
// before it.
func (k *Kept) At(nth int64) int64 {
	for row := range k.rows {
		if k.Has(row) {
			if nth == 0 {
				return row
			}
			nth--
		}
	}
	return -1
}

// Release releases the reservation. It is idempotent.
func (k *Kept) Release() { k.held.Release() }

// maxPasses bounds how often Distinct reads its stream.
const maxPasses = 256

// Distinct reads a stream and returns which rows to keep so that only one is left of
// those that are equal in all key columns, null being equal to null: the first or the
// last, by order and then by arrival. It ignores the columns of the input. It holds a
// bit per row in memory. If the keys and order columns do not fit in the budget,
// the stream is read in several passes, each for some of the keys; it must return the
// same rows each time.
func Distinct(ctx context.Context, in Input, order []Order, last bool, opts Options) (*Kept, error) {
	held, err := opts.Budget.Reserve("repeated rows", 0)
	if err != nil {
		return nil, err
	}
	for passes := uint64(1); ; passes *= 2 {
		d := &repeated{in: in, order: order, last: last, opts: opts, passes: passes, kept: &Kept{held: held}}
		err := d.run(ctx)
		if err == nil {
			return d.kept, nil
		}
		if fault.KindOf(err) != fault.Exhausted || passes == maxPasses {
			held.Release()
			return nil, fault.Op(err, "find repeated rows")
		}
		held.Shrink(held.Held())
	}
}

type repeated struct {
	in     Input
	order  []Order
	last   bool
	opts   Options
	passes uint64
	kept   *Kept
}

func (d *repeated) run(ctx context.Context) error {
	for pass := range d.passes {
		if err := d.pass(ctx, pass); err != nil {
			return err
		}
	}
	return nil
}

// pass drops repeated rows among the keys of one pass.
func (d *repeated) pass(ctx context.Context, pass uint64) error {
	numbers, err := d.opts.Budget.Reserve("repeated rows", 0)
	if err != nil {
		return err
	}
	defer numbers.Release()
	part := &passReader{of: d, pass: pass, held: numbers}
	spec := BuildSpec{Name: "repeated rows", OrderBy: make([]Order, len(d.order)), Strategy: rule.StrategyIndex}
	for i, o := range d.order {
		spec.OrderBy[i] = Order{Column: 1 + i, Descending: o.Descending}
	}
	built, err := Build(ctx, Input{Open: part.open, Key: []int{0}}, spec, d.opts)
	if err != nil {
		return err
	}
	defer built.Release()
	g := built.groups
	for i := range max(0, len(g.starts)-1) {
		members := g.members[g.starts[i]:g.starts[i+1]]
		stays := members[0]
		if d.last {
			stays = members[len(members)-1]
		}
		for _, m := range members {
			if m != stays {
				bitutil.ClearBit(d.kept.bits, int(part.row(m)))
			}
		}
	}
	return nil
}

// passReader is the stream of one pass: the rows whose key belongs to it, with the
// key as one binary column followed by the order columns.
type passReader struct {
	of      *repeated
	pass    uint64
	reader  array.RecordReader
	columns []column
	types   []keyType
	rows    int64               // of the stream so far
	numbers []int64             // in the stream, by row of the pass; nil if the pass has all rows
	held    *budget.Reservation // for numbers
}

// row returns the position in the stream of a row of the pass.
func (p *passReader) row(i int32) int64 {
	if p.of.passes == 1 {
		return int64(i)
	}
	return p.numbers[i]
}

func (p *passReader) open(ctx context.Context) (array.RecordReader, error) {
	reader, err := p.of.in.open(ctx)
	if err != nil {
		return nil, err
	}
	fields, types, err := keyFields(reader.Schema(), p.of.in.Key)
	if err == nil {
		var order []arrow.Field
		if order, err = fieldsAt(reader.Schema(), p.orderAt()); err == nil {
			fields = append([]arrow.Field{{Name: "key", Type: arrow.BinaryTypes.LargeBinary}}, order...)
		}
	}
	if err != nil {
		reader.Release()
		return nil, err
	}
	p.reader, p.types, p.columns, p.rows = reader, types, make([]column, len(types)), 0
	schema := arrow.NewSchema(fields, nil)
	return batch.FromFunc(schema, func() (arrow.RecordBatch, error) { return p.next(schema) }, reader.Release), nil
}

func (p *passReader) orderAt() []int {
	at := make([]int, len(p.of.order))
	for i, o := range p.of.order {
		at[i] = o.Column
	}
	return at
}

func (p *passReader) next(schema *arrow.Schema) (arrow.RecordBatch, error) {
	for p.reader.Next() {
		record := p.reader.RecordBatch()
		if record.NumRows() == 0 {
			continue
		}
		if err := p.countRows(record.NumRows()); err != nil {
			return nil, err
		}
		keys := p.keys(record)
		columns := []arrow.Array{keys}
		for _, at := range p.orderAt() {
			columns = append(columns, record.Column(at))
		}
		whole := array.NewRecordBatch(schema, columns, record.NumRows())
		keys.Release()
		chosen, err := p.choose(whole, keys.(*array.LargeBinary))
		whole.Release()
		if err != nil || chosen.NumRows() > 0 {
			return chosen, err
		}
		chosen.Release()
	}
	return nil, p.reader.Err()
}

// countRows adds rows to the set of those that are kept.
func (p *passReader) countRows(rows int64) error {
	k := p.of.kept
	if p.pass > 0 {
		return nil
	}
	size := bitutil.BytesForBits(k.rows + rows)
	if err := k.held.Grow(size - int64(len(k.bits))); err != nil {
		return err
	}
	k.bits = append(k.bits, make([]byte, size-int64(len(k.bits)))...)
	bitutil.SetBitsTo(k.bits, k.rows, rows, true)
	k.rows += rows
	return nil
}

// choose returns the rows whose key belongs to the pass.
func (p *passReader) choose(whole arrow.RecordBatch, keys *array.LargeBinary) (arrow.RecordBatch, error) {
	before := p.rows
	p.rows += whole.NumRows()
	if p.of.passes == 1 {
		whole.Retain()
		return whole, nil
	}
	var keep []int32
	for i := range int(whole.NumRows()) {
		// Other bits than those by which the build side's index hashes the same keys.
		if mix(hashBytes(keys.Value(i)), seedA)%p.of.passes == p.pass {
			keep = append(keep, int32(i))
		}
	}
	if err := p.held.Grow(2 * word * int64(len(keep))); err != nil { //nolint:mnd // numbers grow to at most twice their length
		return nil, err
	}
	for _, i := range keep {
		p.numbers = append(p.numbers, before+int64(i))
	}
	return batch.Filter(whole, keep, p.of.opts.memory())
}

// keys encodes each row's key so that two are equal if and only if their bytes are: for
// each column a null flag and, unless it is null, the value's length and bytes.
func (p *passReader) keys(record arrow.RecordBatch) arrow.Array {
	rows := int(record.NumRows())
	for c, at := range p.of.in.Key {
		p.columns[c].load(p.types[c], record.Column(at))
	}
	var bytes []byte
	ends := make([]int64, 1, rows+1)
	for i := range rows {
		for c, at := range p.of.in.Key {
			if record.Column(at).IsNull(i) {
				bytes = append(bytes, 0)
				continue
			}
			bytes = append(bytes, 1)
			switch col := &p.columns[c]; col.layout {
			case layoutInt32:
				bytes = binary.LittleEndian.AppendUint32(bytes, uint32(col.ints[i]))
			case layoutInt64:
				bytes = binary.LittleEndian.AppendUint64(bytes, uint64(col.longs[i]))
			case layoutFixed, layoutDecimal, layoutShort, layoutLong:
				value := col.value(i)
				bytes = binary.LittleEndian.AppendUint32(bytes, uint32(len(value)))
				bytes = append(bytes, value...)
			}
		}
		ends = append(ends, int64(len(bytes)))
	}
	data := array.NewData(arrow.BinaryTypes.LargeBinary, rows, []*memory.Buffer{
		nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(ends)), memory.NewBufferBytes(bytes),
	}, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}
