package joiner

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// Reader is the joined stream: the training columns that go on, then one
// dictionary column per probe, in their order. It is a record reader and keeps
// the one ownership sentence; the last Release cancels, and releases the
// training stream and the sides. It reserves nothing itself: the sides did,
// and they live as long as it does.
type Reader struct {
	array.RecordReader
	join *join
}

// Join opens the training stream and returns what it becomes. Nothing is read
// and no side is asked for before the first Next. A side that fails, or an
// input that does, ends the stream with its error; a batch never comes short.
//
// All probes look at every training row, in the order given; then rows that an
// inner side lacks are dropped. Rows keep their order. Batches are those of
// the training stream, without the dropped rows, and never empty.
func Join(ctx context.Context, training Input, probes []Probe, opts Options) (*Reader, error) {
	ctx, cancel := context.WithCancel(ctx)
	j := &join{ctx: ctx, in: training, mem: opts.memory()}
	if err := j.open(probes); err != nil {
		cancel()
		j.close()
		return nil, fault.Op(err, "join")
	}
	release := func() {
		cancel()
		j.close()
	}
	return &Reader{batch.Guard(batch.FromFunc(j.schema, j.next, release)), j}, nil
}

// Counts returns what each probe met so far, in the order given. Rows of the
// batch that failed are not counted. It is not for use during a Next.
func (r *Reader) Counts() []Counts {
	counts := make([]Counts, len(r.join.probes))
	for i, p := range r.join.probes {
		counts[i] = p.counts
	}
	return counts
}

// join is the state of a Reader.
type join struct {
	ctx      context.Context //nolint:containedctx // a reader's calls take no context; its own ends them
	in       Input
	mem      memory.Allocator
	training array.RecordReader
	schema   *arrow.Schema
	probes   []*probe
	encoders []*keyColumns
	started  bool
	rows     int64 // training rows before the current batch
}

// keyColumns are the key columns that one or more probes have in common: they
// are encoded once per batch.
type keyColumns struct {
	at      []int
	fields  []arrow.Field
	encoder *encoder
	arrays  []arrow.Array // of the current batch
	keys    vector
}

// probe is a Probe with what its join knows.
type probe struct {
	Probe
	columns *keyColumns
	field   arrow.Field
	side    *Side // nil before the first Next
	counts  Counts
}

// open opens the training stream and works out the result's schema.
func (j *join) open(probes []Probe) error {
	var err error
	if j.training, err = open(j.ctx, j.in); err != nil {
		return err
	}
	schema := j.training.Schema()
	fields, err := fieldsAt(schema, j.in.Columns)
	if err != nil {
		return err
	}
	for _, given := range probes {
		p := &probe{Probe: given, field: FieldOf(given.Rule.Name, given.Columns)}
		if p.columns, err = j.keyColumns(schema, given.Key); err != nil {
			return fault.Op(err, "%s", given.Rule.Name)
		}
		j.probes = append(j.probes, p)
		fields = append(fields, p.field)
	}
	j.schema = arrow.NewSchema(fields, nil)
	return nil
}

func (j *join) keyColumns(schema *arrow.Schema, at []int) (*keyColumns, error) {
	for _, k := range j.encoders {
		if slices.Equal(k.at, at) {
			return k, nil
		}
	}
	fields, types, err := keyFields(schema, at)
	if err != nil {
		return nil, err
	}
	k := &keyColumns{at: at, fields: fields, encoder: newEncoder(types), arrays: make([]arrow.Array, len(at))}
	j.encoders = append(j.encoders, k)
	return k, nil
}

// start asks for the sides, in order.
func (j *join) start() error {
	for _, p := range j.probes {
		side, err := p.Side(j.ctx)
		if err != nil {
			return fault.Op(err, "join %s", p.Rule.Name)
		}
		if side == nil {
			return fault.New(fault.Internal, "%s has no staging side", p.Rule.Name)
		}
		p.side = side
		if err := p.fits(); err != nil {
			return fault.Op(err, "join %s", p.Rule.Name)
		}
	}
	return nil
}

