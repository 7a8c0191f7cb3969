package promote

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
)

// madeColumn is a column of an earlier promotion in some schema of the table.
type madeColumn struct {
	catalog.Field
	dataset.ColumnOrigin
}

// earlier is an earlier promotion.
type earlier struct {
	id      string
	columns []madeColumn // by field id
}

// last returns the highest field id of the promotion's columns. Later promotions have higher field
// ids.
func (e earlier) last() int { return e.columns[len(e.columns)-1].ID }

// attempt returns the number of restarts with the same snapshots.
func (e earlier) attempt() int { return e.columns[0].Attempt }

// pins returns the snapshots of the staging tables, by entry.
func (e earlier) pins() map[string]dataset.TablePin {
	out := map[string]dataset.TablePin{}
	for _, c := range e.columns {
		out[c.Entry] = c.TablePin
	}
	return out
}

// promotions returns the promotions in a table's schemas, newest first.
func promotions(schemas []commit.TableSchema) []earlier {
	found := map[string]map[int]madeColumn{}
	for _, s := range schemas {
		for _, f := range s.Fields {
			origin, ok := dataset.OriginOf(s.Docs[f.ID])
			if !ok {
				continue
			}
			if found[origin.Promotion] == nil {
				found[origin.Promotion] = map[int]madeColumn{}
			}
			found[origin.Promotion][f.ID] = madeColumn{f, origin}
		}
	}
	var out []earlier
	for id, columns := range found {
		one := earlier{id: id}
		for _, field := range slices.Sorted(maps.Keys(columns)) {
			one.columns = append(one.columns, columns[field])
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b earlier) int { return b.last() - a.last() })
	return out
}

// continued returns the definition of an earlier promotion that can be resumed: it promoted the
// same entries with the same definitions. It returns nil if there is no such promotion.
func (p *defining) continued(ctx context.Context, current *definition) (*definition, error) {
	if p.request.Earlier == Restart {
		return nil, nil //nolint:nilnil // there is none
	}
	for _, e := range promotions(p.state.Schemas) {
		pins := e.pins()
		if len(pins) != len(current.pins) {
			continue
		}
		if p.isOf(e, current) {
			current.id, current.attempt = e.id, e.attempt()
			return current, current.numberAs(e, p.state)
		}
		d, equal := *current, true
		d.pins = pins
		for name := range current.pins {
			equal = equal && pins[name].Whole()
		}
		if !equal || !p.isOf(e, &d) {
			continue // it promoted other entries, or entries with other definitions
		}
		if p.isCurrent(e) {
			return nil, nil //nolint:nilnil // it is complete, and the new promotion replaces its columns
		}
		if p.request.Earlier == ContinueEqual {
			return nil, unlikeEarlier(p.request.Dataset.Training.Table, e, current)
		}
		same, err := p.define(ctx, pins)
		if err != nil {
			return nil, err
		}
		same.id, same.attempt = e.id, e.attempt()
		return same, same.numberAs(e, p.state)
	}
	return nil, nil //nolint:nilnil // there is none
}

// unlikeEarlier returns the error for an unfinished earlier promotion that has values of other
// snapshots.
func unlikeEarlier(table string, e earlier, current *definition) error {
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(current.pins)) {
		if was, is := e.pins()[name].Snapshot, current.pins[name].Snapshot; was != is {
			differ = append(differ, name+" from snapshot "+strconv.FormatInt(was, 10)+" to "+strconv.FormatInt(is, 10))
		}
	}
	return fault.New(fault.Conflict, "table %s has columns of promotion %s of the same entries, which is not current: it was interrupted or undone, and staging tables changed since: %s",
		table, e.id, strings.Join(differ, ", ")).In(table, "").
		WithRemedy("continue with its values with --continue, or begin again with the current ones with --restart")
}

// numberAs assigns the field ids of an earlier promotion to the columns.
func (d *definition) numberAs(e earlier, state *commit.TableState) error {
	like := *state
	like.LastColumn = e.columns[0].ID - 1
	if err := d.number(&like); err != nil {
		return err
	}
	equal := len(d.columns) == len(e.columns)
	for i := 0; equal && i < len(d.columns); i++ {
		equal = d.columns[i].column.ID == e.columns[i].ID && d.columns[i].name == e.columns[i].ColumnOrigin.Name
	}
	if !equal {
		return fault.New(fault.Conflict, "table %s has other columns of promotion %s than this one", state.Table.Name, e.id).
			WithRemedy("begin again with --restart")
	}
	return nil
}

// oldSuffix is appended to the name of a column that a promoted one replaces.
const oldSuffix = "__before_promotion"

// reserve adds the schema with the new columns without making it current, and returns its id. A dry
// run only checks that the schema can be added.
func (p *promoting) reserve(ctx context.Context) (int, error) {
	return p.tables.AddSchema(ctx, p.edit())
}

// edit returns the change of the schema that adds the new columns.
func (p *promoting) edit() commit.SchemaEdit {
	edit := commit.SchemaEdit{Table: p.table, UUID: p.state.Table.Pin.UUID, Base: p.state.Current, Rename: map[int]string{}, DryRun: p.request.DryRun}
	edit.Add = p.columns()
	for _, c := range p.definition.columns {
		if c.replaces != 0 {
			edit.Rename[c.replaces] = p.oldName(c)
		}
	}
	return edit
}

// columns returns the columns to add, with their documentation.
func (p *promoting) columns() []commit.NewColumn {
	var out []commit.NewColumn
	for _, c := range p.definition.columns {
		made := c.column
		at := slices.IndexFunc(p.definition.dataset.Staging, func(s dataset.Staging) bool { return s.Name == c.entry })
		s := p.definition.dataset.Staging[at]
		made.Doc = dataset.ColumnOrigin{
			Promotion: p.definition.id, Entry: c.entry, Table: s.Table, TablePin: p.definition.pins[c.entry],
			Definition: s.PromotionDigest(p.definition.dataset.Key), Columns: p.definition.columnsOf(c.entry),
			Replaces: c.replaces, Name: c.name, Nullable: c.nullable, Attempt: p.definition.attempt,
		}.Doc(c.source)
		out = append(out, made)
	}
	return out
}
