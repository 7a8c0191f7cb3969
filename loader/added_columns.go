package loader

import (
	"context"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// CheckAdded checks that a dataset can still be bound after columns are added to a table, given the
// table's current state. If the dataset can be bound now but not after that, CheckAdded returns the
// error of binding it. It returns Unavailable if a table does not respond.
func (l *Loader) CheckAdded(ctx context.Context, d dataset.Dataset, to *catalog.Table, added []catalog.Field) error {
	later := &Loader{options: l.options, streams: l.streams}
	later.options.Catalog = addedColumns{Catalog: l.options.Catalog, to: to, added: added}
	_, err := later.relation(ctx, d, PlanRequest{})
	if err == nil || fault.KindOf(err) == fault.Unavailable || ctx.Err() != nil {
		return err
	}
	switch _, now := l.relation(ctx, d, PlanRequest{}); {
	case now == nil:
		return err
	case fault.KindOf(now) == fault.Unavailable || ctx.Err() != nil:
		return now
	}
	return nil
}

// addedColumns is a catalog with columns added to the current schema of one table.
type addedColumns struct {
	catalog.Catalog
	to    *catalog.Table
	added []catalog.Field
}

// Table implements catalog.Catalog. Tags and snapshots keep the schema that the snapshot was committed
// with.
func (c addedColumns) Table(ctx context.Context, name string, ref dataset.Ref) (*catalog.Table, error) {
	t, err := c.Catalog.Table(ctx, name, ref)
	if err != nil || ref.Snapshot != 0 || t.FixedSchema || t.Pin.Schema != c.to.Pin.Schema || !sameTable(t, c.to) {
		return t, err
	}
	out := *t
	out.Fields = slices.Concat(t.Fields, c.added)
	return &out, nil
}
