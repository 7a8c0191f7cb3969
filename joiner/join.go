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

// Reader is the joined stream: training columns, then one dictionary column per
// probe, in their order. It follows the ownership rule of record readers. The last
// Release cancels, and releases the training stream and the build sides. It reserves no
// memory itself: the build sides have reserved what they hold, and live as long as it.
type Reader struct {
	array.RecordReader
	join *join
}

// Join opens the training stream and returns the joined stream. Nothing is read and
// no build side is opened before the first Next. An input or build side that fails
// ends the stream with its error; a batch is never short.
//
// Each probe is applied to every training row, in the given order; then rows that
// some kind of join does not keep are dropped. Rows keep their order. Repetitions of
// a training row are in the order of its staging rows, those of the first probe
// varying slowest. Batches are those of the training stream without the dropped rows,
// and never empty; batches with repeated rows are split. Dictionaries may differ from
// batch to batch.
func Join(ctx context.Context, training Input, probes []Probe, opts Options) (*Reader, error) {
	ctx, cancel := context.WithCancel(ctx)
	j := &join{in: training, mem: opts.memory()}
	if err := j.open(ctx, probes); err != nil {
		cancel()
		j.release()
		return nil, fault.Op(err, "join")
	}
	release := func() {
		cancel()
		j.release()
	}
	return &Reader{batch.Guard(batch.FromFuncContext(ctx, j.schema, j.next, release)), j}, nil
}

// Counts returns the counts of each probe so far, in the given order, without the rows
// of a batch that failed. During a Next only the training stream may call it; it then
// counts all rows that this stream returned before.
func (r *Reader) Counts() []Counts {
	counts := make([]Counts, len(r.join.probes))
	for i, p := range r.join.probes {
		counts[i] = p.counts
	}
	return counts
}

// join is the state of a Reader.
type join struct {
	in        Input
	mem       memory.Allocator
	training  array.RecordReader
	schema    *arrow.Schema
	probes    []*probe
	keys      []*keyColumns // probes with the same key columns share one
	times     []*timeColumn
	overlays  [][]overlay // by training column of the result: what replaces it
	expansion *expansion  // the rest of the current batch; nil if none
	started   bool
	rows      int64 // training rows before the current batch
}

// open opens the training stream and determines the result's schema.
func (j *join) open(ctx context.Context, probes []Probe) error {
	var err error
	if j.training, err = j.in.open(ctx); err != nil {
		return err
	}
	schema := j.training.Schema()
	fields, err := fieldsAt(schema, j.in.Columns)
	if err != nil {
		return err
	}
	j.overlays = make([][]overlay, len(fields))
	for _, given := range probes {
		if err := given.Rule.check(); err != nil {
			return fault.Op(err, "%s", given.Rule.Name)
		}
		p := &probe{Probe: given, field: fieldOf(given.Rule.Name, given.Columns, given.Matched)}
		if p.columns, err = j.keyColumns(schema, given.Key); err != nil {
			return fault.Op(err, "%s", given.Rule.Name)
		}
		if given.Rule.Time != nil {
			if p.time, err = j.timeColumn(schema, given.Rule.Time.Column); err != nil {
				return fault.Op(err, "%s", given.Rule.Name)
			}
		}
		j.probes = append(j.probes, p)
		if err := j.addOverlays(p, fields); err != nil {
			return err
		}
	}
	for _, p := range j.probes {
		fields = append(fields, p.field)
	}
	j.schema = arrow.NewSchema(fields, nil)
	return nil
}

func (j *join) keyColumns(schema *arrow.Schema, at []int) (*keyColumns, error) {
	for _, k := range j.keys {
		if slices.Equal(k.at, at) {
			return k, nil
		}
	}
	k, err := newKeyColumns(schema, at)
	if err == nil {
		j.keys = append(j.keys, k)
	}
	return k, err
}

func (j *join) timeColumn(schema *arrow.Schema, at int) (*timeColumn, error) {
	for _, c := range j.times {
		if c.at == at {
			return c, nil
		}
	}
	c, err := newTimeColumn(schema, at)
	if err == nil {
		j.times = append(j.times, c)
	}
	return c, err
}

