package stage

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/internal/sortkey"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
)

// newVersion is the format version of new tables.
const newVersion = 2

// descending is the suffix of columns to sort by in descending order.
const descending = " desc"

// plan returns the target of a request for a table that does not exist. The table is created with
// its first snapshot or, if the catalog chooses its folder, after all rows are read. unknown is the
// NotFound error for the table.
func (c *staging) plan(ctx context.Context, unknown error) (*datafile.Target, error) {
	if len(c.request.Key) == 0 || c.request.Buckets == 0 && c.request.Like == "" {
		e := *fault.As(unknown)
		e.Remedy = "to create the table, name its key, and a number of buckets or the training table that it is to be bucketed like"
		return nil, &e
	}
	if c.request.Branch != commit.Main {
		return nil, fault.InvalidField("branch", "branch %s cannot begin at %s, which has no snapshot", c.request.Branch, commit.Main).
			In(c.request.Table, "").WithRemedy("stage the first rows to %s", commit.Main)
	}
	state, columns, err := datafile.NewTable(c.request.Table, newVersion, c.input)
	if err != nil {
		return nil, err
	}
	state.Table.Pin.Snapshot = dataset.NoSnapshot
	properties := map[string]string{"write.parquet.compression-codec": "zstd"}
	if !c.request.AllowDuplicates {
		properties[commit.PropertyKey] = string(jsontext.Of(c.request.Key))
	}
	p := &planning{
		table: &commit.NewTable{Table: c.request.Table, Version: newVersion, Columns: columns, Properties: properties},
		state: state,
	}
	asked := requestedLayout{request: c.request, route: c.options.Route}
	fields, err := asked.fields(ctx, p.state.Table)
	if err != nil {
		return nil, err
	}
	for _, by := range fields {
		if err := p.partition(by); err != nil {
			return nil, err
		}
	}
	if err := p.sort(c.request); err != nil {
		return nil, err
	}
	c.result.Partition, c.result.Taken = texts(fields), asked.taken
	t, err := c.match(p.state)
	if err != nil {
		return nil, err
	}
	c.creates = p.table
	p.state.Table.Location, err = c.tables.MayCreate(*p.table)
	return t, err
}

// planning builds a new table and its future state.
type planning struct {
	table *commit.NewTable
	state *commit.TableState
}

// sort sets the table's sort order.
func (p *planning) sort(request dataset.TableWrite) error {
	field, names := "sort", request.Sort
	if len(names) == 0 {
		field, names = "key", request.Key
	}
	p.state.SortOrder = 1
	var order catalog.SortOrder
	for _, name := range names {
		name, down := strings.CutSuffix(name, descending)
		f, ok := p.state.Table.Field(name)
		if !ok {
			return datafile.UnknownColumn(field, name, p.state.Table.Names())
		}
		if !sortkey.Supported(f.Type) {
			return fault.InvalidField(field, "rows cannot be sorted by column %q of type %s", name, f.Type).WithRemedy("sort by other columns")
		}
		p.table.Sort = append(p.table.Sort, commit.SortBy{Column: f.ID, Transform: string(catalog.Identity), Descending: down, NullsLast: down})
		order = append(order, catalog.SortField{Source: f.ID, Transform: catalog.Transform{Kind: catalog.Identity}, Descending: down, NullsFirst: !down})
	}
	p.state.Table.SortOrders[1] = order
	return nil
}

// create creates the table, and adopts its field ids, which the catalog may choose. If another call
// created the table concurrently, its layout must be the same.
func (c *staging) create(ctx context.Context) error {
	err := c.tables.Create(ctx, *c.creates)
	if err != nil && (fault.KindOf(err) != fault.Conflict || commit.Uncertain(err)) {
		return err
	}
	c.empty = err == nil
	state, err := c.tables.State(ctx, c.request.Table, commit.Main)
	if err != nil {
		return err
	}
	return c.adopt(state, func(t, planned *datafile.Target) bool {
		return len(t.Added) == 0 && t.Fitted.Equal(planned.Fitted) &&
			slices.Equal(t.Layout.Partition, planned.Layout.Partition) && slices.Equal(t.Layout.Sort, planned.Layout.Sort)
	})
}

// leftEmpty adds to the error of a call that the table that it created stays, without rows. Catalogs
// that create tables themselves cannot drop one on the condition that it is still empty, and another
// call may use it already.
func (c *staging) leftEmpty(err error) error {
	if err == nil || !c.empty || commit.Uncertain(err) {
		return err
	}
	e := *fault.As(err)
	note := "the call created table " + c.shown + ", which has no rows; a repeated call uses it"
	if e.Remedy != "" {
		note = e.Remedy + "; " + note
	}
	e.Remedy, e.Err = note, err
	return &e
}

// adopt continues with a table that exists now, if its target is the same as the planned one.
func (c *staging) adopt(state *commit.TableState, same func(t, planned *datafile.Target) bool) error {
	t, err := c.match(state)
	if err != nil {
		return err
	}
	if !same(t, c.target) {
		return fault.New(fault.Conflict, "table %s was created by another program meanwhile, with another layout", c.request.Table).In(c.request.Table, "").
			WithRemedy("look at the table, and repeat the call")
	}
	c.target, c.creates = t, nil
	return nil
}
