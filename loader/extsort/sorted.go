package extsort

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/sortkey"
)

// Sorted is the rows of a stream by partition and key. Its methods are safe for concurrent use.
type Sorted struct {
	order      ordering
	partitions []Partition
	numbers    []int32 // of the partitions
	counts     SortCounts
	held       *budget.Reservation // for everything except what readers hold
	spare      *budget.Reservation // of Options.Spare

	// Rows are either in memory, or in runs in the order in which they were added.
	rows    collection
	entries []sortkey.SortEntry
	starts  []int // index of the first entry of each partition, by the partition's number
	runs    []*sortedRun
}

// ordering is the state that all reads of sorted rows share.
type ordering struct {
	schema *arrow.Schema
	spec   *sortkey.KeySpec
	sort   []int // the columns to sort by
	opts   Options
}

// finish sorts the rows in memory. If there are rows on disk, it writes the rows in memory to disk,
// too.
func (s *Sorter) finish(ctx context.Context) (*Sorted, error) {
	out := &Sorted{order: ordering{schema: s.Schema(), spec: s.order, sort: s.sort, opts: s.opts}, held: s.held, spare: s.spare}
	switch {
	case len(s.runs) == 0:
		var err error
		if out.entries, out.starts, err = s.sortRows(ctx); err != nil {
			return nil, err
		}
		s.held.Shrink(int64(s.rows.rows) * sortkey.EntryBytes) // scratch
	case s.rows.rows > 0:
		if err := s.spill(ctx); err != nil {
			return nil, err
		}
	}
	if s.begun {
		s.held.Shrink(s.memory.room)
	}
	if err := s.mergeRuns(ctx); err != nil {
		return nil, err
	}
	out.rows, out.runs, out.counts = s.rows, s.runs, s.counts
	s.rows, s.runs = collection{}, nil
	for number, rows := range s.parts.rows {
		if rows > 0 {
			out.numbers = append(out.numbers, int32(number))
		}
	}
	slices.SortFunc(out.numbers, func(a, b int32) int { return s.divider.Compare(int(a), int(b)) })
	for _, number := range out.numbers {
		out.partitions = append(out.partitions, Partition{Values: s.divider.Values(int(number)), Rows: s.parts.rows[number]})
	}
	return out, nil
}

// Schema returns the schema of the rows.
func (s *Sorted) Schema() *arrow.Schema { return s.order.schema }

// Partitions returns the partitions that have rows. They are ordered by their values, field by
// field, with null first. The caller must not modify them.
func (s *Sorted) Partitions() []Partition { return s.partitions }

// Counts returns the counts of the sort.
func (s *Sorted) Counts() SortCounts { return s.counts }

// Open returns the rows of a partition, given its position in Partitions. Several can be open at
// once. The caller releases the reader before the Sorted. Reading waits for memory under the same
// condition as Sorter.Add.
func (s *Sorted) Open(ctx context.Context, i int) (*PartitionReader, error) {
	number := s.numbers[i]
	limit := sizesOf(s.order.opts).output
	if len(s.runs) == 0 {
		return newRows(ctx, s.order, limit, s.inMemory(number))
	}
	return newRows(ctx, s.order, limit, newMerge(s.order, s.runs, number))
}

// Release releases all memory and disk space.
func (s *Sorted) Release() {
	s.rows.release()
	releaseRuns(s.runs)
	s.runs = nil
	s.held.Release()
	s.spare.Release()
}

// inMemory returns a feed of the rows of a partition, which are in memory.
func (s *Sorted) inMemory(number int32) *memoryRows {
	m := &memoryRows{entries: s.entries[s.starts[number]:s.starts[number+1]]}
	for _, b := range s.rows.blocks {
		m.from = append(m.from, &mergeSource{columns: b.columns, key: b.key, rowBytes: b.bytes/int64(b.rows) + 1})
	}
	return m
}

// memoryRows is a feed of rows of blocks in memory.
type memoryRows struct {
	from    []*mergeSource
	entries []sortkey.SortEntry
}

func (m *memoryRows) sources() []*mergeSource { return m.from }

func (m *memoryRows) fill(_ context.Context, _ *budget.Reservation, to *pendingRows) error {
	for len(m.entries) > 0 && !to.full() {
		e := m.entries[0]
		m.entries = m.entries[1:]
		to.add(e.Batch, e.Row, m.from[e.Batch].rowBytes)
	}
	return nil
}

func (m *memoryRows) trim(*budget.Reservation, *pendingRows) {}

func (m *memoryRows) release() {}
