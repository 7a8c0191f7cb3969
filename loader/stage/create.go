package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/sortkey"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// newVersion is the format version of new tables.
const newVersion = 2

// descending ends the name of a column to sort by, in a NewLayout.
const descending = " desc"

// plan returns the target of a request for a table that does not exist. The table is created
// once all rows are read. Unknown is the error for the table.
func (c *staging) plan(ctx context.Context, unknown error) (*target, error) {
	if len(c.request.Key) == 0 || c.request.New.Buckets == 0 && c.request.New.Like == "" {
		e := *fault.As(unknown)
		e.Remedy = "to create the table, name its key, and a number of buckets or the training table that it is to be bucketed like"
		return nil, &e
	}
	if c.request.Branch != commit.Main {
		return nil, fault.InvalidField("branch", "branch %s cannot begin at %s, which has no snapshot", c.request.Branch, commit.Main).
			In(c.request.Table, "").WithRemedy("stage the first rows to %s", commit.Main)
	}
	conformed, err := conform.New(c.input)
	if err != nil {
		return nil, err
	}
	p := &planning{
		table: &commit.NewTable{Table: c.request.Table, Version: newVersion, Properties: map[string]string{"write.parquet.compression-codec": "zstd"}},
		state: &commit.TableState{Table: &catalog.Table{Name: c.request.Table, Specs: map[int]catalog.Spec{}, SortOrders: map[int]catalog.SortOrder{}}, Version: newVersion},
	}
	if err := p.columns(conformed.Schema(), c.input); err != nil {
		return nil, err
	}
	fields, err := c.layout(ctx, p.state.Table)
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
	c.result.Partition = texts(fields)
	t := &target{state: p.state, create: p.table}
	if err := c.match(t); err != nil {
		return nil, err
	}
	return t, c.tables.MayCreate(*p.table)
}

// planning makes a new table, and the state that it will have.
type planning struct {
	table *commit.NewTable
	state *commit.TableState
}

// columns adds the columns of the input, as optional ones.
func (p *planning) columns(schema, raw *arrow.Schema) error {
	numbers := fieldNumbers{version: newVersion}
	var faults []fault.Field
	paths := pathsOf{}
	for i, f := range schema.Fields() {
		refused := newName(f, i, fieldNames(schema.Fields()), paths)
		if refused != "" {
			faults = append(faults, fault.Field{Field: "columns", Message: fmt.Sprintf("column %q: %s", f.Name, refused)})
			continue
		}
		column, typed, err := numbers.column(f, raw.Field(i).Type)
		if err != nil {
			faults = append(faults, fault.Field{Field: "columns", Message: fmt.Sprintf("column %q: %s", f.Name, fault.As(err).Message)})
			continue
		}
		p.table.Columns = append(p.table.Columns, column)
		field := catalog.Field{ID: column.ID, Name: f.Name, Type: f.Type}
		if arrow.IsNested(typed.ID()) {
			field.Stored = typed
		}
		p.state.Table.Fields = append(p.state.Table.Fields, field)
		if column.Type == uuidType {
			p.state.UUIDs = append(p.state.UUIDs, column.ID)
		}
	}
	p.state.LastColumn = numbers.last
	if len(faults) > 0 {
		return fault.As(fault.Fields(faults)).WithRemedy("cast, rename or leave out these columns")
	}
	return nil
}

// sort gives the table its sort order.
func (p *planning) sort(request TableWrite) error {
	field, names := "sort", request.New.Sort
	if len(names) == 0 {
		field, names = "key", request.Key
	}
	p.state.SortOrder = 1
	var order catalog.SortOrder
	for _, name := range names {
		name, down := strings.CutSuffix(name, descending)
		f, ok := p.state.Table.Field(name)
		if !ok {
			return unknownColumn(field, name, p.state.Table.Names())
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

// create creates the table and takes its field ids, which the catalog may choose. If another
// call created it meanwhile, its layout must be the same.
func (c *staging) create(ctx context.Context) error {
	planned := c.target
	if err := c.tables.Create(ctx, *planned.create); err != nil && (fault.KindOf(err) != fault.Conflict || commit.Uncertain(err)) {
		return err
	}
	state, err := c.tables.State(ctx, c.request.Table, commit.Main)
	if err != nil {
		return err
	}
	t := &target{state: state}
	if err := c.match(t); err != nil {
		return err
	}
	same := len(t.added) == 0 && t.fitted.Equal(planned.fitted) &&
		slices.Equal(t.layout.Partition, planned.layout.Partition) && slices.Equal(t.layout.Sort, planned.layout.Sort)
	if !same {
		return fault.New(fault.Conflict, "table %s was created by another program meanwhile, with another layout", c.request.Table).In(c.request.Table, "").
			WithRemedy("look at the table, and repeat the call")
	}
	c.target = t
	return nil
}
