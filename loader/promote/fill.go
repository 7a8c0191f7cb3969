package promote

import (
	"context"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// fill adds the columns of promoted entries to the files of main that lack them: to files that other
// programs added, and to files of a branch or of an earlier snapshot. Datasets join an entry until
// no file lacks its columns, and the columns get the values of the join, so reads return the same
// rows before, during and after the call. Older columns are added first, because later ones may be
// computed from them.
func (p *promoting) fill(ctx context.Context) error {
	entries := slices.SortedFunc(maps.Keys(p.promotions), func(a, b string) int {
		return p.promotions[a].Columns[0].ID - p.promotions[b].Columns[0].ID
	})
	p.result.Matches = map[string]MatchCounts{}
	for _, name := range entries {
		if err := p.fillEntry(ctx, name); err != nil {
			return fault.Op(err, "add the columns of entry %s to files that lack them", name)
		}
	}
	return nil
}

// fillEntry adds the columns of one entry. Sets of entries that were promoted together are not kept
// together, because a file may have the columns of only some of them.
func (p *promoting) fillEntry(ctx context.Context, name string) error {
	p.filled, p.checks = p.promotions[name], rowChecks{options: p.options, compared: map[string]bool{}}
	if err := p.load(ctx); err != nil {
		return err
	}
	pending, err := p.pending(ctx)
	if err != nil || len(pending) == 0 {
		return err
	}
	if err := p.defineFilled(ctx, name); err != nil {
		return err
	}
	if err := p.checkFilled(ctx, name); err != nil {
		return err
	}
	p.held.Release() // the Handle of the previous entry
	if p.held, err = p.hold(ctx); err != nil {
		return err
	}
	if _, err := p.tables.FileStore(ctx, p.table, p.state.DataFolder()); err != nil {
		return err
	}
	if err := p.checks.matches(ctx, p.trainingTable, p.definition, p.request.DryRun); err != nil {
		return err
	}
	if p.request.DryRun {
		return p.estimate(ctx)
	}
	_, err = p.rewrite(ctx)
	return err
}

// checkFilled returns Conflict if an entry is joined at a later snapshot than the promoted one while files lack its
// columns: reads would return other values after the call. With Continue, the caller needs the promoted values.
func (p *promoting) checkFilled(ctx context.Context, name string) error {
	if p.request.Earlier == Continue {
		return nil
	}
	s := p.definition.dataset.Staging[0]
	now, err := p.options.Catalog.Table(ctx, s.Table, s.Ref)
	if err != nil || now.Pin.Snapshot == p.filled.Pin.Snapshot {
		return err
	}
	return fault.New(fault.Conflict, "entry %s was promoted at snapshot %d of table %s, which is at snapshot %d now: files that lack the columns would get the values of the earlier snapshot",
		name, p.filled.Pin.Snapshot, s.Table, now.Pin.Snapshot).In(p.shown, "").
		WithRemedy("add those values with --continue; or demote the columns and promote the entry again, for the values of the current snapshot")
}

// load sets the state to the current one. If the call fills columns, the table of the state is as it
// was before these columns were promoted, so that names have the meaning that they had then.
func (p *promoting) load(ctx context.Context) error {
	state, err := p.tables.State(ctx, p.table, commit.Main)
	if err != nil {
		return err
	}
	if p.filled != nil {
		for _, c := range p.filled.Columns {
			if state.Table.Origins[c.ID] != c.Origin {
				return fault.New(fault.Conflict, "table %s has no column %s any more: it was demoted or changed during the call", p.shown, c.Origin.Name).In(p.shown, "").
					WithRemedy("repeat the call to promote the entry anew")
			}
		}
		before := *state
		before.Table = resolve.BeforeColumn(state.Table, p.filled.Columns[0].ID)
		state = &before
	}
	p.state = state
	return nil
}

// columnIDs returns the field ids of the columns of a promotion.
func columnIDs(p *resolve.Promotion) []int {
	out := make([]int, len(p.Columns))
	for i, c := range p.Columns {
		out[i] = c.ID
	}
	return out
}

// lacking returns the locations of the given files that lack a column, as readers of datasets see
// it.
func (p *promoting) lacking(ctx context.Context, columns []int, files []catalog.File) (map[string]bool, error) {
	sizer, ok := p.options.Catalog.(catalog.Sizer)
	if !ok || len(files) == 0 {
		return nil, nil
	}
	return catalog.Lacking(ctx, sizer, p.named(), columns, files)
}

// defineFilled sets the definition of an entry as it was promoted.
func (p *promoting) defineFilled(ctx context.Context, name string) error {
	request := p.request
	request.Entries = []string{name}
	of := &defining{Promoter: p.Promoter, trainingTable: p.trainingTable, tables: p.tables, request: request}
	d, err := of.define(ctx, map[string]dataset.TablePin{name: p.filled.Pin})
	if kind := fault.KindOf(err); err != nil && (kind == fault.Expired || kind == fault.NotFound) {
		return fault.As(fault.Op(err, "read the snapshot that was promoted")).
			WithRemedy("demote the columns, and promote the entry with the current snapshot of its table")
	}
	if err != nil {
		return err
	}
	if err := d.numberLike(p.filled, p.state); err != nil {
		return err
	}
	d.id = p.filled.Columns[0].Origin.Promotion
	p.definition = d
	// The name of a file says that it has all columns of a promotion, and the new files may lack those
	// of other entries. So they have a prefix of their own, which no promotion takes for its own.
	p.prefix = filePrefix(digest.Of(struct{ promotion, filled string }{d.id, name})[:identityDigits], p.filled.Columns[0].ID)
	return nil
}

// numberLike gives the columns the field ids of a promotion of the same entry.
func (d *definition) numberLike(made *resolve.Promotion, state *commit.TableState) error {
	for i := range d.columns {
		c := &d.columns[i]
		at := slices.IndexFunc(made.Columns, func(m resolve.PromotedColumn) bool { return m.Origin.Name == c.name && m.Origin.Replaces == c.replaces })
		if at < 0 || len(d.columns) != len(made.Columns) {
			return fault.New(fault.Conflict, "table %s has other columns of entry %s than the entry adds", state.Table.Name, c.entry).
				WithRemedy("demote the columns, and promote the entry again")
		}
		var err error
		c.column, c.stored, err = datafile.NumberColumn(arrow.Field{Name: c.name, Type: c.typed, Nullable: true}, c.uuid, made.Columns[at].ID-1, state.Version)
		if err != nil {
			return fault.Op(err, "column %s", c.name)
		}
	}
	return nil
}

// checkSources returns an error if a file lacks a promoted column from which values of the new
// columns are computed, such as a column that an overlay replaces. That column must be filled first,
// because the values would be computed from nulls.
func (p *promoting) checkSources(ctx context.Context, values *valuePlan, pending []catalog.File) error {
	for _, id := range values.Planned.Planned.Training {
		o, ok := p.state.Table.Origins[id]
		if !ok {
			continue
		}
		lacking, err := p.lacking(ctx, []int{id}, pending)
		if err != nil {
			return err
		}
		if len(lacking) > 0 {
			return fault.New(fault.Conflict, "%s of table %s lack column %s of entry %s, from which the values are computed",
				fault.Count(len(lacking), "file"), p.shown, o.Name, o.Entry).In(p.shown, "").WithRemedy("first promote entry %s again", o.Entry)
		}
	}
	return nil
}

// checkFilled compares filled columns with the join before their files become part of the table,
// because readers see them at once.
func (r *replacing) checkFilled(ctx context.Context) error {
	if r.filled == nil {
		return nil
	}
	old, read := make([]catalog.File, len(r.group)), map[string]rewritten{}
	for i, f := range r.group {
		old[i], read[f.old.Location] = f.old, f
	}
	raw, err := r.checks.withNew(ctx, r.trainingTable, r.definition, r.state.Current)
	if err != nil {
		return err
	}
	raw.read = read
	rows, err := r.checks.compareFiles(ctx, raw, r.definition, old)
	r.result.Compared += rows
	if fault.KindOf(err) == fault.Corrupt {
		return fault.As(err).WithRemedy("no file with these values is in the table; report this")
	}
	return err
}
