package scan

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/deletes"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

const (
	// defaultBatchRows is the batch length that decodes fastest.
	defaultBatchRows = parquet.DefaultBatchRows
	// defaultAhead is a few batches.
	defaultAhead = 8 << 20
	// defaultReadAhead is the row group size of most writers.
	defaultReadAhead = 128 << 20
	// NoAhead decodes each batch only when Next asks for it.
	NoAhead = -1
	// NoCodes returns texts and binary values as such.
	NoCodes = -1
	// NoTail discards the end of a file once its footer was decoded.
	NoTail = -1
)

// Options configure a Scanner. Only Files is required.
type Options struct {
	// Files opens the files of tables.
	Files catalog.Opener
	// Footers caches footers by table, location and length; nil: each scan reads them.
	Footers *cache.Cache[*parquet.Footer]
	// Chunks caches decoded columns of row groups; nil: each scan decodes them. The cache must have
	// the same Budget as the Scanner.
	Chunks *chunkcache.ColumnCache
	// MaxFooter is the maximum stored size of a footer in bytes; a longer one is
	// Exhausted. 0 is no limit.
	MaxFooter int64
	// Memory allocates the batches; nil is a batch.NewAllocator.
	Memory memory.Allocator
	// Scratch allocates memory that does not outlive the reader of a file; nil is
	// another batch.NewAllocator.
	Scratch memory.Allocator
	// Budget is charged for the stored bytes and the decompressed pages of the open row group, the
	// batch that the consumer holds, and the batches decoded ahead. Nil is unlimited. If the budget
	// has no room for batches decoded ahead, readers do not decode ahead.
	Budget *budget.Budget
	// BatchRows is the maximum number of rows of a batch; 0 is defaultBatchRows. Batches
	// also end with their row group, and filters shorten them.
	BatchRows int
	// Ahead is the maximum size of the decoded batches in a reader's queue, in bytes; 0 is
	// defaultAhead, NoAhead is none.
	Ahead int64
	// RequireChecksums refuses files with a page that has no checksum, as Invalid.
	RequireChecksums bool
	// ReadTail is how many bytes of a file's end are read to find its footer; ReadGap and
	// ReadSize bound the reads of column chunks: see parquet.Options. 0 is that package's
	// default, and so is NoTail for ReadTail.
	ReadTail, ReadGap, ReadSize int64
	// ReadAhead is the maximum number of stored bytes of the next row group that a reader fetches
	// while it decodes the current one, if there is memory to spare. 0 is defaultReadAhead. With
	// NoAhead, nothing is fetched ahead.
	ReadAhead int64
	// MinRepeats is the minimum number of rows per dictionary value for which a column of
	// plan.Source.Coded is returned as codes. 0 is the default of package parquet. With NoCodes,
	// columns are always returned as values. The rows are the same in each case.
	MinRepeats int
	// Cores decode the columns of a batch; nil: each reader uses one core.
	Cores *cores.Cores
}

// validate reports all invalid options.
func (o Options) validate() error {
	var faults []fault.Field
	add := func(field, message string) { faults = append(faults, fault.Field{Field: field, Message: message}) }
	if o.Files == nil {
		add("files", "must be given")
	}
	if o.MaxFooter < 0 {
		add("max_footer", "must not be negative")
	}
	if o.BatchRows < 0 {
		add("batch_rows", "must not be negative")
	}
	if o.Ahead < NoAhead {
		add("ahead", "must not be negative, except for -1 (none)")
	}
	if o.ReadTail < NoTail || o.ReadGap < 0 || o.ReadSize < 0 {
		add("read_tail, read_gap, read_size", "must not be negative")
	}
	if o.ReadAhead < NoAhead {
		add("read_ahead", "must not be negative, except for -1 (none)")
	}
	if o.MinRepeats < NoCodes {
		add("min_repeats", "must not be negative, except for -1 (no codes)")
	}
	return fault.Fields(faults)
}

// Scanner opens sources. It is safe for concurrent use.
type Scanner struct {
	options Options
	footers *budget.SharedReservation[*parquet.Footer] // reserves the memory of the footers of open files
	deletes *deletes.Pool
	spares  *spares
	decoded atomic.Int64 // rows
}

// Decoded returns how many rows were decoded so far.
func (s *Scanner) Decoded() int64 { return s.decoded.Load() }

// New makes a Scanner, or reports all invalid options.
func New(options Options) (*Scanner, error) {
	if err := options.validate(); err != nil {
		return nil, fault.Op(err, "configure scan")
	}
	s := &Scanner{options: options, spares: newSpares(options.Budget), footers: budget.NewSharedReservation[*parquet.Footer](options.Budget, "the footer of a file")}
	s.deletes = deletes.New(deletes.Options{
		Files: options.Files, Budget: options.Budget,
		Read: func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error) {
			return s.Open(ctx, source, columns)
		},
	})
	if s.options.Memory == nil {
		s.options.Memory = batch.NewAllocator()
	}
	if s.options.Scratch == nil {
		s.options.Scratch = batch.NewAllocator()
	}
	if s.options.BatchRows == 0 {
		s.options.BatchRows = defaultBatchRows
	}
	if s.options.Ahead == 0 {
		s.options.Ahead = defaultAhead
	}
	if s.options.Cores == nil {
		s.options.Cores = cores.Default()
	}
	switch {
	case s.options.Ahead == NoAhead:
		s.options.ReadAhead = NoAhead
	case s.options.ReadAhead == 0:
		s.options.ReadAhead = defaultReadAhead
	}
	return s, nil
}

// Keep keeps the deletes of some files of a table until the Handle is released, so that the deletes
// are loaded once for all readers of the files.
func (s *Scanner) Keep(t *catalog.Table, files []catalog.File) *release.Handle {
	return s.deletes.Keep(t, files)
}

// Open returns a reader of a source. Its batches have exactly the given columns of the table, in
// that order and with the table's names. Columns of source.Coded may come as codes or as values:
// the schema of each batch shows which. If no columns are given, batches have only a number of
// rows. The source must not change before the last Release. All reads use ctx. The caller releases
// the reader.
func (s *Scanner) Open(ctx context.Context, source plan.Source, columns []catalog.Field) (*Reader, error) {
	p, err := project(source, columns)
	if err != nil {
		return nil, fault.Op(err, "read %s", subject(source))
	}
	for _, f := range source.Files {
		if f.From < 0 || f.From > f.To || f.To > f.File.Rows {
			err := fault.New(fault.Internal, "rows %d to %d of a file of %d rows are requested", f.From, f.To, f.File.Rows).
				In(source.Table.Name, f.File.Location)
			return nil, fault.Op(err, "read %s", subject(source))
		}
	}
	return newReader(ctx, s, source, p), nil
}
