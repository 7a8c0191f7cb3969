package promote

import (
	"context"
	"maps"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
	"github.com/penstock/penstock/loader/transaction"
)

// promoting is one call of Promote. Only the call's goroutine sets its fields; goroutines that
// write files read them and update progress.
type promoting struct {
	*Promoter
	trainingTable
	request    PromotionRequest
	tables     PromotedTables
	definition *definition
	prefix     string // of the names of files that have the columns
	rounds     int    // number of passes over the pending files, in all attempts
	result     PromotionResult
	progress   progressReport
	checks     rowChecks
	held       *release.Handle               // keeps the snapshots of the staging tables
	made       bool                          // the table already has the columns
	promotions map[string]*resolve.Promotion // of the requested entries, if made is true
	filled     *resolve.Promotion            // see fill; nil: the call makes new columns
	counted    map[string]bool               // locations of files whose rows the result counts
}

// Promote copies the columns of staging entries into the dataset's training table. A repeated call
// resumes where the earlier one ended. If the table already has the columns, the call writes only
// the files that lack them, with values of the snapshots that were promoted.
//
// Errors: Invalid for entries that cannot be promoted, Forbidden for a table that may not be
// written to, Conflict if the table or an earlier promotion is incompatible, Expired if a snapshot
// no longer exists, Corrupt if the written values differ from the join, Exhausted if memory or
// local disk is not enough, Unavailable if storage or the catalog fails. After any error the
// table's columns are unchanged, unless commit.Uncertain is true: then the new columns may be
// current, and the caller may repeat the call.
func (p *Promoter) Promote(ctx context.Context, request PromotionRequest) (PromotionResult, error) {
	tables, name, err := p.options.Route(request.Dataset.Training.Table)
	if err != nil {
		return PromotionResult{}, err
	}
	c := &promoting{
		Promoter: p, request: request, tables: tables, trainingTable: trainingTable{shown: request.Dataset.Training.Table, table: name},
		checks: rowChecks{options: p.options, compared: map[string]bool{}},
	}
	c.progress.report = request.Progress
	c.result.Table = c.shown
	err = c.run(ctx)
	return c.result, fault.Op(err, "promote entries of dataset %s", request.Dataset.Name)
}

// run promotes in two transactions: the first reserves the field ids of the new columns, and the
// second makes the columns current.
func (p *promoting) run(ctx context.Context) error {
	defer func() { p.held.Release() }()
	reserving := transaction.Transaction{Tables: p.tables, Table: p.table, Branch: commit.Main, Prepare: p.begin}
	if _, err := reserving.Run(ctx); err != nil {
		return err
	}
	if p.made {
		return p.fill(ctx)
	}
	if err := p.checks.matches(ctx, p.trainingTable, p.definition, p.request.DryRun); err != nil {
		return err
	}
	if p.request.DryRun {
		return p.estimate(ctx)
	}
	finishing := transaction.Transaction{Tables: p.tables, Table: p.table, Branch: commit.Main, Prepare: p.finish}
	_, err := finishing.Run(ctx)
	return err
}

// begin prepares to reserve field ids that are free in the attempt's state. If another writer takes
// them first, the next attempt chooses other ids, since no file has them yet.
func (p *promoting) begin(ctx context.Context, a *transaction.Attempt) (err error) {
	p.state = a.State
	if p.made, err = p.prepare(ctx); p.made || err != nil {
		return err
	}
	if err := p.checkReaders(ctx); err != nil {
		return err
	}
	p.held.Release() // the Handle of the previous attempt
	if p.held, err = p.hold(ctx); err != nil {
		return err
	}
	// Check now that files can be written, so that the call fails before it writes one. A dry run
	// checks this, too.
	if err := datafile.CheckSpec(p.state, p.state.Spec); err != nil {
		return err
	}
	if _, err := p.tables.FileStore(ctx, p.table, p.state.DataFolder()); err != nil {
		return err
	}
	a.Commit = func(ctx context.Context) (made commit.Committed, err error) {
		_, err = p.reserve(ctx)
		return made, err
	}
	return nil
}

// rewrite rewrites files until all files of the table have the columns. It returns true if another
// call has made the columns current.
func (p *promoting) rewrite(ctx context.Context) (bool, error) {
	for ; p.rounds < transaction.MaxAttempts; p.rounds++ {
		if p.filled == nil && p.madeBefore(p.definition) { // another call was faster
			_, err := p.complete()
			p.result.Existed = p.result.Files == 0
			return true, err
		}
		pending, err := p.pending(ctx)
		if err != nil || len(pending) == 0 {
			return false, err
		}
		if err := p.rewriteAll(ctx, pending); err != nil {
			return false, err
		}
		if err := p.load(ctx); err != nil {
			return false, err
		}
	}
	return false, fault.New(fault.Conflict, "others commit to table %s faster than its files are rewritten", p.result.Table).
		WithRemedy("pause other writers and repeat the call, which continues where this one ended")
}