// fits says whether the side is the one that the schema promised, and whether
// its keys can be equal to the training stream's.
func (p *probe) fits() error {
	if got := p.side.field.Type; !arrow.TypeEqual(got, p.field.Type) {
		return fault.New(fault.Internal, "a side of type %s was to be %s", got, p.field.Type)
	}
	ours, theirs := p.columns.encoder.types, p.side.types
	if len(ours) != len(theirs) {
		return fault.New(fault.Internal, "%d key columns against %d", len(ours), len(theirs))
	}
	for i, t := range ours {
		if t.family != theirs[i].family {
			training, staging := p.columns.fields[i], p.side.keys[i]
			return fault.New(fault.Invalid, "training column %s is %s and staging column %s is %s: no two values of them are equal",
				training.Name, training.Type, staging.Name, staging.Type).
				WithRemedy("join on columns of one type")
		}
	}
	return nil
}

// next returns the next batch, or nil at the end. The first training batch is
// asked for before the sides: a stream that decodes ahead then does so while
// the sides are built, and one without rows needs no side at all.
func (j *join) next() (arrow.RecordBatch, error) {
	for j.ctx.Err() == nil && j.training.Next() {
		record := j.training.RecordBatch()
		if record.NumRows() == 0 {
			continue
		}
		if !j.started {
			if err := j.start(); err != nil {
				return nil, err
			}
			j.started = true
		}
		out, err := j.batch(record)
		if err != nil || out.NumRows() > 0 {
			return out, err
		}
		out.Release()
	}
	return nil, fault.Op(ended(j.ctx, j.training), "join")
}

// batch joins one batch. What it returns may have no rows.
func (j *join) batch(record arrow.RecordBatch) (arrow.RecordBatch, error) {
	if err := checkTypes(j.training.Schema(), record); err != nil {
		return nil, fault.Op(err, "join")
	}
	for _, k := range j.encoders {
		for i, at := range k.at {
			k.arrays[i] = record.Column(at)
		}
		k.keys = k.encoder.encode(k.arrays)
	}
	columns := make([]arrow.Array, 0, j.schema.NumFields())
	for _, at := range j.in.Columns {
		columns = append(columns, record.Column(at))
	}
	plain := len(columns)
	defer func() {
		for _, c := range columns[plain:] {
			c.Release()
		}
	}()
	rows := int(record.NumRows())
	v := newVerdict(rows)
	met := make([]Counts, len(j.probes))
	for i, p := range j.probes {
		refs, column := p.references(rows, j.mem)
		columns = append(columns, column)
		met[i] = v.judge(p, refs)
	}
	if v.broken != nil {
		return nil, fault.Op(j.failure(v), "join %s", v.broken.Rule.Name)
	}
	for i, p := range j.probes {
		p.counts.Add(met[i])
	}
	j.rows += int64(rows)
	whole := array.NewRecordBatch(j.schema, columns, int64(rows))
	if v.drop == nil {
		return whole, nil
	}
	defer whole.Release()
	kept, err := batch.Filter(whole, v.kept(), j.mem)
	return kept, fault.Op(err, "drop the rows that an inner join lacks")
}

// references makes the dictionary column of a batch. refs is its memory, not
// yet written.
func (p *probe) references(rows int, mem memory.Allocator) ([]int32, arrow.Array) {
	buffer := memory.NewResizableBuffer(mem)
	defer buffer.Release()
	buffer.Resize(arrow.Int32Traits.BytesRequired(rows))
	d := array.NewDataWithDictionary(p.field.Type, rows, []*memory.Buffer{nil, buffer}, 0, 0,
		p.side.dictionary.Data().(*array.Data))
	defer d.Release()
	return arrow.Int32Traits.CastFromBytes(buffer.Bytes()), array.NewDictionaryData(d)
}

// close gives back what the join holds.
func (j *join) close() {
	if j.training != nil {
		j.training.Release()
		j.training = nil
	}
	for _, p := range j.probes {
		if p.side != nil {
			p.side.Release()
			p.side = nil
		}
	}
	for _, k := range j.encoders {
		k.keys = vector{}
	}
}
