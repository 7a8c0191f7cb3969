package extsort

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/sortkey"
	"github.com/penstock/penstock/loader/partition"
)

// Sorter takes the rows of a stream. It is not safe for concurrent use.
type Sorter struct {
	layout  Layout
	opts    Options
	memory  sizes
	conform *conform.Conformer
	order   *sortkey.KeySpec
	sort    []int // the columns to sort by

	held    *budget.Reservation // of everything below
	spare   *budget.Reservation // of Options.Spare, for the rows beyond memory.collect
	divider *partition.Divider
	rows    collection
	runs    []*sortedRun
	counts  SortCounts
	parts   partitionRows
	begun   bool
	ended   bool
}

// what names the memory and the disk space of a Sorter in errors.
const what = "sorting of the rows to write"

// New makes a Sorter for batches of a schema. It fails with Invalid if tables do not support the
// type of a column, or if rows cannot be sorted or partitioned by a column of the layout. The
// caller releases it.
func New(schema *arrow.Schema, l Layout, o Options) (*Sorter, error) {
	c, err := conform.New(schema)
	if err != nil {
		return nil, fault.Op(err, "read the rows to write")
	}
	l, err = l.complete(c.Schema())
	if err != nil {
		return nil, err
	}
	s := &Sorter{layout: l, opts: o.complete(), conform: c}
	fields, orders := make([]arrow.Field, len(l.Sort)), make([]sortkey.ColumnOrder, len(l.Sort))
	for i, by := range l.Sort {
		fields[i], orders[i] = c.Schema().Field(by.Column), by.Order
		s.sort = append(s.sort, by.Column)
	}
	if s.order, err = sortkey.NewKeySpec(fields, orders); err != nil {
		return nil, err
	}
	if s.divider, err = partition.New(c.Schema(), l.Partition); err != nil {
		return nil, err
	}
	s.memory = sizesOf(s.opts)
	if s.held, err = o.Budget.Reserve(what, 0); err != nil {
		return nil, err
	}
	s.spare, err = s.opts.Spare.Reserve(what, 0)
	return s, err
}

// complete checks the columns of a layout, and returns the layout with Sort set.
func (l Layout) complete(schema *arrow.Schema) (Layout, error) {
	if len(l.Sort) == 0 {
		for _, column := range l.Key {
			l.Sort = append(l.Sort, SortColumn{Column: column, Order: sortkey.ColumnOrder{NullsFirst: true}})
		}
	}
	columns := slices.Clone(l.Key)
	for _, by := range l.Sort {
		columns = append(columns, by.Column)
	}
	for _, column := range columns {
		if column < 0 || column >= schema.NumFields() {
			return l, fault.New(fault.Internal, "column %d of %d to sort by", column, schema.NumFields())
		}
	}
	return l, nil
}

// Defaults of Options.
const (
	unlimitedWorking     = 256 << 20
	defaultBatchBytes    = 8 << 20
	defaultMaxPartitions = 100_000
)

// complete returns the options with defaults.
func (o Options) complete() Options {
	if o.Memory == nil {
		o.Memory = batch.Default()
	}
	if o.WorkingMemory <= 0 {
		o.WorkingMemory = unlimitedWorking
		if limit := o.Budget.Limit(); limit > 0 {
			o.WorkingMemory = limit / 2
		}
	}
	if o.BatchBytes <= 0 {
		o.BatchBytes = defaultBatchBytes
	}
	if o.MaxPartitions <= 0 {
		o.MaxPartitions = defaultMaxPartitions
	}
	o.Threads, o.Readers = max(o.Threads, 1), max(o.Readers, 1)
	if o.Spare == nil {
		o.Spare = budget.New(0) // a nil budget is unlimited
	}
	return o
}

// sizes has the parts into which the working memory is divided, in bytes.
type sizes struct {
	block   int64 // maximum size of a block of collected rows
	stored  int64 // target size of a batch on disk
	output  int64 // maximum size of a batch of the result
	room    int64 // reserved from the first row on, for copies while rows are added and written
	collect int64 // maximum size of collected rows without spare memory; then they are written to disk
	merge   int64 // memory of one merge
}

// Reciprocals of shares of the working memory, and bounds of the resulting sizes.
const (
	blockShare  = 32
	storedShare = 128
	outputShare = 16
	minBlock    = 32 << 10
	maxBlock    = 4 << 20
	minStored   = 16 << 10
	maxStored   = 1 << 20
)

func sizesOf(o Options) sizes {
	w := o.WorkingMemory
	s := sizes{
		block:  min(max(w/blockShare, minBlock), maxBlock),
		stored: min(max(w/storedShare, minStored), maxStored),
		output: min(o.BatchBytes, max(w/outputShare/int64(o.Readers), minStored)),
	}
	s.room = copies*s.stored*int64(o.Threads) + s.block
	s.collect = max(w-s.room, s.block)
	s.merge = max(w/int64(max(o.Readers, 1)), 1)
	return s
}

// copies is the number of copies of a batch's bytes that exist while its rows are gathered and written.
const copies = 3

// Schema returns the schema of the result. Its types are types that tables support, and it has no
// metadata.
func (s *Sorter) Schema() *arrow.Schema { return s.conform.Schema() }

// Add copies the rows of a batch, which still belongs to the caller. It waits for memory if the
// context belongs to a stream (see budget.Enter). After an error, only Release may be called.
func (s *Sorter) Add(ctx context.Context, b arrow.RecordBatch) error {
	if s.ended {
		return fault.New(fault.Internal, "rows are added to a sort that has ended")
	}
	err := s.begin(ctx)
	if err == nil {
		err = s.add(ctx, b)
	}
	if err != nil {
		s.Release()
		return fault.Op(err, "sort the rows to write")
	}
	return nil
}

// begin reserves the memory that is held from the first row on.
func (s *Sorter) begin(ctx context.Context) error {
	if s.begun {
		return nil
	}
	s.begun = true
	return s.held.GrowWait(ctx, s.memory.room)
}

// Finish ends the input and returns the sorted rows. The result takes over all memory and disk
// space of the Sorter, and the caller releases it. After an error, Finish has released everything.
func (s *Sorter) Finish(ctx context.Context) (*Sorted, error) {
	if s.ended {
		return nil, fault.New(fault.Internal, "a sort that has ended is finished")
	}
	out, err := s.finish(ctx)
	if err != nil {
		s.Release()
		return nil, fault.Op(err, "sort the rows to write")
	}
	s.ended = true
	return out, nil
}

// Release releases all memory and disk space. It is idempotent, and has no effect after Finish has
// returned a result.
func (s *Sorter) Release() {
	if s.ended {
		return
	}
	s.ended = true
	s.rows.release()
	releaseRuns(s.runs)
	s.runs = nil
	s.held.Release()
	s.spare.Release()
}
