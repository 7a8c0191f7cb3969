package scan

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/deletes"
	"github.com/penstock/penstock/loader/plan"
)

const (
	// defaultBatchRows is the batch length that decodes fastest.
	defaultBatchRows = parquet.DefaultBatchRows
	// defaultAhead is the default of Options.Ahead: a few batches.
	defaultAhead = 8 << 20
	// defaultReadAhead is the default of Options.ReadAhead: row groups of most writers.
	defaultReadAhead = 128 << 20
	// defaultParallel shortens the wait for the first batches where a core is
	// idle, and costs nothing where none is.
	defaultParallel = 2
	// NoAhead decodes each batch when it is asked for.
	NoAhead = -1
	// NoTail keeps nothing of what was read to find a footer.
	NoTail = -1
)

// Options are what a Scanner is made of. Only Files must be given.
type Options struct {
	// Files opens the files of tables.
	Files catalog.Opener
	// Footers remembers files' footers by table, location and length; nil reads
	// them each time.
	Footers *cache.Cache[*parquet.Footer]
	// MaxFooter is the most bytes of a file's footer, as stored: a longer one is
	// Exhausted. 0 is no limit.
	MaxFooter int64
	// Memory gives the batches' buffers; nil is a batch.NewAllocator.
	Memory memory.Allocator
	// Scratch gives what does not leave a file's reader; nil is another
	// batch.NewAllocator.
	Scratch memory.Allocator
	// Budget is asked for what readers hold before they hold it: the stored bytes
	// and the decompressed pages of the open row group, the batch in the consumer's
	// hands, and batches decoded ahead; nil is unlimited. Where it has no room for
	// the last, readers go on without.
	Budget *budget.Budget
	// BatchRows is the most rows of a batch; 0 is defaultBatchRows. Batches
	// also end with their row group, and filters shorten them.
	BatchRows int
	// Ahead bounds the bytes of decoded batches that wait for the consumer,
	// per reader; 0 is defaultAhead, NoAhead is none.
	Ahead int64
	// RequireChecksums refuses files with a page that has no checksum, as Invalid.
	RequireChecksums bool
	// ReadTail is how much of a file's end is read to find its footer; ReadGap and
	// ReadSize bound the reads of column chunks: see parquet.Options. 0 are the defaults
	// of that package; ReadTail of NoTail is its default too.
	ReadTail, ReadGap, ReadSize int64
	// ReadAhead bounds the stored bytes of a row group that are read while the one before
	// is decoded, per reader and out of memory to spare; 0 is defaultReadAhead, NoAhead
	// reads none.
	ReadAhead int64
	// Parallel is how many columns of a batch are decoded side by side; 0 is
	// defaultParallel.
	Parallel int
}

// validate reports every fault of the options.
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
		add("ahead", "must not be negative, save for -1, which is none")
	}
	if o.ReadTail < NoTail || o.ReadGap < 0 || o.ReadSize < 0 {
		add("read_tail, read_gap, read_size", "must not be negative")
	}
	if o.ReadAhead < NoAhead {
		add("read_ahead", "must not be negative, save for -1, which is none")
	}
	if o.Parallel < 0 {
		add("parallel", "must not be negative")
	}
	return fault.Fields(faults)
}

// Scanner opens sources. It is safe for concurrent use.
type Scanner struct {
	options Options
	paid    *budget.Once[*parquet.Footer] // footers of open files
	deletes *deletes.Pool
	spares  *spares
}

// New makes a scanner, or reports every fault of its options as Invalid.
func New(options Options) (*Scanner, error) {
	if err := options.validate(); err != nil {
		return nil, fault.Op(err, "configure scan")
	}
	s := &Scanner{options: options, spares: newSpares(options.Budget), paid: budget.NewOnce[*parquet.Footer](options.Budget, "the footer of a file")}
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
	switch {
	case s.options.Ahead == NoAhead:
		s.options.ReadAhead = NoAhead
	case s.options.ReadAhead == 0:
		s.options.ReadAhead = defaultReadAhead
	}
	if s.options.Parallel == 0 {
		s.options.Parallel = defaultParallel
	}
	return s, nil
}

// Keep keeps the deletes of some files of a table until the Handle is released, so that
// all readers of the files share one load of them.
func (s *Scanner) Keep(t *catalog.Table, files []catalog.File) *release.Handle {
	return s.deletes.Keep(t, files)
}

// Open prepares reading a source. The batches have exactly the given columns
// of its table, in that order and under their own names; without columns they
// have rows alone. The source must not change while the reader lives, and the
// context is that of all its reads. The caller releases the reader.
func (s *Scanner) Open(ctx context.Context, source plan.Source, columns []catalog.Field) (*Reader, error) {
	p, err := project(source, columns)
	if err != nil {
		return nil, fault.Op(err, "read %s", subject(source))
	}
	for _, f := range source.Files {
		if f.From < 0 || f.From > f.To || f.To > f.File.Rows {
			err := fault.New(fault.Internal, "rows %d to %d of a file of %d rows are asked for", f.From, f.To, f.File.Rows).
				In(source.Table.Name, f.File.Location)
			return nil, fault.Op(err, "read %s", subject(source))
		}
	}
	return newReader(ctx, s, source, p), nil
}
