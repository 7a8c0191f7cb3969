package promote

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/transaction"
)

// Demotion is the result of Demote; for a dry run, the expected result.
type Demotion struct {
	Table string `json:"table"`
	// Dropped has the names of the dropped columns, and Restored has the names that replaced
	// columns regained. Both are empty if the promotions were already undone.
	Dropped  []string `json:"dropped"`
	Restored []string `json:"restored,omitempty"`
	// Entries has the names of the entries that the dropped columns came from. Datasets with these
	// entries join them again.
	Entries []string `json:"entries,omitempty"`
	// Losing has the columns that datasets without the entries lose, by dataset. They can be read
	// without these columns. It is empty if the datasets were not checked.
	Losing map[string][]string `json:"losing,omitempty"`
	Schema int                 `json:"schema"`
	Before int                 `json:"schema_before"`
}

// DemotionRequest is a request to undo the promotions that made columns of a table.
type DemotionRequest struct {
	Table   string
	Columns []string
	// DryRun changes nothing.
	DryRun bool
	ReaderOptions
}

// demoting is one call of Demote.
type demoting struct {
	*Promoter
	trainingTable
	request DemotionRequest
	tables  PromotedTables
	result  Demotion
}

// Demote undoes the promotions that the named columns belong to. It changes only the table's
// schema: it drops all columns of these promotions and restores the names of the columns that they
// replaced. No data file is written or removed, and no row is lost. The values stay in the files,
// so that the same promotion can be repeated. Repeated calls and dry runs change nothing.
//
// Errors: Invalid for a column that no promotion created, Conflict if a dataset could not be read
// without the columns or would have other values, if other writers keep changing the schema, or if
// they have dropped a replaced column, and the errors of Promote for tables and storage.
func (p *Promoter) Demote(ctx context.Context, request DemotionRequest) (Demotion, error) {
	c := &demoting{Promoter: p, request: request, result: Demotion{Table: request.Table}}
	c.shown = request.Table
	var err error
	if c.tables, c.table, err = p.options.Route(request.Table); err == nil {
		_, err = transaction.Transaction{Tables: c.tables, Table: c.table, Branch: commit.Main, Prepare: c.prepare}.Run(ctx)
	}
	return c.result, fault.Op(err, "take promoted columns of table %s back", request.Table)
}

// prepare prepares the schema change of an attempt.
func (d *demoting) prepare(ctx context.Context, a *transaction.Attempt) error {
	d.state = a.State
	d.result = Demotion{Table: d.shown, Dropped: []string{}, Before: d.state.Current, Schema: d.state.Current}
	edit, err := d.edit()
	if err != nil || len(edit.Drop) == 0 {
		return err
	}
	if err := d.checkReaders(ctx, edit); err != nil || d.request.DryRun {
		return err
	}
	a.Commit = func(ctx context.Context) (made commit.Committed, err error) {
		schema, err := d.tables.AddSchema(ctx, edit)
		if err != nil {
			return made, err
		}
		err = d.tables.SetSchema(ctx, commit.SchemaMove{Table: edit.Table, UUID: edit.UUID, From: edit.Base, To: schema})
		if err == nil {
			d.result.Schema = schema
		}
		return made, err
	}
	return nil
}

// edit returns the schema change that undoes the promotions of the requested columns.
func (d *demoting) edit() (commit.SchemaEdit, error) {
	state, result := d.state, &d.result
	current, _ := state.SchemaOf(state.Current)
	out := commit.SchemaEdit{Table: state.Table.Name, UUID: state.Table.Pin.UUID, Base: state.Current, Rename: map[int]string{}}
	taken, err := promotionsOf(state, current, d.request.Columns)
	if err != nil {
		return out, err
	}
	for _, f := range current.Fields {
		if o, ok := dataset.OriginOf(current.Docs[f.ID]); ok && taken[o.Promotion] {
			out.Drop, result.Dropped = append(out.Drop, f.ID), append(result.Dropped, f.Name)
			if !slices.Contains(result.Entries, o.Entry) {
				result.Entries = append(result.Entries, o.Entry)
			}
		}
	}
	for _, f := range current.Fields {
		o, ok := dataset.OriginOf(current.Docs[f.ID])
		if !ok || o.Replaces == 0 {
			continue
		}
		switch replacedIsDropped := slices.Contains(out.Drop, o.Replaces); {
		case replacedIsDropped && !taken[o.Promotion]:
			return out, fault.New(fault.Conflict, "entry %s was promoted later, and its column %s replaced one of these columns", o.Entry, f.Name).
				WithRemedy("take column %s back, too", f.Name)
		case replacedIsDropped || !taken[o.Promotion]:
			continue
		case !slices.ContainsFunc(current.Fields, func(old catalog.Field) bool { return old.ID == o.Replaces }):
			return out, fault.New(fault.Conflict, "the column that column %s replaced was dropped since, and has no name to take back", f.Name).
				WithRemedy("drop column %s with another engine if the table is to have none of that name", f.Name)
		default:
			out.Rename[o.Replaces], result.Restored = o.Name, append(result.Restored, o.Name)
		}
	}
	return out, nil
}

// promotionsOf returns the ids of the promotions that created the named columns of the current
// schema. It skips columns whose promotions were already undone.
func promotionsOf(state *commit.TableState, s commit.TableSchema, columns []string) (map[string]bool, error) {
	out := map[string]bool{}
	var promoted []string
	of := map[string]string{}
	for _, f := range s.Fields {
		if o, ok := dataset.OriginOf(s.Docs[f.ID]); ok {
			promoted, of[f.Name] = append(promoted, f.Name), o.Promotion
		}
	}
	for _, name := range columns {
		id, ok := of[name]
		switch {
		case ok:
			out[id] = true
		case !takenBack(state, s, name):
			f := fault.Field{Field: "columns", Message: "the table has no promoted column " + name, Nearest: fault.Nearest(name, promoted)}
			remedy := "the table has no promoted columns"
			if len(promoted) > 0 {
				remedy = "its promoted columns are " + strings.Join(promoted, ", ")
			}
			return nil, fault.As(fault.Fields([]fault.Field{f})).WithRemedy("%s", remedy)
		}
	}
	return out, nil
}

// takenBack reports whether the promotion of a column was undone. This is so if some schema has a
// promoted column of that name, and the current schema has either no column of that name or the
// column that the promoted column had replaced.
func takenBack(state *commit.TableState, current commit.TableSchema, name string) bool {
	at := slices.IndexFunc(current.Fields, func(f catalog.Field) bool { return f.Name == name })
	for _, s := range state.Schemas {
		for _, f := range s.Fields {
			o, ok := dataset.OriginOf(s.Docs[f.ID])
			if ok && f.Name == name && (at < 0 || o.Replaces == current.Fields[at].ID) {
				return true
			}
		}
	}
	return false
}
