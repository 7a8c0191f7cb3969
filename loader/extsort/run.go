package extsort

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/sortkey"
)

// sortedRun has rows on disk, partition by partition; the rows of each partition are sorted.
type sortedRun struct {
	store    RunStore
	parts    map[int32][]runBatch // by the number of the partition
	maxBytes int64                // maximum memory that a batch takes when it is read
	overhead int64                // memory reserved for parts, and for what the store keeps about each batch
}

// runBatch is a batch of a sortedRun.
type runBatch struct {
	number int32
	rows   int32
}

// batchOverhead is the memory of a batch on disk.
const batchOverhead = 128

func releaseRuns(runs []*sortedRun) {
	for _, r := range runs {
		r.store.Release()
	}
}

// add appends a batch to the batches of a partition.
func (r *sortedRun) add(part int32, b runBatch) {
	r.parts[part] = append(r.parts[part], b)
	r.maxBytes = max(r.maxBytes, r.store.Size(int(b.number)))
}

// sortRows sorts the rows in memory by partition and key. The rows of partition p are
// entries[starts[p]:starts[p+1]].
func (s *Sorter) sortRows(ctx context.Context) (entries []sortkey.SortEntry, starts []int, err error) {
	starts = make([]int, s.divider.Len()+1)
	keys := make([]*sortkey.RowKeys, len(s.rows.blocks))
	for i, b := range s.rows.blocks {
		keys[i] = b.key
		for _, p := range b.partitions {
			starts[p+1]++
		}
	}
	for p := range s.divider.Len() {
		starts[p+1] += starts[p]
	}
	entries = make([]sortkey.SortEntry, s.rows.rows)
	scratch := make([]sortkey.SortEntry, s.rows.rows)
	var chunks []uint64
	for i, b := range s.rows.blocks {
		chunks = append(chunks[:0], make([]uint64, b.rows)...)
		b.key.FirstChunks(chunks)
		for row, p := range b.partitions {
			entries[starts[p]] = sortkey.SortEntry{Chunk: chunks[row], Batch: int32(i), Row: int32(row)}
			starts[p]++ // the start of a partition becomes its end
		}
	}
	copy(starts[1:], starts)
	starts[0] = 0
	err = parallel(ctx, s.opts.Threads, s.divider.Len(), func(_ context.Context, p int) error {
		from, to := starts[p], starts[p+1]
		sortkey.Sort(entries[from:to], scratch[from:to], keys)
		return nil
	})
	return entries, starts, err
}

