package loader

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/resolve"
	"github.com/penstock/penstock/loader/stream"
)

// Planned is a query with its plan. The plan depends only on the query's Rows, and queries with the
// same Rows share it. Before opening a stream, a caller may change the shard and the cursor of the
// query's Reading, since the plan serves all shards and cursors.
type Planned struct {
	*plan.Plan
	Query     dataset.Query    // with its defaults set
	Outputs   []resolve.Output // the query's columns
	BatchRows int              // rows of a batch, or requests if batches consist of requests
	added     int              // how many staging entries, at the end, come from the query and not from the configured dataset
}

// KnownCounts returns the number of rows of each lane if the plan or the query's cursors have it;
// otherwise nil.
func (p Planned) KnownCounts() (*dataset.Counts, error) {
	return stream.Known(p.Plan, p.Query.Reading, nil)
}

// Computed returns a digest of the expressions of each computed column of the query, and of each dense column that has some, by name;
// nil if there are none. It does not change if an entry is promoted. A list of a file counts by its values.
func (p Planned) Computed() map[string]string {
	var out map[string]string
	for _, o := range p.Outputs {
		var texts []string
		for _, part := range append([]resolve.Output{o}, o.Parts...) {
			if part.Computed != nil {
				texts = append(texts, part.Name+" "+part.Computed.Expr.String())
			}
		}
		if texts == nil {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[o.Name] = digest.Of(texts)
	}
	return out
}

// PlanRequest is a client's query, together with the client's rights.
type PlanRequest struct {
	Query dataset.Query
	// Rights limit what the query reads; zero: no limits. If two clients may read different rows,
	// their plans have different ids. If they may only read different columns, their plans have the
	// same id, but are cached separately.
	Rights policy.Rights
	// BeforeBuild is called before a plan is built because it is not in the cache, which is slow.
	// If BeforeBuild fails, planning fails with its error. It may be nil.
	BeforeBuild func() error
	// Step is called when planning begins a step; nil: nobody looks. It is called by one goroutine at a time.
	Step func(PlanStep)
}

// PlanStep is a step of planning that reads catalogs or storage, or the rest of the work.
type PlanStep int

// The steps, in order.
const (
	TablesStep PlanStep = iota // tables are looked up in their catalogs, and their metadata files are read
	FilesStep                  // the lists of the tables' files are read, perhaps by another call that needs the same plan
	BuildStep                  // the plan is made of what was read
)

// Awaits returns what a step waits for; "" if it waits for nothing.
func (s PlanStep) Awaits() string {
	switch s {
	case TablesStep:
		return "tables"
	case FilesStep:
		return "files"
	case BuildStep:
		return ""
	}
	return ""
}

// step tells who looks that a step begins.
func (r PlanRequest) step(of PlanStep) {
	if r.Step != nil {
		r.Step(of)
	}
}

// Plan is like PlanFor, for a client that may read everything.
func (l *Loader) Plan(ctx context.Context, query dataset.Query) (Planned, error) {
	return l.PlanFor(ctx, PlanRequest{Query: query})
}

// PlanFor sets the defaults of a query, pins its tables, determines what to read, and checks
// the query's columns, shard and cursors.
func (l *Loader) PlanFor(ctx context.Context, request PlanRequest) (Planned, error) {
	return l.planListed(ctx, request, readEntries)
}

// listedEntries are the staging entries whose files a plan has.
type listedEntries int

const (
	readEntries listedEntries = iota // the entries that streams of the query's columns read
	allEntries
)

// planListed is like PlanFor. Its last argument selects the entries whose files the plan has.
func (l *Loader) planListed(ctx context.Context, request PlanRequest, of listedEntries) (Planned, error) {
	request.Query = request.Query.Defaults()
	q := request.Query
	d, added, err := q.DatasetOf(l.Datasets())
	if err != nil {
		return Planned{}, err
	}
	p, err := l.plan(ctx, d, request, of)
	p.added = added
	return p, fault.Op(q.WithFields(err, d), "plan dataset %s", label(d))
}

// PlanDataset is like PlanFor, for the given dataset instead of the query's dataset. The defaults of
// the dataset must be set, and the query must have neither a dataset nor entries.
func (l *Loader) PlanDataset(ctx context.Context, d dataset.Dataset, request PlanRequest) (Planned, error) {
	request.Query = request.Query.Defaults()
	p, err := l.plan(ctx, d, request, readEntries)
	return p, fault.Op(err, "plan dataset %s", label(d))
}

// plan plans a query, whose defaults are set, for its dataset.
func (l *Loader) plan(ctx context.Context, d dataset.Dataset, request PlanRequest, of listedEntries) (Planned, error) {
	q := request.Query
	if err := q.Check(); err != nil {
		return Planned{}, err
	}
	for i, s := range d.Staging {
		if _, err := l.streams.Joins.Custom(s, fmt.Sprintf("staging[%d].strategy", i)); err != nil {
			return Planned{}, err
		}
	}
	request.step(TablesStep)
	relation, err := l.relation(ctx, d, request)
	if err != nil {
		return Planned{}, err
	}
	outputs, err := relation.Choose(q.Selection())
	if err != nil {
		return Planned{}, err
	}
	if err := plan.CheckAdded(relation, q, outputs); err != nil {
		return Planned{}, err
	}
	if err := left(ctx); err != nil {
		return Planned{}, err
	}
	request.step(FilesStep)
	p, err := l.options.Plans.get(ctx, planKey(relation, q, of), func(ctx context.Context) (*plan.Plan, error) {
		if request.BeforeBuild != nil {
			if err := request.BeforeBuild(); err != nil {
				return nil, err
			}
		}
		bound, err := plan.Bind(relation, q.Rows)
		if err != nil {
			return nil, err
		}
		bound.Algorithm = plan.AlgorithmOf(q)
		files, err := l.files(ctx, bound, outputs, of)
		if err != nil {
			return nil, err
		}
		if err := left(ctx); err != nil {
			return nil, err
		}
		request.step(BuildStep)
		return plan.Build(bound, files)
	})
	if err != nil {
		return Planned{}, err
	}
	planned := Planned{Plan: p, Query: q, Outputs: outputs, BatchRows: stream.BatchRows(p, q.Reading, outputs)}
	return planned, stream.Check(planned.spec(StreamOptions{}), l.options.MaxBatchBytes)
}

// left returns why a context has ended, or nil. Planning calls it between steps, and stops if the
// client has left.
func left(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// label names a dataset in errors.
func label(d dataset.Dataset) string {
	if d.Name == "" {
		return "(inline)"
	}
	return d.Name
}

// relation opens the tables, each at the query's pin or else at its ref, and binds the dataset to
// them. It opens the training table first, because that table determines which entries are promoted: their
// tables are not opened, and need not exist any more.
func (l *Loader) relation(ctx context.Context, d dataset.Dataset, request PlanRequest) (*resolve.Relation, error) {
	q := request.Query
	pin, err := plan.PinOf(d, q)
	if err != nil {
		return nil, err
	}
	opening := l.expecting(ctx, d)
	training, err := l.table(opening, d.Training.Table, d.Training.Ref, pin.Training)
	if err != nil {
		return nil, err
	}
	if training, err = l.withPartial(ctx, d, training); err != nil {
		return nil, err
	}
	tables, errs := make([]*catalog.Table, len(d.Staging)), make([]error, len(d.Staging))
	limited := resolve.Limited(d, training, request.Rights)
	var group errgroup.Group
	for i, promotion := range resolve.Promotions(d, training) {
		s := d.Staging[i]
		group.Go(func() error {
			if t := promotion.TableFor(s, pin.Staging[s.Name]); t != nil {
				tables[i], errs[i] = l.promotedTable(opening, t, q.Wire, limited)
			} else {
				tables[i], errs[i] = l.table(opening, s.Table, s.Ref, pin.Staging[s.Name])
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs, in the order of the entries
	for i, err := range errs {
		if err != nil {
			return nil, fault.Op(err, "staging table %s", d.Staging[i].Name)
		}
	}
	if err := left(ctx); err != nil {
		return nil, err
	}
	if err := l.checkNames(ctx, request.Rights, q.ClientTables(), append(tables, training)); err != nil {
		return nil, err
	}
	return resolve.BindFor(d, training, tables, request.Rights)
}

// promotedTable returns the table of a promoted entry. Usually that is the given table, which has
// the pin of the promotion but no columns: the values are read from the training table, and the
// entry's table need not exist any more. In two cases promotedTable opens the table instead, so
// that the entry is joined: if the client's rights limit what the client reads, and if the wire
// form is indexed, since indexed batches contain rows of the staging table.
func (l *Loader) promotedTable(ctx context.Context, at *catalog.Table, wire dataset.Wire, limited bool) (*catalog.Table, error) {
	indexed, err := wire.Indexed()
	if err != nil {
		return nil, err
	}
	indexed = indexed && !wire.Auto()
	if !indexed && !limited {
		return at, nil
	}
	out, err := l.options.Catalog.At(ctx, at.Name, at.Pin)
	if err != nil && !limited {
		err = fault.As(fault.Op(err, "open the table of a promoted entry for wire: %s", wire)).
			WithRemedy("use wire: plain or auto, which read the promoted columns of the training table")
	}
	return out, err
}

// expecting returns a context in which the catalog, if it supports this, looks up the tables of a
// dataset together.
func (l *Loader) expecting(ctx context.Context, d dataset.Dataset) context.Context {
	tables, ok := l.options.Catalog.(catalog.Expecter)
	if !ok {
		return ctx
	}
	names := []string{d.Training.Table}
	for _, s := range d.Staging {
		names = append(names, s.Table)
	}
	return tables.Expect(ctx, names)
}

// table opens a table: at its pin if the pin is whole, at the pin's snapshot if the pin has only a
// snapshot, and otherwise at a ref.
func (l *Loader) table(ctx context.Context, name string, ref dataset.Ref, pin dataset.TablePin) (*catalog.Table, error) {
	switch {
	case pin.Whole():
		return l.options.Catalog.At(ctx, name, pin)
	case pin.Snapshot != 0:
		return l.options.Catalog.Table(ctx, name, dataset.Ref{Snapshot: pin.Snapshot})
	}
	return l.options.Catalog.Table(ctx, name, ref)
}

// files lists the files of the training table and of some entries, for all columns that a
// stream of the outputs reads, with the value ranges that planning uses.
func (l *Loader) files(ctx context.Context, b *plan.Bound, outputs []resolve.Output, of listedEntries) (plan.Files, error) {
	needs, reads, ranges := b.Needs(outputs), b.Reads(outputs), b.ValueRanges()
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
		if s.Promoted != nil || !needs[i] && of == readEntries {
			files.Staging[i].Unlisted = true
			continue
		}
		group.Go(func() (err error) {
			files.Staging[i], err = l.listing(ctx, s.Pinned, reads.Staging[i], ranges.Staging[i])
			return fault.Op(err, "staging table %s", s.Name)
		})
	}
	return files, group.Wait()
}

func (l *Loader) listing(ctx context.Context, t *catalog.Table, columns, ranges []int) (plan.Listing, error) {
	files, err := l.options.Listings.get(ctx, listingInputs{table: t.Name, pin: t.Pin, columns: columns, ranges: ranges},
		func(ctx context.Context) ([]catalog.File, error) {
			return l.options.Catalog.Files(ctx, t, columns, ranges)
		})
	return plan.Listing{Files: files, Columns: columns}, err
}
