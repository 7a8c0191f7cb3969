package loader

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// SchemaChange is a change of the current schema of a table.
type SchemaChange struct {
	Table    string         // the table's name as users write it
	From, To *catalog.Table // the table with its current schema and with the new one, at the same pin
}

// SchemaEffect describes how a change of a table's schema affects a dataset that can be bound before the change.
type SchemaEffect struct {
	Dataset string   // the dataset's name; "" if it may not be shown
	Broken  error    // the error of binding the dataset after the change; nil: the dataset can be bound
	Changed []string // columns that would have other values or another type
	Lost    []string // columns that the dataset would not have
}

// Subject names the dataset in errors.
func (e SchemaEffect) Subject() string {
	if e.Dataset == "" {
		return "a dataset of the server"
	}
	return "dataset " + e.Dataset
}

// IsZero reports whether the change does not affect the dataset.
func (e SchemaEffect) IsZero() bool {
	return e.Broken == nil && len(e.Changed) == 0 && len(e.Lost) == 0
}

// SchemaEffect returns how a change of a table's schema affects a dataset. The effect on a dataset that cannot be bound before the
// change is zero. Columns that a dataset gains are no effect. SchemaEffect returns Unavailable if a table does not respond.
func (l *Loader) SchemaEffect(ctx context.Context, d dataset.Dataset, change SchemaChange) (SchemaEffect, error) {
	out := SchemaEffect{Dataset: d.Name}
	request := PlanRequest{Query: dataset.Query{}.Defaults()}
	later := &Loader{options: l.options, streams: l.streams}
	later.options.Catalog = changedSchema{Catalog: l.options.Catalog, change: change}
	after, failure := later.relation(ctx, d, request)
	if failure != nil && (fault.KindOf(failure) == fault.Unavailable || ctx.Err() != nil) {
		return out, failure
	}
	before, err := l.relation(ctx, d, request)
	switch {
	case err != nil && (fault.KindOf(err) == fault.Unavailable || ctx.Err() != nil):
		return out, err
	case err != nil:
		return out, nil
	case failure != nil:
		out.Broken = failure
		return out, nil
	}
	out.compare(before, after)
	return out, nil
}

// compare records the columns that differ between two bindings of a dataset.
func (e *SchemaEffect) compare(before, after *resolve.Relation) {
	e.compareTables(before.Training, after.Training)
	for i, s := range before.Staging {
		if s.Promoted == nil && after.Staging[i].Promoted == nil {
			e.compareTables(s.Pinned, after.Staging[i].Pinned)
		}
	}
	for _, o := range before.Outputs {
		i := slices.IndexFunc(after.Outputs, func(later resolve.Output) bool { return later.Name == o.Name })
		switch {
		case i < 0:
			e.Lost = withName(e.Lost, o.Name)
		case !arrow.TypeEqual(o.Type(), after.Outputs[i].Type()) || o.Null != after.Outputs[i].Null:
			e.Changed = withName(e.Changed, o.Name)
		}
	}
}

// compareTables records the columns of a table whose names mean another column, or none. A dataset may use each of them: in its
// rows, keys, filters and orders.
func (e *SchemaEffect) compareTables(before, after *catalog.Table) {
	for _, f := range before.Fields {
		later, ok := after.Field(f.Name)
		switch {
		case !ok:
			e.Lost = withName(e.Lost, f.Name)
		case later.ID != f.ID:
			e.Changed = withName(e.Changed, f.Name)
		}
	}
}

func withName(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// changedSchema is a catalog in which one table has another current schema.
type changedSchema struct {
	catalog.Catalog
	change SchemaChange
}

// Table implements catalog.Catalog. Tags and snapshots keep the schema that the snapshot was committed
// with.
func (c changedSchema) Table(ctx context.Context, name string, ref dataset.Ref) (*catalog.Table, error) {
	t, err := c.Catalog.Table(ctx, name, ref)
	if err != nil || ref.Snapshot != 0 || t.FixedSchema || t.Pin.Schema != c.change.From.Pin.Schema || !sameTable(t, c.change.From) {
		return t, err
	}
	out := *t
	out.Fields, out.Nested, out.Origins = c.change.To.Fields, c.change.To.Nested, c.change.To.Origins
	return &out, nil
}

// ColumnBytes implements catalog.Sizer. The result has the sizes of the columns that the table has already: a promotion gives its
// columns to all files before they become current.
func (c changedSchema) ColumnBytes(ctx context.Context, t *catalog.Table, columns []int) (map[string]int64, error) {
	sizer, ok := c.Catalog.(catalog.Sizer)
	if sameTable(t, c.change.From) {
		columns = slices.DeleteFunc(slices.Clone(columns), func(id int) bool {
			_, has := c.change.From.ByID(id)
			return !has
		})
	}
	if !ok || len(columns) == 0 {
		return nil, nil //nolint:nilnil // nothing is known
	}
	return sizer.ColumnBytes(ctx, t, columns)
}
