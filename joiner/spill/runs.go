package spill

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/joiner"
)

// writeAll writes the matches of training rows if the rule returns all matches. The rows of a group
// are spread over portions. So the matching rows of each portion are first copied, in runs. Then
// the runs of each training row are combined: they are concatenated in the order of the portions,
// in which the rows arrived, or merged by the order columns. A round has as many training rows as
// fit in memory together with their runs.
func (p *matchPass) writeAll(ctx context.Context, training, staging portion, w *logWriter) error {
	w.setRowSize(staging.bytes() / staging.rows())
	return p.eachRound(training, runSize, func(round portion, store Store) error {
		return p.allRound(ctx, round, staging, store, w)
	})
}

func (p *matchPass) allRound(ctx context.Context, training, staging portion, store Store, w *logWriter) error {
	c := &runCollector{logWriter: w, runs: make([][]run, training.rows())}
	defer c.release()
	if err := c.reserve(training.rows() * runSize); err != nil {
		return err
	}
	err := p.eachPortion(ctx, staging, func(built *joiner.BuildSide, rows portion) error {
		taken, err := c.collect(ctx, built, training)
		if err != nil {
			return err
		}
		to := p.sliced.parts.emptyIn(store)
		c.copies = append(c.copies, to)
		return c.copyRows(rows, taken, to)
	})
	if err != nil {
		return err
	}
	p.spilled(store.Bytes())
	return c.writeEntries(ctx)
}

// run is the staging rows of one portion that match one training row, in order.
type run struct {
	portion int
	from    int64 // the run's first row among the rows that were copied from the portion
	rows    int64
	time    int64 // the time of the rows, if the rule has a time
}

// runSize is an upper bound of the bytes of a run, its list, and an entry.
const runSize = 96

// runCollector collects the runs of a round of training rows.
type runCollector struct {
	*logWriter
	runs   [][]run       // by training row
	checks []int32       // by training row
	copies []*Partitions // by portion: the rows that were copied from it
	bytes  int64         // reserved
}

func (c *runCollector) reserve(n int64) error {
	err := c.pass.held.Grow(n)
	if err == nil {
		c.bytes += n
	}
	return err
}

func (c *runCollector) unreserve(n int64) {
	c.pass.held.Shrink(n)
	c.bytes -= n
}

func (c *runCollector) release() { c.unreserve(c.bytes) }

// collect adds the runs of a portion to those of the training rows. It returns the rows
// of the portion that are in runs, run by run.
func (c *runCollector) collect(ctx context.Context, built *joiner.BuildSide, training portion) ([]int32, error) {
	p := &portionRuns{number: len(c.copies), begun: map[int32]int64{}}
	if c.pass.rule.Time != nil {
		p.time = built.Time
	}
	row, more := 0, int64(0)
	c.checks = c.checks[:0]
	err := c.pass.match(ctx, built, training, func(f *found) error {
		c.checks = append(c.checks, f.checks...)
		for i, ref := range f.refs {
			if ref != 0 {
				c.runs[row] = addRun(c.runs[row], p.runOf(f, i))
				more++
			}
			row++
		}
		return nil
	})
	if err == nil {
		err = c.reserve(more * runSize)
	}
	return p.rows, err
}

// portionRuns holds the runs of one portion. Training rows that match the same rows of the portion
// share a run.
type portionRuns struct {
	number int
	time   func(row int32) int64 // returns the time of a staging row; nil if the rule has no time
	rows   []int32               // the rows of all runs, run by run
	begun  map[int32]int64       // by reference of the training row: where its run starts in rows
}

// runOf returns the run of a training row that has a match.
func (p *portionRuns) runOf(f *found, row int) run {
	ref := f.refs[row]
	single := [1]int32{ref - 1}
	rows := f.Members(row)
	if rows == nil {
		rows = single[:]
	}
	from, ok := p.begun[ref]
	if !ok {
		from = int64(len(p.rows))
		p.begun[ref] = from
		p.rows = append(p.rows, rows...)
	}
	r := run{portion: p.number, from: from, rows: int64(len(rows))}
	if p.time != nil {
		r.time = p.time(ref - 1)
	}
	return r
}

// addRun adds a run to the runs of a training row. Only runs with the latest time are kept.
func addRun(runs []run, r run) []run {
	switch {
	case len(runs) == 0 || runs[0].time == r.time:
		return append(runs, r)
	case runs[0].time < r.time:
		return append(runs[:0], r)
	default:
		return runs
	}
}

// copyRows writes rows of a portion, in the given order.
func (c *runCollector) copyRows(from portion, rows []int32, to *Partitions) error {
	bytes := from.bytes()
	if err := c.reserve(bytes); err != nil {
		return err
	}
	defer c.unreserve(bytes)
	var batches []arrow.RecordBatch
	defer func() {
		for _, b := range batches {
			b.Release()
		}
	}()
	for _, x := range from {
		b, err := c.pass.sliced.parts.store.Read(x.number)
		if err != nil {
			return err
		}
		batches = append(batches, b)
	}
	for len(rows) > 0 {
		some := rows[:min(len(rows), c.maxRows)]
		rows = rows[len(some):]
		if err := c.copyBatch(from, batches, some, to); err != nil {
			return err
		}
	}
	return nil
}

// copyBatch writes rows of a portion as one batch. batches has the portion's batches.
func (c *runCollector) copyBatch(from portion, batches []arrow.RecordBatch, rows []int32, to *Partitions) error {
	segments := make([][]batch.Segment, to.schema.NumFields())
	last := -1
	for _, row := range rows {
		i, at := from.find(int64(row))
		for column := range segments {
			if i != last {
				segments[column] = append(segments[column], batch.Segment{Values: batches[i].Column(column)})
			}
			s := &segments[column][len(segments[column])-1]
			s.Indices = append(s.Indices, int32(at))
		}
		last = i
	}
	return c.pass.appendRows(to, segments, len(rows))
}

// writeEntries writes the entries of the round.
func (c *runCollector) writeEntries(ctx context.Context) error {
	m, err := newRunMerger(c)
	if err != nil {
		return err
	}
	defer m.release()
	for row, runs := range c.runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		count, start := int64(0), int32(0)
		for _, r := range runs {
			count += r.rows
		}
		if count > 0 {
			if start, err = m.groupOf(runs, count); err != nil {
				return err
			}
		}
		if count == 1 {
			count = 0
		}
		if err := c.addEntry(start, int32(count), c.checks[row]); err != nil {
			return err
		}
	}
	return c.flush() // must be done before the batches of added rows are released
}

// dictionaryRows returns stored rows as a struct array, in the form of a dictionary.
func (c *runCollector) dictionaryRows(b arrow.RecordBatch) *array.Struct {
	rows := int(b.NumRows())
	var fields []arrow.ArrayData
	for _, at := range c.pass.sliced.parts.in.Columns {
		fields = append(fields, b.Column(at).Data())
	}
	if c.pass.sliced.spec.Matched != "" {
		bits := make([]byte, bitutil.BytesForBits(int64(rows)))
		bitutil.SetBitsTo(bits, 0, int64(rows), true)
		matched := array.NewData(arrow.FixedWidthTypes.Boolean, rows, []*memory.Buffer{nil, memory.NewBufferBytes(bits)}, nil, 0, 0)
		defer matched.Release()
		fields = append(fields, matched)
	}
	whole := array.NewData(c.rowType, rows, []*memory.Buffer{nil}, fields, 0, 0)
	defer whole.Release()
	return array.NewStructData(whole)
}
