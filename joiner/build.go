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

// Build reads a staging side whole and indexes it by key. The caller releases
// what it returns; after an error nothing is held.
//
// Memory is reserved from the budget before it is held: batches as they come,
// for a moment the widest column twice, then keys and index. What does not fit
// fails with Exhausted, which names the level and the remedy. Errors of the
// input keep their kind. Of the rule only the name is looked at: duplicates
// are judged by a join, when a training row asks for the key.
func Build(ctx context.Context, in Input, rule Rule, opts Options) (*Side, error) {
	side, err := build(ctx, in, rule.Name, opts, maxRows)
	return side, fault.Op(err, "build the staging side %s", rule.Name)
}

// maxRows is how many staging rows int32 references reach: the dictionary has
// the null row besides, and its length is an int32 too.
const maxRows = 1<<31 - 2

func build(ctx context.Context, in Input, name string, opts Options, limit int64) (*Side, error) {
	held, err := opts.Budget.Reserve(name, 0)
	if err != nil {
		return nil, err
	}
	b := &builder{in: in, name: name, mem: opts.memory(), held: held, limit: limit, kept: ledger{}}
	side, err := b.build(ctx)
	b.drop()
	if err != nil {
		held.Release()
		return nil, err
	}
	return side, nil
}

// builder is what a side is before it is one.
type builder struct {
	in    Input
	name  string
	mem   memory.Allocator
	held  *budget.Reservation
	limit int64 // staging rows at most

	fields  []arrow.Field // the columns that go on
	keys    []arrow.Field
	encoder *encoder

	// The stream, as lists of arrays by column: those of parts go on, those
	// of keyParts are key columns.
	parts    [][]arrow.Array
	keyParts [][]arrow.Array
	rows     int64
	kept     ledger // the memory of parts and keyParts, which is reserved
}

func (b *builder) build(ctx context.Context) (*Side, error) {
	if err := b.readAll(ctx); err != nil {
		return nil, err
	}
	dictionary, err := b.collect(ctx)
	if err != nil {
		return nil, err
	}
	x, err := b.buildIndex(ctx)
	if err != nil {
		dictionary.Release()
		return nil, err
	}
	s := &Side{
		field: FieldOf(b.name, b.fields), rows: b.rows, bytes: b.held.Held(),
		keys: b.keys, types: b.encoder.types,
		dictionary: dictionary, index: x, file: b.in.File, held: b.held,
	}
	s.refs.Store(1)
	return s, nil
}

// readAll opens the stream, retains what is needed of it, and releases it.
func (b *builder) readAll(ctx context.Context) error {
	reader, err := open(ctx, b.in)
	if err != nil {
		return err
	}
	defer reader.Release()
	schema := reader.Schema()
	if b.fields, err = fieldsAt(schema, b.in.Columns); err != nil {
		return err
	}
	var types []keyType
	if b.keys, types, err = keyFields(schema, b.in.Key); err != nil {
		return err
	}
	b.encoder = newEncoder(types)
	b.parts, b.keyParts = make([][]arrow.Array, len(b.fields)), make([][]arrow.Array, len(b.keys))
	for ctx.Err() == nil && reader.Next() {
		if err := b.take(schema, reader.RecordBatch()); err != nil {
			return err
		}
	}
	return ended(ctx, reader)
}

// open opens an input. The stream is guarded in invariant builds.
func open(ctx context.Context, in Input) (array.RecordReader, error) {
	reader, err := in.Open(ctx)
	if err != nil {
		return nil, err
	}
	if reader == nil {
		return nil, fault.New(fault.Internal, "an input that opened has no stream")
	}
	return batch.Guard(reader), nil
}

// ended returns why a stream that gives no more batches does not: nil is its
// true end. One that stops because it was cancelled and does not say so must
// not pass for whole.
func ended(ctx context.Context, reader array.RecordReader) error {
	if err := reader.Err(); err != nil {
		return err
	}
	return ctx.Err()
}

// take reserves and retains what is needed of a batch.
func (b *builder) take(schema *arrow.Schema, record arrow.RecordBatch) error {
	if record.NumRows() == 0 {
		return nil
	}
	if err := checkTypes(schema, record); err != nil {
		return err
	}
	if record.NumRows() > b.limit-b.rows {
		return fault.New(fault.Exhausted, "%s has more than %d rows for one class of buckets, which references do not reach", b.name, b.limit).
			WithRemedy("write the staging table with more buckets")
	}
	arrays := make([]arrow.Array, 0, len(b.fields)+len(b.keys))
	for _, at := range slices.Concat(b.in.Columns, b.in.Key) {
		arrays = append(arrays, record.Column(at))
	}
	if err := b.held.Grow(b.kept.enter(arrays)); err != nil {
		return err
	}
	b.rows += record.NumRows()
	for i, a := range arrays {
		a.Retain()
		if i < len(b.fields) {
			b.parts[i] = append(b.parts[i], a)
		} else {
			b.keyParts[i-len(b.fields)] = append(b.keyParts[i-len(b.fields)], a)
		}
	}
	return nil
}