// start opens the build sides, in order.
func (j *join) start(ctx context.Context) error {
	for _, p := range j.probes {
		built, err := p.BuildSide(ctx)
		if err != nil {
			return fault.Op(err, "join %s", p.Rule.Name)
		}
		if built == nil {
			return fault.New(fault.Internal, "%s has no build side", p.Rule.Name)
		}
		p.probed, p.schema = built, built.Schema()
		if err := p.fits(); err != nil {
			return fault.Op(err, "join %s", p.Rule.Name)
		}
		if p.matcher, err = built.NewMatcher(ctx, p.Rule); err != nil {
			return fault.Op(err, "join %s", p.Rule.Name)
		}
	}
	return nil
}

// next returns the next batch, or nil at the end. It reads the first training batch
// before it opens the build sides, so that a stream that prefetches does so while
// they are built, and a stream without rows needs none.
func (j *join) next(ctx context.Context) (arrow.RecordBatch, error) {
	for {
		if j.expansion != nil {
			out, err := j.expand(ctx)
			if out != nil || err != nil {
				return out, err
			}
		}
		if ctx.Err() != nil || !j.training.Next() {
			return nil, fault.Op(ended(ctx, j.training), "join")
		}
		record := j.training.RecordBatch()
		if record.NumRows() == 0 {
			continue
		}
		if !j.started {
			if err := j.start(ctx); err != nil {
				return nil, err
			}
			j.started = true
		}
		out, err := j.batch(ctx, record)
		if err != nil || out != nil {
			return out, err
		}
	}
}

// batch joins one batch. It returns nil if no row is kept, or if rows are repeated and
// the expansion returns them.
func (j *join) batch(ctx context.Context, record arrow.RecordBatch) (arrow.RecordBatch, error) {
	if err := (Input{}).checkTypes(j.training.Schema(), record); err != nil {
		return nil, fault.Op(err, "join")
	}
	v, err := j.match(ctx, record)
	if err != nil {
		return nil, err
	}
	if v.broken != nil {
		return nil, fault.Op(j.failure(v), "join %s", v.broken.Rule.Name)
	}
	for i, p := range j.probes {
		p.counts.Add(v.counts[i])
	}
	j.rows += int64(v.rows)
	if v.repeats {
		j.expansion = &expansion{record: record, drop: v.drop}
		return nil, nil
	}
	keep := v.keptRows()
	if keep != nil && len(keep) == 0 {
		return nil, nil
	}
	whole, err := j.assemble(record)
	if err != nil || keep == nil {
		return whole, err
	}
	defer whole.Release()
	kept, err := batch.Filter(whole, keep, j.mem)
	return kept, fault.Op(err, "drop rows that the join does not keep")
}

// match matches a batch with all build sides.
func (j *join) match(ctx context.Context, record arrow.RecordBatch) (*verdict, error) {
	for _, k := range j.keys {
		k.load(record)
	}
	for _, c := range j.times {
		c.load(record.Column(c.at))
	}
	v := newVerdict(int(record.NumRows()))
	for _, p := range j.probes {
		p.newRefs(v.rows, j.mem)
		p.keys = keysOf(record, p.columns, p.time)
		var err error
		if p.matches, err = p.matcher.Match(ctx, &p.keys, p.refs); err != nil {
			return nil, fault.Op(err, "join %s", p.Rule.Name)
		}
		v.judge(p)
	}
	return v, nil
}

// assemble returns the result of a training batch whose rows are not repeated.
func (j *join) assemble(record arrow.RecordBatch) (arrow.RecordBatch, error) {
	var made []arrow.Array
	defer func() {
		for _, c := range made {
			c.Release()
		}
	}()
	columns := make([]arrow.Array, 0, j.schema.NumFields())
	for i, at := range j.in.Columns {
		column := record.Column(at)
		if len(j.overlays[i]) > 0 {
			var err error
			if column, err = j.overlayColumn(column, nil, j.overlays[i], j.batchReferences()); err != nil {
				return nil, err
			}
			made = append(made, column)
		}
		columns = append(columns, column)
	}
	for _, p := range j.probes {
		column := p.dictionary(p.buffer, p.matches.Dictionary, int(record.NumRows()))
		made = append(made, column)
		columns = append(columns, column)
	}
	return array.NewRecordBatch(j.schema, columns, record.NumRows()), nil
}

// release releases what the join holds.
func (j *join) release() {
	if j.training != nil {
		j.training.Release()
		j.training = nil
	}
	for _, p := range j.probes {
		p.release()
	}
	for _, k := range j.keys {
		k.keys = keyVector{}
	}
	for _, c := range j.times {
		c.times = times{}
	}
	j.expansion = nil
}
