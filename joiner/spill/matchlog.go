package spill

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// matchLog is what the training rows of one join match, on local disk.
//
// Each slice has a log of its own. Its entries are those of the slice's training
// rows, one each, in the order of the training stream: so the next entry of a
// slice is that of the next training row whose key belongs to the slice. A slice
// that has no rows, or that nobody asks, has no entries. An entry refers to
// staging rows of the slice's log, never of another's; the rows that one
// training row matches stand there one after the other, and as a rule entries
// refer to rows that come later and later. Whoever gets the log releases its
// store.
type matchLog struct {
	sliced *Sliced
	rule   joiner.Rule
	store  Store
	slices []sliceLog
}

// sliceLog is what the training rows of one slice match.
type sliceLog struct {
	entries batchList // see entrySchema
	rows    batchList // the staging rows that entries refer to, as a dictionary has them
	// The files of two of the several staging rows of the first training row
	// that has several, where that is an error.
	one, other string
}

// entrySchema has the columns of an entry.
func entrySchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		// The first staging row among the log's rows, counted from 1; 0 is none.
		{Name: "start", Type: arrow.PrimitiveTypes.Int32},
		// How many staging rows match, where they are several, else 0.
		{Name: "count", Type: arrow.PrimitiveTypes.Int32},
		// Bits of the key's hash: whether training rows come as they came before.
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
	spilled  func(bytes int64) // is told what the join writes to local disk
	log      *matchLog
	training *Parts            // the training rows' keys and times, by slice
	keys     *joiner.KeyReader // reads them there
	working  int64             // working memory
	portion  int64             // bytes of staging rows that are loaded at a time, of a slice that does not fit
	held     *budget.Reservation
	found    found // scratch
	slices   []int32
}

// writeLog reads the keys of the training rows of the join, and asks every slice
// about its own.
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
		time = new(-1) // which no stream has
		if len(training.Columns) > 0 {
			time = &training.Columns[0]
		}
		columns = append(columns, *time)
	}
	slices.Sort(columns)
	columns = slices.Compact(columns)

	parts := len(p.sliced.parts.parts)
	by := &keyPartition{key: key, time: time, columns: columns, slices: parts}
	w := &partWriter{in: training, by: by, opts: p.sliced.opts}
	// The rows of a stored batch of keys, and twice as many staging rows, fit in
	// memory: see writeWinners.
	w.mostRows = max(p.working/sliceShare/(2*p.sliced.parts.rowSize()), fewestEntries)
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
		return ctx.Err() // nobody asks, or there is nothing to find
	}
	w := newLogWriter(p, number)
	defer w.close()
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

// load makes a build side of stored staging rows.
func (p *matchPass) load(ctx context.Context, of *Parts, staging portion) (*joiner.BuildSide, error) {
	return joiner.Build(ctx, of.input(staging), p.sliced.spec, p.sliced.opts.Options)
}

// writeMatches writes what training rows match in a build side.
func (p *matchPass) writeMatches(ctx context.Context, built *joiner.BuildSide, training portion, w *logWriter) error {
	if err := p.match(ctx, built, training, w.addMatches); err != nil {
		return err
	}
	return w.flush()
}

// found is what a batch of training rows matches in a build side.
type found struct {
	*joiner.RowMatcher
	joiner.Matches
	refs   []int32 // by row: the reference of its staging row, or 0
	checks []int32 // by row: bits of the key's hash
}

// count returns how many staging rows match a row, where they are several, or
// else 0.
func (f *found) count(row int) int32 {
	if f.Counts == nil {
		return 0
	}
	return f.Counts[row]
}

// match matches training rows with a build side, and calls see after each batch
// of them with what was found, which is valid until it returns.
func (p *matchPass) match(ctx context.Context, built *joiner.BuildSide, training portion, see func(f *found) error) error {
	f := &p.found
	f.RowMatcher = built.NewRowMatcher(ctx, p.rule)
	defer f.Close()
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
		if f.Matches, err = f.Match(keys, f.refs); err != nil {
			return err
		}
		if err := see(f); err != nil {
			return err
		}
	}
	return reader.Err()
}

// resize returns scratch of n values, of any content.
func resize[T any](scratch []T, n int) []T { return slices.Grow(scratch[:0], n)[:n] }
