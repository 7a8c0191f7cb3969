package spill

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// matchLog holds the matches of one join's training rows, on local disk.
//
// Each slice has a log of its own. The slice's log has one entry for each training row whose key
// belongs to the slice, in the order of the training stream. A slice without staging rows or
// without training rows has no entries. An entry refers only to staging rows in the same slice's
// log. The rows that match one training row are adjacent, and the rows of later entries usually
// follow. The owner of the log releases its store.
type matchLog struct {
	sliced *Sliced
	rule   joiner.Rule
	store  Store
	slices []sliceLog
}

// sliceLog holds the matches of one slice's training rows.
type sliceLog struct {
	entries batchList // see entrySchema
	rows    batchList // the staging rows to which entries refer, as fields of a dictionary
	// The files of two matches of the first training row that has several matches, if several
	// matches are an error.
	one, other string
}

// entrySchema has the columns of an entry.
func entrySchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		// The position of the first staging row in the log plus 1; 0 means no staging row.
		{Name: "start", Type: arrow.PrimitiveTypes.Int32},
		// The number of matching staging rows if there are several, otherwise 0.
		{Name: "count", Type: arrow.PrimitiveTypes.Int32},
		// Bits of the key's hash, to detect training rows that changed.
		{Name: "check", Type: arrow.PrimitiveTypes.Int32},
	}, nil)
}

// Positions in entrySchema.
const (
	entryStart = iota
	entryCount
	entryCheck
)

// entrySize is the bytes of an entry in memory.
const entrySize = 3 * 4

// matchPass is the first pass of one join, which writes its match log.
type matchPass struct {
	sliced   *Sliced
	rule     joiner.Rule
	spilled  func(bytes int64) // called with the bytes that the join writes to local disk
	log      *matchLog
	training *Partitions       // the training rows' keys and times, by slice
	keys     *joiner.KeyReader // reads the batches of training
	working  int64             // working memory
	portion  int64             // maximum bytes of a portion of a slice that does not fit
	held     *budget.Reservation
	found    found // scratch
	slices   []int32
}

