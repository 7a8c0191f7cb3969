package loader

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stream"
	"github.com/penstock/penstock/loader/verify"
)

// Rows reads the rows of one source.
type Rows interface {
	joined.SourceRows
	// WithoutChecksum reports whether any page read so far lacks a checksum.
	WithoutChecksum() bool
}

// Scan opens the rows of a source that pass the source's filter. The rows come in the order of the
// source's files. They have the given columns, in the given order and under the columns' own names.
// Nothing is read before Begin or the first Next.
type Scan func(ctx context.Context, source plan.Source, columns []catalog.Field) (Rows, error)

// Options configures a Loader.
type Options struct {
	Datasets []dataset.Dataset // the configured datasets until SetDatasets is called; their names are unique
	Catalog  catalog.Catalog
	Scan     Scan
	// Share creates a SharedReads, through which scans of one stream read stored bytes once; nil:
	// each scan reads its bytes separately.
	Share func() joined.SharedReads
	// Keep keeps the deletes of some files of a table in memory until the Handle is released; nil:
	// each scan loads the deletes of its files again.
	Keep func(t *catalog.Table, files []catalog.File) *release.Handle
	// Hold keeps the snapshot of a pinned table from expiring until the Handle is
	// released; nil: snapshots may expire while they are read.
	Hold     func(ctx context.Context, t *catalog.Table) (*release.Handle, error)
	Plans    *Plans           // caches plans by pin; nil: nothing is cached
	Listings *Listings        // caches the lists of files of pinned tables; nil: each plan lists the files
	Budget   *budget.Budget   // nil: unlimited
	Memory   memory.Allocator // for staging rows and batches; nil: Go's heap
	Cores    *cores.Cores     // assemble batches; nil: each stream uses one core
	// MaxBatchBytes is the maximum memory of a batch; 0: no limit.
	MaxBatchBytes int64
	// Strategies holds the custom strategies, by the name that follows "custom:" in a
	// dataset's strategy.
	Strategies map[string]joiner.Custom
	// Disk creates a store on local disk for staging rows that do not fit in memory; nil: a join
	// whose rows do not fit fails as Exhausted.
	Disk func(what string) (spill.Store, error)
	// KeepBuildSides is the maximum number of bytes of build sides that stay in memory although no
	// stream needs them any more. They are released when a reservation lacks room. 0: such build
	// sides are released at once.
	KeepBuildSides int64
	// CheckLimits checks limits of values for Verify; nil: Verify refuses datasets with limits.
	CheckLimits verify.CheckLimits
}

// Loader plans queries and opens streams. It is safe for concurrent use and holds no
// state of a client.
type Loader struct {
	options Options
	// datasets holds the configured datasets. Each call loads it only once, so that the call sees
	// the same datasets throughout.
	datasets atomic.Pointer[[]dataset.Dataset]
	streams  stream.Options
	paid     *budget.SharedReservation[*plan.Plan] // the memory of the plans of open streams
	counter  counter
}

// New returns a loader.
func New(options Options) *Loader {
	if options.Memory == nil {
		options.Memory = batch.Default()
	}
	options.Scan = pinned(options.Scan, options.Catalog)
	joins := joined.New(joined.Options{
		Budget: options.Budget, Memory: options.Memory, Strategies: options.Strategies, Disk: options.Disk,
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (joined.SourceRows, error) {
			return options.Scan(ctx, source, columns)
		},
		Share: options.Share, KeepBuildSides: options.KeepBuildSides,
	})
	l := &Loader{
		options: options, paid: budget.NewSharedReservation[*plan.Plan](options.Budget, "the plan of a stream"),
		streams: stream.Options{Joins: joins, Budget: options.Budget, Memory: options.Memory, Cores: options.Cores, MaxBatchBytes: options.MaxBatchBytes},
	}
	l.SetDatasets(options.Datasets)
	return l
}

// KeptBuildSides returns the build sides that are kept for later streams.
func (l *Loader) KeptBuildSides() cache.KeptStats { return l.streams.Joins.Kept() }

// DropKeptBuildSides releases all build sides that no stream needs, and returns their bytes.
func (l *Loader) DropKeptBuildSides() int64 { return l.streams.Joins.DropKept() }

// TableUUID returns the uuid of a table.
func (l *Loader) TableUUID(ctx context.Context, name string) (string, error) {
	t, err := l.options.Catalog.Table(ctx, name, dataset.Ref{})
	if err != nil {
		return "", err
	}
	return t.Pin.UUID, nil
}

// Datasets returns the configured datasets.
func (l *Loader) Datasets() []dataset.Dataset { return *l.datasets.Load() }

// SetDatasets replaces all configured datasets at once. The names of datasets must be unique. Calls
// of Plan in progress and open streams keep the datasets that they began with.
func (l *Loader) SetDatasets(datasets []dataset.Dataset) { l.datasets.Store(&datasets) }