// checkTypes holds a batch to its stream's schema: keys are read by it.
func checkTypes(schema *arrow.Schema, record arrow.RecordBatch) error {
	if record.Schema() == schema {
		return nil
	}
	if int(record.NumCols()) != schema.NumFields() {
		return fault.New(fault.Internal, "a batch of %d columns in a stream of %d", record.NumCols(), schema.NumFields())
	}
	for i, c := range record.Columns() {
		if f := schema.Field(i); !arrow.TypeEqual(f.Type, c.DataType()) {
			return fault.New(fault.Internal, "column %s is %s in a stream where it is %s", f.Name, c.DataType(), f.Type)
		}
	}
	return nil
}

// buildIndex reserves and makes the index, and drops the key columns.
func (b *builder) buildIndex(ctx context.Context) (index, error) {
	x := index{integral: b.encoder.integral()}
	var kept, scratch int64
	for p := range b.keyParts[0] {
		k, s := b.encoder.size(b.part(p))
		kept, scratch = kept+k, max(scratch, s)
	}
	slots := slotsFor(b.rows)
	if err := b.held.Grow(kept + word + slots*half + scratch); err != nil {
		return x, err
	}
	x.slots = make([]uint32, slots)
	if x.integral {
		x.keys.ints = make([]int64, 0, b.rows)
	} else {
		x.keys.arena = make([]byte, 0, kept-b.rows*word)
		x.keys.ends = append(make([]int64, 0, b.rows+1), 0)
	}
	row := int32(0)
	for p := range b.keyParts[0] {
		if err := ctx.Err(); err != nil {
			return x, err
		}
		v := b.encoder.encode(b.part(p))
		x.keys.append(v)
		for i := range b.keyParts[0][p].Len() {
			if v.null == nil || !v.null[i] {
				if err := b.add(&x, row); err != nil {
					return x, err
				}
			}
			row++
		}
	}
	b.encoder = newEncoder(b.encoder.types)
	b.held.Shrink(scratch)
	for i := range b.keyParts {
		b.leave(&b.keyParts[i])
	}
	return x, nil
}

// part returns the key columns of one batch.
func (b *builder) part(p int) []arrow.Array {
	arrays := make([]arrow.Array, len(b.keyParts))
	for i, list := range b.keyParts {
		arrays[i] = list[p]
	}
	return arrays
}

// add indexes a row, and makes room for duplicates when the first one comes.
func (b *builder) add(x *index, row int32) error {
	if x.add(row) {
		return nil
	}
	if err := b.held.Grow(b.rows * half); err != nil {
		return err
	}
	x.last = make([]int32, b.rows)
	x.add(row)
	return nil
}

// append adds the keys of a batch to those of a side. There is room.
func (v *vector) append(more vector) {
	if more.ends == nil {
		v.ints = append(v.ints, more.ints...)
		return
	}
	from, to := more.ends[0], more.ends[len(more.ends)-1]
	shift := int64(len(v.arena)) - from
	v.arena = append(v.arena, more.arena[from:to]...)
	for _, end := range more.ends[1:] {
		v.ends = append(v.ends, end+shift)
	}
}

// collect makes the dictionary, column after column, so that no more than one
// column is held twice at a time.
func (b *builder) collect(ctx context.Context) (*array.Struct, error) {
	var columns []arrow.ArrayData
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, field := range b.fields {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		column, err := b.column(i, field)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	dt := FieldOf(b.name, b.fields).Type.(*arrow.DictionaryType).ValueType
	whole := array.NewData(dt, int(b.rows)+1, []*memory.Buffer{nil}, columns, 0, 0)
	defer whole.Release()
	return array.NewStructData(whole), nil
}

// column makes one column of the dictionary and releases its parts.
func (b *builder) column(at int, field arrow.Field) (arrow.ArrayData, error) {
	list := b.parts[at]
	// The copy takes what its parts do, and the null row, which brings
	// validity into every level.
	bound := copied(list) + b.rows/8 + nullRow
	if err := b.held.Grow(bound); err != nil {
		return nil, err
	}
	schema := arrow.NewSchema([]arrow.Field{field}, nil)
	records := make([]arrow.RecordBatch, len(list))
	for i, a := range list {
		records[i] = array.NewRecordBatch(schema, []arrow.Array{a}, int64(a.Len()))
	}
	one, err := batch.WithNullRow(schema, records, b.mem)
	for _, r := range records {
		r.Release()
	}
	if err != nil {
		return nil, err
	}
	defer one.Release()
	if err := b.settle(bound, batch.ArraySize(one)); err != nil {
		return nil, err
	}
	b.leave(&b.parts[at])
	column := one.Data().Children()[0]
	column.Retain()
	return column, nil
}

// nullRow bounds, in bytes, what the null row adds to a column of a few
// levels: alignment of each of its buffers.
const nullRow = 512

// settle turns a reservation of an estimate into one of what it came to.
func (b *builder) settle(estimate, actual int64) error {
	if actual > estimate {
		return b.held.Grow(actual - estimate)
	}
	b.held.Shrink(estimate - actual)
	return nil
}

// leave releases arrays of the stream, and what was reserved for them alone.
func (b *builder) leave(arrays *[]arrow.Array) {
	b.held.Shrink(b.kept.strike(*arrays))
	for _, a := range *arrays {
		a.Release()
	}
	*arrays = nil
}

// drop releases what is left of the stream after an error, whose reservation
// the caller gives back, or after success: nothing.
func (b *builder) drop() {
	for _, lists := range [][][]arrow.Array{b.parts, b.keyParts} {
		for i := range lists {
			for _, a := range lists[i] {
				a.Release()
			}
		}
	}
}
