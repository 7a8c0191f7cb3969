package loader

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// Rows are the rows of one source as a scan reads them.
type Rows interface {
	array.RecordReader
	// Files returns a function that names the file of each returned row, counted from
	// 0. The function remains valid after Release and retains nothing else of the rows:
	// build sides keep it for their lifetime, and other streams may use it by then.
	Files() func(row int64) string
}

// Scan opens a source: the rows that pass its filter, in the order of its files, with
// the given columns, in that order and under their own names. It reads nothing before
// the first Next.
type Scan func(ctx context.Context, source plan.Source, columns []catalog.Field) (Rows, error)

// Options configures a Loader.
type Options struct {
	Datasets []dataset.Dataset // the configured ones, with unique names
	Catalog  catalog.Catalog
	Scan     Scan
	// Keep keeps the deletes of some files of a table loaded until the Handle is
	// released; nil: each scan loads its own.
	Keep func(t *catalog.Table, files []catalog.File) *release.Handle
	// Hold keeps the snapshot of a pinned table from expiring until the Handle is
	// released; nil: snapshots may expire while they are read.
	Hold   func(ctx context.Context, t *catalog.Table) (*release.Handle, error)
	Plans  *Plans           // caches plans by pin; nil: every query is planned anew
	Budget *budget.Budget   // nil: unlimited
	Memory memory.Allocator // for staging rows and batches; nil: Go's heap
	// MaxBatchBytes is the maximum memory of a batch; 0: no limit.
	MaxBatchBytes int64
	// Strategies holds the custom strategies, by the name that follows "custom:" in a
	// dataset's strategy.
	Strategies map[string]joiner.Custom
	// Disk creates a store on local disk for staging rows that do not fit in memory;
	// nil: such a join fails as Exhausted.
	Disk func(what string) (spill.Store, error)
}

// Loader plans queries and opens streams. It is safe for concurrent use and holds no
// state of a client.
type Loader struct {
	options Options
	pool    *buildside.Pool
	paid    *budget.Once[*plan.Plan] // plans of open streams
	counter counter
}

// New returns a loader.
func New(options Options) *Loader {
	if options.Memory == nil {
		options.Memory = memory.DefaultAllocator
	}
	options.Scan = pinned(options.Scan, options.Catalog)
	pool := buildside.New(buildside.Options{Options: options.joining(), Disk: options.Disk})
	return &Loader{options: options, pool: pool, paid: budget.NewOnce[*plan.Plan](options.Budget, "the plan of a stream")}
}

// joining returns the options of the joiner.
func (o Options) joining() joiner.Options { return joiner.Options{Memory: o.Memory, Budget: o.Budget} }

// Datasets returns the configured datasets.
func (l *Loader) Datasets() []dataset.Dataset { return l.options.Datasets }

// Plan pins the tables of a query, determines what to read, and checks the query's
// columns, shard and cursors. The plan does not depend on columns, shard, steps, batch
// size or tail, which belong to the query's Reading.
func (l *Loader) Plan(ctx context.Context, query dataset.Query) (*plan.Plan, error) {
	q := query.Defaults()
	d, err := l.dataset(q)
	if err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, fault.Op(err, "plan dataset %s", label(d))
	}
	for i, s := range d.Staging {
		if _, err := l.options.custom(s, fmt.Sprintf("staging[%d].strategy", i)); err != nil {
			return nil, fault.Op(err, "plan dataset %s", label(d))
		}
	}
	relation, err := l.relation(ctx, d, q)
	if err != nil {
		return nil, fault.Op(err, "plan dataset %s", label(d))
	}
	outputs, err := relation.Choose(q.Selection())
	if err != nil {
		return nil, fault.Op(err, "plan dataset %s", label(d))
	}
	p, err := l.options.Plans.get(ctx, planKey(relation, q), func(ctx context.Context) (*plan.Plan, error) {
		bound, err := plan.Bind(relation, q.Rows)
		if err != nil {
			return nil, err
		}
		files, err := l.files(ctx, bound, outputs)
		if err != nil {
			return nil, err
		}
		return plan.Build(bound, files)
	})
	if err != nil {
		return nil, fault.Op(err, "plan dataset %s", label(d))
	}
	if err := l.check(p, q, outputs); err != nil {
		return nil, fault.Op(err, "plan dataset %s", label(d))
	}
	return p, nil
}

// label names a dataset in errors.
func label(d dataset.Dataset) string {
	if d.Name == "" {
		return "(inline)"
	}
	return d.Name
}

// dataset returns the dataset that a query names or contains.
func (l *Loader) dataset(q dataset.Query) (dataset.Dataset, error) {
	if q.Inline != nil {
		return *q.Inline, nil
	}
	names := make([]string, len(l.options.Datasets))
	for i, d := range l.options.Datasets {
		if d.Name == q.Dataset {
			return d, nil
		}
		names[i] = d.Name
	}
	return dataset.Dataset{}, dataset.Unknown(q.Dataset, names)
}

// relation opens every table, at the query's pin or else at its ref, and binds the
// dataset to them.
func (l *Loader) relation(ctx context.Context, d dataset.Dataset, q dataset.Query) (*resolve.Relation, error) {
	pin, err := pinOf(d, q)
	if err != nil {
		return nil, err
	}
	var training *catalog.Table
	staging := make([]*catalog.Table, len(d.Staging))
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		training, err = l.table(groupCtx, d.Training.Table, d.Training.Ref, pin.Training)
		return err
	})
	for i, s := range d.Staging {
		group.Go(func() (err error) {
			staging[i], err = l.table(groupCtx, s.Table, s.Ref, pin.Staging[s.Name])
			return fault.Op(err, "staging table %s", s.Name)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return resolve.Bind(d, training, staging)
}

// table opens a table at its pin, at the snapshot if the pin names only that, or else
// at a ref.
func (l *Loader) table(ctx context.Context, name string, ref dataset.Ref, pin dataset.TablePin) (*catalog.Table, error) {
	switch {
	case pin.Whole():
		return l.options.Catalog.At(ctx, name, pin)
	case pin.Snapshot != 0:
		return l.options.Catalog.Table(ctx, name, dataset.Ref{Snapshot: pin.Snapshot})
	}
	return l.options.Catalog.Table(ctx, name, ref)
}

// files lists the files of every table, for all columns that a stream of the outputs
// reads, with the value ranges that planning uses.
func (l *Loader) files(ctx context.Context, b *plan.Bound, outputs []resolve.Output) (plan.Files, error) {
	reads, ranges := b.Reads(outputs), b.ValueRanges()
	files := plan.Files{Staging: make([]plan.Listing, len(b.Relation.Staging))}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if b.Rows.Since == 0 {
			files.Training, err = l.listing(ctx, b.Relation.Training, reads.Training, ranges.Training)
			return err
		}
		files.Training.Columns = reads.Training
		files.Training.Files, err = l.options.Catalog.Appended(ctx, b.Relation.Training, b.Rows.Since, reads.Training, ranges.Training)
		return err
	})
	for i, s := range b.Relation.Staging {
		group.Go(func() (err error) {
			files.Staging[i], err = l.listing(ctx, s.Pinned, reads.Staging[i], ranges.Staging[i])
			return fault.Op(err, "staging table %s", s.Name)
		})
	}
	return files, group.Wait()
}

func (l *Loader) listing(ctx context.Context, t *catalog.Table, columns, ranges []int) (plan.Listing, error) {
	files, err := l.options.Catalog.Files(ctx, t, columns, ranges)
	return plan.Listing{Files: files, Columns: columns}, err
}
