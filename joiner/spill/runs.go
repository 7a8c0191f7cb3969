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

// writeAll writes what training rows match that take all their staging rows. The
// rows of a group lie in portion after portion. So of each portion the rows that
// are taken are copied first, in runs; then the runs of each training row are put
// together: in the order of the portions, which is that of arrival, or merged by
// the order columns. A round is as many training rows as leave room for their
// runs.
func (p *matchPass) writeAll(ctx context.Context, training, staging portion, w *logWriter) error {
	w.setRowSize(staging.bytes() / staging.rows())
	for len(training) > 0 {
		round := training.upTo(p.working/sliceShare, func(x storedBatch) int64 { return runSize * x.rows })
		if err := p.allRound(ctx, round, staging, w); err != nil {
			return err
		}
		training = training[len(round):]
	}
	return nil
}

func (p *matchPass) allRound(ctx context.Context, training, staging portion, w *logWriter) error {
	store, err := p.sliced.opts.Disk(p.sliced.spec.Name)
	if err != nil {
		return err
	}
	defer store.Release()
	c := &runCollector{logWriter: w, runs: make([][]run, training.rows())}
	defer c.close()
	if err := c.reserve(training.rows() * runSize); err != nil {
		return err
	}
	err = p.eachPortion(ctx, staging, func(built *joiner.BuildSide, rows portion) error {
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
	p.sliced.spilled.Add(store.Bytes())
	return c.writeEntries(ctx)
}

// run is the staging rows that one training row takes of one portion, in their
// order.
type run struct {
	portion int
	from    int64 // among the rows that were copied of the portion
	rows    int64
	time    int64 // of the rows, if the rule has a time
}

// runSize bounds the bytes of a run, its place in lists, and an entry.
const runSize = 96

// runCollector finds the runs of a round of training rows.
type runCollector struct {
	*logWriter
	runs   [][]run  // by training row
	checks []int32  // by training row
	copies []*Parts // by portion, the rows that were copied of it
	bytes  int64    // reserved
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

func (c *runCollector) close() { c.unreserve(c.bytes) }

// collect adds the runs of a portion to those of the training rows. It returns
// the rows of the portion that they consist of, run after run.
func (c *runCollector) collect(ctx context.Context, built *joiner.BuildSide, training portion) ([]int32, error) {
	var taken []int32
	begun := map[int32]int64{} // by reference, where the run begins in taken
	row, more := 0, int64(0)
	c.checks = c.checks[:0]
	err := c.pass.match(ctx, built, training, func(f *found) error {
		c.checks = append(c.checks, f.checks...)
		for i, ref := range f.refs {
			if ref != 0 {
				rows := f.Members(i)
				if rows == nil {
					rows = []int32{ref - 1}
				}
				from, ok := begun[ref]
				if !ok {
					from = int64(len(taken))
					begun[ref] = from
					taken = append(taken, rows...)
				}
				c.addRun(row, built, ref, run{portion: len(c.copies), from: from, rows: int64(len(rows))})
				more += runSize
			}
			row++
		}
		return nil
	})
	if err == nil {
		err = c.reserve(more)
	}
	return taken, err
}

// addRun adds a run to those of a training row, of which only those of the
// latest time count.
func (c *runCollector) addRun(row int, built *joiner.BuildSide, ref int32, r run) {
	if c.pass.rule.Time != nil {
		r.time = built.Time(ref - 1)
	}
	runs := c.runs[row]
	switch {
	case len(runs) == 0 || runs[0].time == r.time:
		c.runs[row] = append(runs, r)
	case runs[0].time < r.time:
		c.runs[row] = append(runs[:0], r)
	}
}

// copyRows writes rows of a portion, in the order in which they are listed.
func (c *runCollector) copyRows(from portion, rows []int32, to *Parts) error {
	bytes := from.bytes() + c.mostBytes
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
		some := rows[:min(len(rows), c.mostRows)]
		rows = rows[len(some):]
		if err := c.copyBatch(from, batches, some, to); err != nil {
			return err
		}
	}
	return nil
}

// copyBatch writes rows of a portion, whose batches are given, as one batch.
func (c *runCollector) copyBatch(from portion, batches []arrow.RecordBatch, rows []int32, to *Parts) error {
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
	b, err := gatherRows(to.schema, segments, 0, len(rows), c.pass.sliced.opts.allocator())
	if err != nil {
		return err
	}
	defer b.Release()
	return to.parts[0].append(to.store, b)
}

// writeEntries writes the entries of the round.
func (c *runCollector) writeEntries(ctx context.Context) error {
	m, err := newRunMerger(c)
	if err != nil {
		return err
	}
	defer m.close()
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
	return c.flush() // before the batches close that rows were added of
}

// dictionaryRows returns stored rows as a dictionary has them.
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