// parallel calls do with the numbers 0 to n-1, in several goroutines. All of them have ended when
// it returns.
func parallel(ctx context.Context, threads, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(threads, n) {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// spill writes the rows in memory as a sorted run.
func (s *Sorter) spill(ctx context.Context) error {
	entries, starts, err := s.sortRows(ctx)
	if err != nil {
		return err
	}
	store, err := s.opts.Disk(what)
	if err != nil {
		return err
	}
	run := &sortedRun{store: store, parts: map[int32][]runBatch{}}
	s.runs = append(s.runs, run)
	s.counts.Runs++
	w := &runWriter{sorter: s, store: store, entries: entries, columns: columnsOf(s.Schema(), s.rows.blocks)}
	w.divide(starts, s.rows.bytes/int64(s.rows.rows)+1)
	if err := parallel(ctx, s.opts.Threads, len(w.slices), w.write); err != nil {
		return err
	}
	for _, slice := range w.slices {
		for _, b := range slice.written {
			run.add(slice.part, b)
			run.overhead += batchOverhead
		}
	}
	s.counts.BytesSpilled += store.Bytes()
	bytes := s.rows.bytes
	s.rows.release()
	s.held.Shrink(bytes)
	s.spare.Shrink(s.spare.Held())
	return s.held.GrowWait(ctx, run.overhead)
}

// columnsOf returns the arrays of each column of all blocks.
func columnsOf(schema *arrow.Schema, blocks []*rowBlock) [][]arrow.Array {
	columns := make([][]arrow.Array, schema.NumFields())
	for i := range columns {
		for _, b := range blocks {
			columns[i] = append(columns[i], b.columns[i])
		}
	}
	return columns
}

// runWriter writes sorted rows. Several goroutines write slices of them at once.
type runWriter struct {
	sorter  *Sorter
	store   RunStore
	entries []sortkey.SortEntry
	columns [][]arrow.Array
	slices  []runSlice
}

// runSlice is consecutive rows of one partition.
type runSlice struct {
	part     int32
	from, to int
	written  []runBatch
}

// divide divides the rows into slices that have about the bytes of a stored batch each.
func (w *runWriter) divide(starts []int, rowBytes int64) {
	rows := int(max(w.sorter.memory.stored/rowBytes, 1))
	for p := range len(starts) - 1 {
		for from := starts[p]; from < starts[p+1]; from += rows {
			w.slices = append(w.slices, runSlice{part: int32(p), from: from, to: min(from+rows, starts[p+1])})
		}
	}
}

// write writes one slice.
func (w *runWriter) write(ctx context.Context, i int) error {
	slice := &w.slices[i]
	n := slice.to - slice.from
	which, at := make([]int32, n), make([]int32, n)
	for k, e := range w.entries[slice.from:slice.to] {
		which[k], at[k] = e.Batch, e.Row
	}
	return w.writeRows(ctx, slice, which, at)
}

// writeRows writes rows of a slice. If the rows have more bytes than expected, it writes several
// batches.
func (w *runWriter) writeRows(ctx context.Context, slice *runSlice, which, at []int32) error {
	s := w.sorter
	chosen, err := choose(s.Schema(), w.columns, which, at, s.opts.Memory)
	if err != nil {
		return err
	}
	switch n := len(at); {
	case chosen.bytes > (copies-1)*s.memory.stored && n > 1:
		if err := w.writeRows(ctx, slice, which[:n/2], at[:n/2]); err != nil {
			return err
		}
		return w.writeRows(ctx, slice, which[n/2:], at[n/2:])
	case chosen.bytes > copies*s.memory.stored: // a long row
		if err := s.held.GrowWait(ctx, chosen.bytes); err != nil {
			return err
		}
		defer s.held.Shrink(chosen.bytes)
	}
	b, err := chosen.gather()
	if err != nil {
		return err
	}
	defer b.Release()
	number, err := w.store.Append(b)
	if err != nil {
		return err
	}
	slice.written = append(slice.written, runBatch{number: int32(number), rows: int32(len(at))})
	return nil
}

// chosenRows are rows of several sources that become one batch.
type chosenRows struct {
	schema  *arrow.Schema
	columns [][]arrow.Array // for each column, the arrays of all sources
	choice  *batch.Choice
	rows    int
	bytes   int64 // an upper bound of what gather allocates
}

// choiceBytes is the memory for choosing a row, besides the row's values.
const choiceBytes = 20

// choose chooses the rows to copy: for each i, row at[i] of source which[i].
func choose(schema *arrow.Schema, columns [][]arrow.Array, which, at []int32, mem memory.Allocator) (*chosenRows, error) {
	c := &chosenRows{schema: schema, columns: columns, rows: len(at), bytes: int64(len(at) * choiceBytes)}
	if len(columns) == 0 {
		return c, nil
	}
	var err error
	if c.choice, err = batch.NewChoice(len(columns[0]), which, at, mem); err != nil {
		return nil, err
	}
	for i, sources := range columns {
		bytes, err := c.choice.Size(schema.Field(i).Type, sources)
		if err != nil {
			return nil, err
		}
		c.bytes += bytes
	}
	return c, nil
}

// gather copies the rows.
func (c *chosenRows) gather() (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, len(c.columns))
	defer func() {
		for _, column := range columns {
			column.Release()
		}
	}()
	for i, sources := range c.columns {
		column, err := c.choice.Column(c.schema.Field(i).Type, sources)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	return array.NewRecordBatch(c.schema, columns, int64(c.rows)), nil
}