// writeLog reads the keys of the join's training rows, and writes the matches slice by slice.
func (s *probedSlices) writeLog(ctx context.Context, rule joiner.Rule) (*matchLog, error) {
	held, err := s.opts.Budget.Reserve(s.spec.Name, 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	p := &matchPass{sliced: s.Sliced, rule: rule, spilled: s.spilled, held: held, working: s.opts.workingMemory()}
	p.portion = p.working / sliceShare
	if err := p.sliceTraining(ctx, s.training); err != nil {
		return nil, err
	}
	defer p.training.Release()
	store, err := s.opts.Disk(s.spec.Name)
	if err != nil {
		return nil, err
	}
	p.log = &matchLog{sliced: s.Sliced, rule: rule, store: store, slices: make([]sliceLog, len(s.parts.parts))}
	for i := range p.log.slices {
		if err := p.writeSlice(ctx, i); err != nil {
			store.Release()
			return nil, err
		}
	}
	p.spilled(p.training.Bytes() + store.Bytes())
	return p.log, nil
}

// sliceTraining reads the training rows' keys and times, and writes them by
// slice.
func (p *matchPass) sliceTraining(ctx context.Context, training joiner.Input) error {
	key, columns := training.Key, slices.Clone(training.Key)
	var time *int
	if p.rule.Time != nil {
		time = new(-1) // a column that no stream has
		if len(training.Columns) > 0 {
			time = &training.Columns[0]
		}
		columns = append(columns, *time)
	}
	slices.Sort(columns)
	columns = slices.Compact(columns)

	parts := len(p.sliced.parts.parts)
	by := &keyPartitioner{key: key, time: time, columns: columns, slices: parts}
	w := &partitionWriter{in: training, by: by, opts: p.sliced.opts}
	// A stored batch of keys must fit in memory together with twice as many staging rows: see
	// writeWinners.
	w.maxRows = max(p.working/sliceShare/(2*p.sliced.parts.rowSize()), minEntries)
	var err error
	if p.training, err = w.write(ctx, parts); err != nil {
		return err
	}
	if time != nil {
		time = new(slices.Index(columns, *time))
	}
	p.keys, err = joiner.NewKeyReader(p.training.schema, moved(key, columns), time)
	if err != nil {
		p.training.Release()
	}
	return err
}

// writeSlice writes the log of one slice.
func (p *matchPass) writeSlice(ctx context.Context, number int) error {
	training, staging := &p.training.parts[number], &p.sliced.parts.parts[number]
	if training.rows == 0 || staging.rows == 0 {
		return ctx.Err() // no training rows, or no staging rows
	}
	w := newLogWriter(p, number)
	defer w.release()
	if staging.bytes <= p.working/sliceShare*2 {
		built, err := p.load(ctx, p.sliced.parts, staging.batches)
		if err == nil {
			defer built.Release()
			return p.writeMatches(ctx, built, training.batches, w)
		}
		if fault.KindOf(err) != fault.Exhausted {
			return err
		}
	}
	if p.rule.Multiplies() {
		return p.writeAll(ctx, training.batches, staging.batches, w)
	}
	return p.writeWinners(ctx, training.batches, staging.batches, w)
}

// load builds a build side from stored staging rows.
func (p *matchPass) load(ctx context.Context, of *Partitions, staging portion) (*joiner.BuildSide, error) {
	return joiner.Build(ctx, of.input(staging), p.sliced.spec, p.sliced.opts.Options)
}

// writeMatches writes the matches of training rows in a build side.
func (p *matchPass) writeMatches(ctx context.Context, built *joiner.BuildSide, training portion, w *logWriter) error {
	if err := p.match(ctx, built, training, w.addMatches); err != nil {
		return err
	}
	return w.flush()
}

// appendRows writes rows as one batch of the only partition of to. segments has the segments of each column. The memory of the batch is
// reserved meanwhile.
func (p *matchPass) appendRows(to *Partitions, segments [][]batch.Segment, rows int) error {
	before := p.held.Held()
	defer func() { p.held.Shrink(p.held.Held() - before) }()
	b, err := gatherRows(to.schema, segments, rows, p.sliced.opts.allocator(), p.held.Grow)
	if err != nil {
		return err
	}
	defer b.Release()
	return to.parts[0].append(to.store, b)
}

// found holds the matches of a batch of training rows in a build side.
type found struct {
	*joiner.RowMatcher
	joiner.Matches
	refs   []int32 // by row: the reference of its staging row, or 0
	checks []int32 // by row: bits of the key's hash
}

// count returns the number of matches of a row if there are several, otherwise 0.
func (f *found) count(row int) int32 {
	if f.Counts == nil {
		return 0
	}
	return f.Counts[row]
}

// match matches training rows with a build side. It calls see with the matches of each batch; the
// matches are valid until see returns.
func (p *matchPass) match(ctx context.Context, built *joiner.BuildSide, training portion, see func(f *found) error) error {
	f := &p.found
	f.RowMatcher = built.NewRowMatcher(p.rule)
	defer f.Release()
	reader, err := p.training.open(ctx, training)
	if err != nil {
		return err
	}
	defer reader.Release()
	for reader.Next() {
		keys := p.keys.Read(reader.RecordBatch())
		rows := keys.Rows()
		f.refs, f.checks, p.slices = resize(f.refs, rows), resize(f.checks, rows), resize(p.slices, rows)
		keys.Slice(1, p.slices, f.checks)
		if f.Matches, err = f.Match(ctx, keys, f.refs); err != nil {
			return err
		}
		if err := see(f); err != nil {
			return err
		}
	}
	return reader.Err()
}

// resize returns a slice of n values with undefined content, reusing scratch.
func resize[T any](scratch []T, n int) []T { return slices.Grow(scratch[:0], n)[:n] }
