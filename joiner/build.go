package joiner

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Build reads staging rows and returns them as a build side that can be searched by
// key. The caller releases it; after an error nothing is held.
//
// Memory is reserved from the budget before it is held: for batches as they are read,
// twice for the widest column for a moment, then for keys and index. Rows that do not
// fit fail with Exhausted, which names them and the remedy. Errors of the input keep
// their kind. Duplicates are checked by a join, when a training row matches them.
func Build(ctx context.Context, in Input, spec BuildSpec, opts Options) (*BuildSide, error) {
	built, err := build(ctx, in, spec, opts, MaxRows)
	return built, fault.Op(err, "load the build side %s", spec.Name)
}

// MaxRows is the maximum number of staging rows of a build side: references and the
// dictionary's length are int32, and the dictionary has row 0 as well.
const MaxRows = 1<<31 - 2

func build(ctx context.Context, in Input, spec BuildSpec, opts Options, limit int64) (*BuildSide, error) {
	held, err := opts.Budget.Reserve(spec.Name, 0)
	if err != nil {
		return nil, err
	}
	held.KeepFree(opts.Spare)
	b := &builder{in: in, spec: spec, mem: opts.memory(), held: held, limit: limit, kept: batch.Retained{}}
	built, err := b.build(ctx)
	b.releaseAll()
	if err != nil {
		held.Release()
		return nil, err
	}
	return built, nil
}

// builder is the state of Build.
type builder struct {
	in    Input
	spec  BuildSpec
	mem   memory.Allocator
	held  *budget.Reservation
	limit int64 // maximum number of staging rows

	fields  []arrow.Field // of the result
	keys    []arrow.Field
	time    *timeColumn // nil if there is none
	rank    rank
	encoder *encoder

	parts  parts
	starts []int64 // the first row of each batch
	rows   int64
	dead   []bool         // rows that match nothing; nil if there are none
	kept   batch.Retained // the memory of all parts, which is reserved
}

// parts is the stream, as lists of arrays by column: of the result, of the key, of the
// order, and of the time.
type parts struct{ result, key, order, time [][]arrow.Array }

func (b *builder) build(ctx context.Context) (*BuildSide, error) {
	if err := b.in.ReadAll(ctx, b.readSchema, b.retain); err != nil {
		return nil, err
	}
	dictionary, err := b.collect(ctx)
	if err != nil {
		return nil, err
	}
	s := &BuildSide{schema: b.schema(), rows: b.rows, dictionary: dictionary, file: b.in.File, held: b.held}
	if err := b.indexKeys(ctx, s); err != nil {
		if s.index != nil {
			s.index.release()
		}
		dictionary.Release()
		return nil, err
	}
	s.refs.Store(1)
	return s, nil
}

func (b *builder) schema() Schema {
	s := Schema{field: fieldOf(b.spec.Name, b.fields, b.spec.Matched), keys: b.keys, types: b.encoder.types, arrival: b.spec.Arrival}
	if b.time != nil {
		s.time = &b.time.field
	}
	s.defaults = b.spec.HasDefaults()
	return s
}

// readSchema finds the columns of the build side in the stream's schema.
func (b *builder) readSchema(schema *arrow.Schema) error {
	var err error
	if b.fields, err = fieldsAt(schema, b.in.Columns); err != nil {
		return err
	}
	var types []keyType
	if b.keys, types, err = keyFields(schema, b.in.Key); err != nil {
		return err
	}
	b.encoder = newEncoder(types)
	if b.rank.by, err = rankFields(schema, b.spec.OrderBy); err != nil {
		return err
	}
	if b.spec.Time != nil {
		if b.time, err = newTimeColumn(schema, *b.spec.Time); err != nil {
			return err
		}
		if b.spec.Custom != nil {
			return fault.New(fault.Invalid, "a custom strategy cannot be combined with `point_in_time`").
				WithRemedy("remove `point_in_time` or the custom strategy from %s", b.spec.Name)
		}
		b.parts.time = make([][]arrow.Array, 1)
	}
	b.parts.result, b.parts.key = make([][]arrow.Array, len(b.fields)), make([][]arrow.Array, len(b.keys))
	b.parts.order = make([][]arrow.Array, len(b.rank.by))
	return b.checkDefaults()
}

func (b *builder) checkDefaults() error {
	for i, d := range b.spec.Defaults {
		if d == nil {
			continue
		}
		if i >= len(b.fields) || d.Len() != 1 || !arrow.TypeEqual(d.DataType(), b.fields[i].Type) {
			return fault.New(fault.Internal, "default %d of %s is not one value of its column's type", i, b.spec.Name)
		}
	}
	return nil
}

// lists returns all lists of parts, and the position of each in the stream.
func (b *builder) lists() (lists []*[]arrow.Array, at []int) {
	for _, of := range [][][]arrow.Array{b.parts.result, b.parts.key, b.parts.order, b.parts.time} {
		for i := range of {
			lists = append(lists, &of[i])
		}
	}
	at = slices.Concat(b.in.Columns, b.in.Key)
	for _, o := range b.spec.OrderBy {
		at = append(at, o.Column)
	}
	if b.time != nil {
		at = append(at, b.time.at)
	}
	return lists, at
}

// retain reserves and retains the columns of a batch.
func (b *builder) retain(record arrow.RecordBatch) error {
	if record.NumRows() > b.limit-b.rows {
		return fault.New(fault.Exhausted, "%s has more than %d rows in one file group, more than int32 references can address", b.spec.Name, b.limit).
			WithRemedy("write the staging table with more buckets")
	}
	lists, at := b.lists()
	arrays := make([]arrow.Array, len(at))
	for i, p := range at {
		arrays[i] = record.Column(p)
		if i >= len(b.fields) && batch.IsCoded(arrays[i]) {
			return fault.New(fault.Internal, "column %s is coded, and its values are compared", record.ColumnName(p))
		}
	}
	if err := b.held.Grow(b.kept.Add(arrays)); err != nil {
		return err
	}
	b.starts = append(b.starts, b.rows)
	b.rows += record.NumRows()
	for i, a := range arrays {
		a.Retain()
		*lists[i] = append(*lists[i], a)
	}
	return nil
}

// releaseArrays releases arrays of the stream, and the memory that was reserved only for
// them.
func (b *builder) releaseArrays(arrays *[]arrow.Array) {
	b.held.Shrink(b.kept.Remove(*arrays))
	for _, a := range *arrays {
		a.Release()
	}
	*arrays = nil
}

// releaseAll releases what remains of the stream: nothing after success. After an error
// the caller releases its reservation.
func (b *builder) releaseAll() {
	lists, _ := b.lists()
	for _, list := range lists {
		for _, a := range *list {
			a.Release()
		}
	}
}