// prepare sets the definition of the promotion. It returns true if the table already has the
// columns.
func (p *promoting) prepare(ctx context.Context) (bool, error) {
	if made, err := p.complete(); made || err != nil {
		return made, err
	}
	of := &defining{Promoter: p.Promoter, trainingTable: p.trainingTable, tables: p.tables, request: p.request}
	current, err := of.define(ctx, nil)
	if err != nil {
		return false, err
	}
	same, err := of.continued(ctx, current)
	if err != nil {
		return false, err
	}
	p.definition, p.result.Continued = same, same != nil
	if same == nil {
		p.renew(current)
		if err := current.number(p.state); err != nil {
			return false, err
		}
		p.definition = current
	}
	p.describe()
	return false, nil
}

// hold keeps the snapshots of the staging tables from expiring until the Handle is released.
func (p *promoting) hold(ctx context.Context) (*release.Handle, error) {
	if p.options.Hold == nil {
		return nil, nil //nolint:nilnil // a nil Handle holds nothing
	}
	var held []*release.Handle
	for _, s := range p.definition.dataset.Staging {
		t, err := p.options.Catalog.At(ctx, s.Table, p.definition.pins[s.Name])
		if err == nil {
			var one *release.Handle
			one, err = p.options.Hold(ctx, t)
			held = append(held, one)
		}
		if err != nil {
			release.All(held...).Release()
			return nil, fault.Op(err, "staging table %s", s.Name)
		}
	}
	return release.All(held...), nil
}

// describe sets the prefix of file names, and the parts of the result that follow from the
// definition.
func (p *promoting) describe() {
	d := p.definition
	p.prefix = filePrefix(d.id, d.columns[0].column.ID)
	p.result.Columns = nil
	p.result.Promotion, p.result.Before, p.result.Schema = d.id, p.state.Current, p.state.Current
	p.result.Snapshots, p.result.Matches = map[string]dataset.SnapshotID{}, map[string]MatchCounts{}
	for name, pin := range d.pins {
		p.result.Snapshots[name] = dataset.SnapshotID(pin.Snapshot)
	}
	for _, c := range d.columns {
		out := PromotedColumn{Name: c.name, ID: c.column.ID, Entry: c.entry, Type: c.typed.String()}
		if c.replaces != 0 {
			out.Old = p.oldName(c)
		}
		p.result.Columns = append(p.result.Columns, out)
	}
}

// complete reports whether the current schema has the columns of all requested entries. It does not
// need the entries' tables. It returns an error if the schema has the columns of only some entries.
func (p *promoting) complete() (bool, error) {
	d := p.request.Dataset.Defaults()
	chosen, err := p.chosenEntries(d, p.request.Entries)
	if err != nil {
		return false, err
	}
	var columns []PromotedColumn
	snapshots, id := map[string]dataset.SnapshotID{}, ""
	p.promotions = map[string]*resolve.Promotion{}
	for i, made := range resolve.Promotions(d, p.named()) {
		name := d.Staging[i].Name
		if made == nil || !slices.ContainsFunc(chosen, func(s dataset.Staging) bool { return s.Name == name }) {
			continue
		}
		for _, c := range made.Columns {
			columns = append(columns, PromotedColumn{Name: c.Origin.Name, ID: c.ID, Entry: name, Type: c.Type.String()})
		}
		snapshots[name], id = dataset.SnapshotID(made.Pin.Snapshot), made.Columns[0].Origin.Promotion
		p.promotions[name] = made
	}
	switch len(snapshots) {
	case 0:
		return false, nil
	case len(chosen):
		p.result.Promotion, p.result.Columns, p.result.Snapshots, p.result.Existed = id, columns, snapshots, true
		p.result.Schema, p.result.Before = p.state.Current, p.state.Current
		return true, nil
	}
	return false, fault.InvalidField("entries", "entry %s was promoted already, and other entries were not", slices.Sorted(maps.Keys(snapshots))[0]).
		WithRemedy("name only entries that were not promoted")
}

// pending returns the nonempty files of main that lack the columns, in the catalog's order. It
// returns an error if the commit that replaces one of them would fail.
func (p *promoting) pending(ctx context.Context) ([]catalog.File, error) {
	all, err := p.files(ctx, p.options.Catalog)
	if err != nil {
		return nil, err
	}
	lacks := func(location string) bool { return !p.has(location) }
	if p.filled != nil {
		lacking, err := p.lacking(ctx, columnIDs(p.filled), all)
		if err != nil {
			return nil, err
		}
		lacks = func(location string) bool { return lacking[location] }
	}
	var out []catalog.File
	for _, f := range all {
		if f.Rows == 0 || !lacks(f.Location) {
			continue
		}
		if err := datafile.CheckSpec(p.state, f.Spec); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	p.progress.list(len(all), len(all)-len(out))
	if p.result.Commits == 0 && p.result.Files == 0 {
		p.result.Skipped = len(all) - len(out)
	}
	return out, nil
}
